"""An agent's brain answers registrations, keeps the directory, and decides only while it leads."""

from __future__ import annotations

import math

import pytest

from mangrove.control.brain import NOT_LEADING, AgentBrain
from mangrove.control.instructions import (
    Announce,
    AnswerRegistration,
    Instruction,
    PushDirectory,
    Store,
    TellClient,
)
from mangrove.control.leading.leadership import PUSH_S
from mangrove.control.stimuli import (
    ClientRegistered,
    ClientSaid,
    LeadershipLost,
    LeadershipTaken,
    Stored,
    StoreFailed,
)
from mangrove.model.agents.directory import DirectoryQuestion, DirectoryRecord
from mangrove.model.agents.registration import (
    LEASE_S,
    ClientRole,
    Leave,
    RegisterAgain,
    Registered,
    Registration,
    Report,
    Wish,
)
from mangrove.model.federation import Domain, Edge, Federation


def brain(edges: int = 2) -> AgentBrain:
    domain = Domain(name="oslo", base_port=4000, edges=(Edge(capacity=1000.0),) * edges)
    return AgentBrain(
        Federation(name="f", domains={"oslo": domain}), "oslo", "oslo-agent", seed=1, clock_shift_s=1e9
    )


def leading(edges: int = 2, directory: tuple[DirectoryRecord, ...] = ()) -> AgentBrain:
    made = brain(edges)
    told = made.handle(LeadershipTaken(term=3, directory=directory), 0.0)
    assert [type(each) for each in told] == [Announce]
    return made


def subscription(subject: str, key: str = "s", broker: str = "") -> Wish:
    return Wish(key=key, role=ClientRole.SUBSCRIBER, subject=subject, broker=broker)


def registration(
    *wishes: Wish, client: str = "c1", sequence: int = 1, complete: bool = True, ended: tuple[str, ...] = ()
) -> Registration:
    return Registration(
        client=client,
        sequence=sequence,
        public_key=b"",
        exchange_key=b"",
        wishes=wishes,
        complete=complete,
        ended=ended,
    )


def register(agent: AgentBrain, now: float, *args: Wish, **kwargs: object) -> Registered:
    told = agent.handle(ClientRegistered(registration(*args, **kwargs), token=9), now)  # type: ignore[arg-type]
    (answer,) = [each.answer for each in told if isinstance(each, AnswerRegistration)]
    return answer


def timed(agent: AgentBrain, until: float) -> list[Instruction]:
    """All that timers lead to."""
    told: list[Instruction] = []
    for _ in range(1000):
        due = agent.timer()
        if due > until:
            return told
        told += agent.handle_timer(max(due, 0.0))
    raise AssertionError("the timer never rests")


def test_nothing_is_decided_by_an_agent_that_does_not_lead() -> None:
    agent = brain()
    assert register(agent, 0.0, subscription("a.b")).problem == NOT_LEADING
    assert agent.timer() == math.inf
    assert agent.handle_timer(100.0) == []


def test_subscribers_of_one_topic_are_served_at_one_edge() -> None:
    agent = leading()
    first = register(agent, 1.0, subscription("a.b"))
    second = register(agent, 1.1, subscription("a.b"), client="c2")
    assert first.term == 3
    assert first.assignments["s"].broker == second.assignments["s"].broker
    assert first.assignments["s"].url == "nats://127.0.0.1:4010"
    other = register(agent, 1.2, subscription("a.c"), client="c3")
    assert other.assignments["s"].broker != first.assignments["s"].broker


def test_publishers_go_to_the_head_and_so_do_subscribers_of_a_domain_without_edges() -> None:
    publisher = Wish(key="p", role=ClientRole.PUBLISHER, subject="a.b")
    assert register(leading(), 1.0, publisher).assignments["p"].broker == "oslo-head"
    assert register(leading(edges=0), 1.0, subscription("a")).assignments["s"].broker == "oslo-head"


def test_changes_are_pushed_and_stored_in_one_go() -> None:
    agent = leading()
    register(agent, 1.0, subscription("a"), subscription("b", "t"))
    assert agent.timer() == pytest.approx(1.0 + PUSH_S)
    pushed, stored = agent.handle_timer(1.0 + PUSH_S)
    assert isinstance(pushed, PushDirectory)
    assert isinstance(stored, Store)
    assert [record.topic for record in pushed.changes.records] == ["a", "b"]
    epochs = [record.epoch for record in pushed.changes.records]
    assert epochs == [(3 << 32) + 1, (3 << 32) + 2]
    assert all(record.decision.startswith("oslo-agent-") for record in pushed.changes.records)
    assert {write.key for write in stored.writes} == {"a", "b"}
    assert timed(agent, 5.0) == []


def test_what_could_not_be_stored_is_stored_later() -> None:
    agent = leading()
    register(agent, 1.0, subscription("a"))
    _, stored = agent.handle_timer(2.0)
    assert isinstance(stored, Store)
    agent.handle(StoreFailed(stored.write, "away"), 2.1)
    assert agent.status(2.1).store_problem == "away"
    (again,) = timed(agent, 4.0)
    assert isinstance(again, Store)
    assert again.writes == stored.writes
    agent.handle(Stored(again.write), 4.0)
    assert agent.status(4.0).store_problem == ""
    kinds = [event.kind for event in agent.take_events()]
    assert kinds[-2:] == ["StoreLost", "StoreFound"]


def test_a_write_of_which_nothing_is_heard_is_repeated() -> None:
    agent = leading()
    register(agent, 1.0, subscription("a"))
    agent.handle_timer(1.5)
    for now in range(2, 14, 3):
        agent.handle(ClientSaid(Report(client="c1", sequence=now, span_s=1.0)), float(now))
    assert [type(each) for each in timed(agent, 13.0)] == [Store]


def test_the_last_subscriber_takes_the_record_along() -> None:
    agent = leading()
    register(agent, 1.0, subscription("a"))
    timed(agent, 2.0)
    agent.handle(ClientSaid(Leave(client="c1", sequence=2)), 3.0)
    pushed = next(each for each in timed(agent, 4.0) if isinstance(each, PushDirectory))
    (record,) = pushed.changes.records
    assert record.edges == ()
    assert agent.status(4.0).records == 0


def test_a_silent_client_has_left_and_is_told_to_register_when_it_speaks() -> None:
    agent = leading()
    register(agent, 1.0, subscription("a"))
    agent.handle(ClientSaid(Report(client="c1", sequence=2, span_s=1.0)), 10.0)
    timed(agent, 10.0 + LEASE_S - 0.1)
    assert agent.status(20.0).clients == 1
    timed(agent, 10.0 + LEASE_S + 2.0)
    assert agent.status(30.0).clients == 0
    told = agent.handle(ClientSaid(Report(client="c1", sequence=3, span_s=1.0)), 30.0)
    assert told == [TellClient("c1", RegisterAgain(term=3))]


def test_a_restart_moves_nobody() -> None:
    kept = DirectoryRecord(topic="a", domain="oslo", epoch=(2 << 32) + 7, edges=("oslo-edge2",), decision="x")
    agent = leading(directory=(kept,))
    back = register(agent, 1.0, subscription("a", broker="oslo-edge2"), subscription("b", "t", "oslo-edge1"))
    assert back.assignments["s"].broker == "oslo-edge2"
    assert back.assignments["t"].broker == "oslo-edge1"
    new = register(agent, 1.0, subscription("a"), client="c2")
    assert new.assignments["s"].broker == "oslo-edge2"
    assert agent.directory_page(DirectoryQuestion(topic="a"), 2.0).topics[0].record == kept


def test_records_that_nobody_comes_back_for_are_withdrawn() -> None:
    kept = DirectoryRecord(topic="a", domain="oslo", epoch=7, edges=("oslo-edge2",))
    foreign = DirectoryRecord(topic="b", domain="bonn", epoch=7, edges=("bonn-edge2",))
    agent = leading(directory=(kept, foreign))
    assert agent.status(0.0).records == 1
    timed(agent, 16.0)
    assert agent.status(16.0).records == 1
    timed(agent, 30.0)
    assert agent.status(30.0).records == 0


def test_who_loses_the_lead_forgets_everything() -> None:
    agent = leading()
    register(agent, 1.0, subscription("a"))
    agent.handle(LeadershipLost(), 2.0)
    status = agent.status(2.0)
    assert (status.leads, status.clients, status.records) == (False, 0, 0)
    assert agent.handle_timer(99.0) == []
    assert [event.kind for event in agent.take_events()] == ["AgentLeads", "TopicPlaced", "AgentFollows"]


def test_pages_of_the_directory() -> None:
    agent = leading()
    register(agent, 1.0, *(subscription(f"t.{number}", str(number)) for number in range(5)))
    first = agent.directory_page(DirectoryQuestion(limit=3), 2.0)
    assert [each.topic for each in first.topics] == ["t.0", "t.1", "t.2"]
    assert first.more
    rest = agent.directory_page(DirectoryQuestion(limit=3, after="t.2"), 2.0)
    assert [each.topic for each in rest.topics] == ["t.3", "t.4"]
    assert not rest.more
    (one,) = agent.directory_page(DirectoryQuestion(topic="t.3"), 2.0).topics
    assert one.subscribers == 1
