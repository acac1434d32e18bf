"""What operators ask of agents: to hand over, and to decide nothing by themselves."""

from __future__ import annotations

import msgspec
import pytest
from tests.kit.small_domain import SmallDomain

from mangrove.control.brain import AgentBrain
from mangrove.control.election.score import score_of
from mangrove.control.instructions import (
    AnswerOperator,
    FetchPolicy,
    Instruction,
    StepDown,
    Store,
    TellMembers,
)
from mangrove.control.pause import PAUSE_KEY
from mangrove.control.policies.documents import record_of
from mangrove.control.stimuli import (
    LeadershipLost,
    LeadershipTaken,
    MemberSaid,
    OperatorAsked,
    PolicyFetched,
    Stored,
    StoreFailed,
)
from mangrove.model.agents.members import BEAT_S, MemberBeat, agents_of
from mangrove.model.agents.operations import HandOverAsked, OperationAnswer, PauseAsked
from mangrove.model.federation import Domain, Edge, Federation, Host


def domain(*capacities: float | None) -> Domain:
    """One host for each capacity: the head on the first, an edge on each other."""
    head, *edges = capacities
    brokers = ["head", *(f"edge{number + 1}" for number in range(len(edges)))]
    return Domain(
        name="oslo",
        base_port=4000,
        head=Edge(capacity=head),
        edges=tuple(Edge(capacity=capacity) for capacity in edges),
        hosts=tuple(
            Host(name=f"h{number + 1}", address="127.0.0.1", brokers=(broker,))
            for number, broker in enumerate(brokers)
        ),
    )


def brain(agent: str = "oslo-agent") -> AgentBrain:
    federation = Federation(name="f", domains={"oslo": domain(None, None, None)})
    return AgentBrain(federation, "oslo", agent, seed=1, clock_shift_s=1e9, score=5.0, life=1)


def beat(agent: str = "oslo-h2-agent", sequence: int = 1, **said: object) -> MemberSaid:
    plain = {"type": "beat", "agent": agent, "life": 1, "sequence": sequence, "score": 9.0}
    return MemberSaid(msgspec.convert({**plain, **msgspec.to_builtins(said)}, MemberBeat))


def answers(told: list[Instruction]) -> list[OperationAnswer]:
    return [each.answer for each in told if isinstance(each, AnswerOperator)]


def leading(sessions: tuple[bytes, ...] = ()) -> AgentBrain:
    made = brain()
    made.handle(LeadershipTaken(term=3, sessions=sessions), 0.0)
    return made


def test_agents_are_named_by_their_hosts() -> None:
    assert agents_of(domain(None, None)) == {"oslo-agent": "h1", "oslo-h2-agent": "h2"}
    assert agents_of(Domain(name="oslo", base_port=4000)) == {"oslo-agent": ""}


def test_the_score_is_what_brokers_carry_if_that_is_known_everywhere() -> None:
    assert score_of(domain(100.0, 300.0), "h2", 7.0) == 300.0
    assert score_of(domain(100.0, None), "h1", 7.0) == 7.0, "two units are not compared"
    assert score_of(Domain(name="oslo", base_port=4000), "", 7.0) == 7.0


@pytest.mark.parametrize(
    ("to", "problem"),
    [("h9", "no agent is on 'h9'; there is h1, h2, h3"), ("h3", "oslo-h3-agent does not answer")],
)
def test_a_hand_over_that_cannot_be_is_refused_and_the_leader_stays(to: str, problem: str) -> None:
    made = leading()
    made.handle(beat(), 1.0)
    told = made.handle(OperatorAsked(HandOverAsked(to=to), 1), 1.1)
    [answer] = answers(told)
    assert answer.problem == problem
    assert not any(isinstance(each, StepDown) for each in told)


def test_a_leader_hands_over_to_who_was_named_or_to_the_strongest() -> None:
    for to in ("h2", "oslo-h2-agent", ""):
        made = leading()
        made.handle(beat(), 1.0)
        told = made.handle(OperatorAsked(HandOverAsked(to=to), 1), 1.1)
        assert [each for each in told if isinstance(each, StepDown)] == [StepDown("oslo-h2-agent")]
        assert msgspec.json.decode(answers(told)[0].result) == {"to": "oslo-h2-agent"}
    alone = leading()
    assert answers(alone.handle(OperatorAsked(HandOverAsked(), 1), 1.0))[0].problem == "no other agent lives"


def test_a_pause_is_answered_when_it_is_stored_and_outlives_the_leader() -> None:
    made = leading()
    told = made.handle(OperatorAsked(PauseAsked(paused=True, by="ann"), 1), 1.0)
    assert not answers(told)
    assert made.status(1.0).paused is not None
    [store] = [each for each in told if isinstance(each, Store)]
    told = made.handle(Stored(store.write), 1.1)
    assert [answer.problem for answer in answers(told)] == [""]
    [write] = [write for write in store.writes if write.key == PAUSE_KEY]
    assert write.value is not None
    successor = leading((b"nonsense", write.value))
    paused = successor.status(2.0).paused
    assert paused is not None
    assert (paused.by, paused.since) == ("ann", 1e9 + 1.0)
    told = successor.handle(OperatorAsked(PauseAsked(paused=False), 1), 3.0)
    [store] = [each for each in told if isinstance(each, Store)]
    assert (store.writes[0].key, store.writes[0].value) == (PAUSE_KEY, None)
    kinds = [event.kind for event in successor.take_events()]
    assert kinds[-1] == "DecisionsResumed"


def test_a_pause_that_cannot_be_stored_is_none() -> None:
    made = leading()
    told = made.handle(OperatorAsked(PauseAsked(paused=True), 1), 1.0)
    [store] = [each for each in told if isinstance(each, Store)]
    second = made.handle(OperatorAsked(PauseAsked(paused=False), 2), 1.05)
    assert "another such wish" in answers(second)[0].problem
    told = made.handle(StoreFailed(store.write, "it is away"), 1.1)
    assert "could not be stored: it is away" in answers(told)[0].problem
    assert made.status(1.2).paused is None


def test_no_session_begins_while_decisions_are_paused() -> None:
    small = SmallDomain({"a": 600.0, "b": 400.0}, {"a": "edge1", "b": "edge1"})
    small.coordinator.begin(1, (), 0.0)
    small.coordinator._paused = lambda: True
    assert small.coordinator.consider(1.0) == []
    assert small.kinds() == []
    small.coordinator._paused = lambda: False
    assert small.coordinator.consider(2.0)
    assert "SessionOpened" in small.kinds()


def test_an_agent_beats_at_once_when_something_changes_and_else_from_time_to_time() -> None:
    made = brain()
    first = [each.beat for each in made.handle_timer(0.0) if isinstance(each, TellMembers)]
    assert [(each.leads, each.sequence) for each in first] == [(False, 1)]
    assert made.handle_timer(0.1) == []
    assert made.timer() == BEAT_S
    [taken] = [
        each.beat for each in made.handle(LeadershipTaken(term=3), 0.2) if isinstance(each, TellMembers)
    ]
    assert (taken.leads, taken.term) == (True, 3)
    [lost] = [each.beat for each in made.handle(LeadershipLost(), 0.3) if isinstance(each, TellMembers)]
    assert not lost.leads
    assert [each for each in made.handle(beat(), 0.4) if isinstance(each, TellMembers)], (
        "a newcomer is greeted"
    )


def test_a_follower_holds_what_is_proposed_and_has_it_in_force_when_it_is_committed() -> None:
    made = brain("oslo-h3-agent")
    record, other = record_of(4, b"plan"), record_of(5, b"later")
    told = made.handle(beat(sequence=1, leads=True, term=2, proposed=record), 1.0)
    assert FetchPolicy(record) in told
    told = made.handle(PolicyFetched(record, b"another body"), 1.1)
    assert made.status(1.1).refused, "a body that is not what was proposed"
    assert FetchPolicy(record) in made.handle_timer(2.0)
    [said] = [
        each.beat
        for each in made.handle(PolicyFetched(record, b"plan"), 2.1)
        if isinstance(each, TellMembers)
    ]
    assert said.held == record
    made.handle(beat("oslo-agent", leads=True, term=1), 2.2)
    assert made.handle(beat(sequence=2, leads=True, term=2, proposed=record), 2.3) == []
    made.handle(beat(sequence=3, leads=True, term=2, committed=record), 2.4)
    assert made.policy == record
    told = made.handle(beat(sequence=4, leads=True, term=2, committed=other), 2.5)
    assert FetchPolicy(other) in told, "who was away catches up"
    made.handle(PolicyFetched(other, b"later"), 2.6)
    assert made.policy == other
