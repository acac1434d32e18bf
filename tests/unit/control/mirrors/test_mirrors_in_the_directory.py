"""Records name mirrors: chosen with every decision, for subscribers, publishers and patterns."""

from __future__ import annotations

from mangrove.control.brain import AgentBrain
from mangrove.control.instructions import AnswerRegistration
from mangrove.control.leading.leadership import Leadership
from mangrove.control.stimuli import BrokerUnreachable, ClientRegistered, ClientSaid, LeadershipTaken
from mangrove.model.agents.directory import DirectoryRecord
from mangrove.model.agents.registration import (
    MIRRORED_KEY,
    ClientRole,
    Registered,
    Registration,
    Report,
    Traffic,
    Wish,
)
from mangrove.model.federation import Domain, Edge, Federation
from mangrove.model.topics import Contract, Mirror, TopicRules

RULES = TopicRules(
    (Contract(match="alert.>", mirror=Mirror.BOTH), Contract(match="meter.>", mirror=Mirror.STANDBY))
)


def leading(edges: int = 3, directory: tuple[DirectoryRecord, ...] = ()) -> AgentBrain:
    domain = Domain(name="oslo", base_port=4000, edges=(Edge(capacity=1000.0),) * edges)
    federation = Federation(name="f", domains={"oslo": domain}, topics=RULES)
    brain = AgentBrain(federation, "oslo", "oslo-agent", seed=1, clock_shift_s=1e9)
    brain.handle(LeadershipTaken(term=3, directory=directory), 0.0)
    return brain


def register(
    brain: AgentBrain,
    *wishes: Wish,
    client: str = "c1",
    sequence: int = 1,
    ended: tuple[str, ...] = (),
    now: float = 100.0,
) -> Registered:
    registration = Registration(
        client=client,
        sequence=sequence,
        public_key=b"",
        exchange_key=b"",
        wishes=wishes,
        complete=sequence == 1,
        ended=ended,
    )
    told = brain.handle(ClientRegistered(registration, 1), now)
    (answer,) = [each.answer for each in told if isinstance(each, AnswerRegistration)]
    return answer


def subscriber(subject: str, key: str = "s1", queue: str = "") -> Wish:
    return Wish(key=key, role=ClientRole.SUBSCRIBER, subject=subject, queue=queue)


def publisher(subject: str, key: str = "p1") -> Wish:
    return Wish(key=key, role=ClientRole.PUBLISHER, subject=subject)


def leadership(brain: AgentBrain) -> Leadership:
    lead = brain._lead
    assert lead is not None
    return lead


def test_a_subscriber_and_a_publisher_learn_of_one_mirror() -> None:
    brain = leading()
    (record,) = register(brain, subscriber("alert.fire")).records
    assert record.mode is Mirror.BOTH
    assert record.mirror
    assert record.mirror not in (*record.edges, "oslo-head")
    assert register(brain, publisher("alert.fire"), client="c2").records == (record,)


def test_topics_without_a_mirror_have_none_and_publishers_make_no_records() -> None:
    brain = leading()
    (record,) = register(brain, subscriber("other"), publisher("more")).records
    assert (record.topic, record.mirror, record.mode) == ("other", "", Mirror.NONE)


def test_a_publisher_of_what_nobody_here_subscribes_to_has_a_mirror_until_it_leaves() -> None:
    brain = leading()
    (record,) = register(brain, publisher("meter.a")).records
    assert (record.edges, record.mode) == ((), Mirror.STANDBY)
    assert record.mirror.startswith("oslo-edge")
    register(brain, sequence=2, ended=("p1",))
    assert leadership(brain).parts.directory.get("meter.a") is None


def test_a_publisher_is_told_of_the_mirrors_of_patterns_over_its_subject() -> None:
    brain = leading()
    register(brain, subscriber("alert.>"))
    records = {each.topic: each for each in register(brain, publisher("alert.fire"), client="c2").records}
    assert set(records) == {"alert.>", "alert.fire"}
    assert records["alert.fire"].mirror == records["alert.>"].mirror, "one more copy would be of no use"


def test_what_is_moved_onto_its_mirror_gets_another_in_the_same_record() -> None:
    brain = leading()
    (before,) = register(brain, subscriber("alert.fire")).records
    directory = leadership(brain).parts.directory
    after = directory.decide("alert.fire", edges=(before.mirror,), decision="x", since=1e9)
    assert after is not None
    assert after.epoch > before.epoch
    assert after.mirror not in ("", before.mirror, "oslo-head")
    at_edge = directory.decide("alert.fire", publish_at=after.mirror, decision="y", since=1e9)
    assert at_edge is not None
    assert at_edge.mirror not in (*at_edge.edges, at_edge.publish_at)


def test_a_broker_that_does_not_answer_is_nobodys_mirror() -> None:
    brain = leading()
    (record,) = register(brain, subscriber("alert.fire")).records
    for second in range(8):
        brain.handle(BrokerUnreachable(record.mirror, "away"), 101.0 + second)
    after = leadership(brain).parts.directory.get("alert.fire")
    assert after is not None
    assert after.mirror not in ("", record.mirror)
    assert after.edges == record.edges


def test_a_broker_that_is_down_is_replaced_at_once() -> None:
    brain = leading()
    (record,) = register(brain, subscriber("alert.fire")).records
    lead = leadership(brain).parts
    lead.site.set_down([record.mirror])
    register(brain, subscriber("other"), client="c2", now=100.5)
    after = lead.directory.get("alert.fire")
    assert after is not None
    assert after.mirror not in ("", record.mirror)


def test_without_a_second_broker_the_record_and_the_status_say_so() -> None:
    brain = leading(edges=1)
    (record,) = register(brain, subscriber("alert.fire")).records
    assert (record.mirror, record.mode) == ("", Mirror.BOTH)
    status = brain.status(101.0)
    assert (status.mirrored, status.unmirrored) == (0, 1)


def test_records_of_the_store_keep_their_mirrors() -> None:
    stored = DirectoryRecord(
        topic="alert.fire",
        domain="oslo",
        epoch=9,
        edges=("oslo-edge2",),
        mirror="oslo-edge3",
        mode=Mirror.BOTH,
    )
    brain = leading(directory=(stored,))
    wish = Wish(key="s1", role=ClientRole.SUBSCRIBER, subject="alert.fire", broker="oslo-edge2")
    assert register(brain, wish, now=1.0).records == (stored,)


def test_mirror_copies_count_where_they_are_and_do_not_move() -> None:
    brain = leading()
    (record,) = register(brain, subscriber("alert.fire"), subscriber("alert.fire", "s2", "group")).records
    received = {"s1": Traffic(100, 1000), f"s1{MIRRORED_KEY}": Traffic(90, 2000)}
    told = Report(client="c1", sequence=2, span_s=1.0, received=received)
    brain.handle(ClientSaid(told), 101.0)
    profile = leadership(brain).parts.profile
    assert not profile.refused
    assert profile.rate("c1", f"s1{MIRRORED_KEY}") == (90.0, 2000.0)
    assert len(profile) == 3, "members of groups have no second copy"
    assert list(profile.topics(record.mirror)) == ["_MGR._MIRROR.alert.fire"]
    brain_view = leadership(brain).parts.view
    assert brain_view.bundles(record.mirror, 101.0, publishers=False) == []
    register(brain, sequence=3, ended=("s1", "s2"), now=102.0)
    assert len(profile) == 0
