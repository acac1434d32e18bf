"""One second of a domain as rows: nothing is booked under a name that is no topic, or later than it was."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from msgspec.structs import replace

from mangrove.agent.recorder.agent_rows import AgentMemory, load_rows
from mangrove.agent.recorder.counters import Counters
from mangrove.agent.recorder.omissions import TELL_EVERY_S, Omissions
from mangrove.agent.recorder.rows import Second, delivery_rows, rate_rows
from mangrove.broker.nats.subscriptions import Subscriptions
from mangrove.broker.nats.tap import Slice, TopicCount
from mangrove.model.agents.load import BrokerLoad, LoadState, Metric, Trigger
from mangrove.model.agents.status import AgentStatus, MoveStatus, SessionStatus
from mangrove.model.agents.usefulness import CongestionStatus, TopicUsefulness
from mangrove.model.status import DomainStatus
from mangrove.model.telemetry import LOAD_SAMPLES, OFFLOAD_SESSIONS, TOPIC_OPINIONS
from mangrove.model.topic_counts import CountCursor, TopicCounts, TopicTally
from mangrove.model.topics import TopicRules

CURSOR = CountCursor(epoch=1, sequence=1, uptime_s=1.0, sent=0, delivered=0, dropped=0, malformed_bodies=0)


def second(
    counts: TopicCounts | None = None,
    seen: dict[str, int] | None = None,
    subscriptions: dict[str, Subscriptions] | None = None,
    max_topics: int = 1000,
) -> Second:
    return Second(
        ts=datetime(2026, 3, 2, tzinfo=UTC),
        domain="a",
        rules=TopicRules(),
        counters=Counters(),
        status=DomainStatus(domain="a", brokers=(), gateway=None),
        subscriptions=subscriptions or {"a-head": Subscriptions()},
        seen=Slice(1.0, {topic: TopicCount(n, 10 * n) for topic, n in (seen or {}).items()}),
        counts=counts,
        omissions=Omissions(),
        max_topics=max_topics,
        max_rate_topics=max_topics,
    )


NOTHING = TopicTally()


def carried(
    span_s: float = 1.0,
    sent: TopicTally = NOTHING,
    delivered: TopicTally = NOTHING,
    dropped: TopicTally = NOTHING,
) -> TopicCounts:
    return TopicCounts(
        domain="a", cursor=CURSOR, span_s=span_s, sent=sent, delivered=delivered, dropped=dropped
    )


def test_load_is_recorded_as_the_agent_that_leads_judges_it() -> None:
    loaded = BrokerLoad(
        broker="a-edge1",
        role="edge",
        state=LoadState.BUSY,
        measured=LoadState.OVERLOAD,
        utilisation={Metric.OUTPUT: 0.97},
        headroom=-0.02,
        overloaded=(Metric.OUTPUT,),
        triggers=(Trigger.CPU,),
        session="s-1",
    )
    agent = AgentStatus(domain="a", agent="a-agent", term=1, leads=True, uptime_s=1.0, brokers=(loaded,))
    status = DomainStatus(domain="a", brokers=(), gateway=None, agent=agent)
    (row,) = load_rows(replace(second(), status=status))
    assert set(row) == {column.name for column in LOAD_SAMPLES.columns}
    assert (row["state"], row["measured"], row["session"]) == ("busy", "overload", "s-1")
    assert (row["input"], row["output"], row["headroom"]) == (None, 0.97, -0.02)
    assert row["overloaded"] == "output,cpu"
    following = msgspec.structs.replace(status, agent=msgspec.structs.replace(agent, leads=False))
    assert load_rows(replace(second(), status=following)) == []
    assert load_rows(second()) == []


def ended(name: str, outcome: str = "moved") -> SessionStatus:
    moves = (
        MoveStatus(topic="x", to="a-edge2", subscriptions=3, confirmed=2, held_ms=4.0),
        MoveStatus(topic="y", to="a-edge2", subscriptions=1, confirmed=1, held_ms=9.0),
    )
    return SessionStatus(
        id=name,
        broker="a-edge1",
        state="ended" if outcome else "asking",
        scope="domain",
        metrics=("output", "matching"),
        since_s=2.5,
        moves=moves,
        outcome=outcome,
    )


def told(agent: AgentStatus, *, later_s: int = 0) -> Second:
    now = second()
    status = DomainStatus(domain="a", brokers=(), gateway=None, agent=agent)
    return replace(now, status=status, ts=now.ts + timedelta(seconds=later_s))


AGENT = AgentStatus(domain="a", agent="a-agent", term=1, leads=True, uptime_s=1.0, brokers=())


def test_a_session_is_recorded_once_when_it_has_ended() -> None:
    memory = AgentMemory()
    before = replace(AGENT, sessions=(ended("a-1-1"), ended("a-1-2", outcome="")))
    assert memory.session_rows(told(before)) == [], "nobody knows when the first one ended"
    after = replace(AGENT, sessions=(ended("a-1-1"), ended("a-1-2")))
    (row,) = memory.session_rows(told(after))
    assert set(row) == {column.name for column in OFFLOAD_SESSIONS.columns}
    assert (row["session"], row["metrics"], row["seconds"]) == ("a-1-2", "output,matching", 2.5)
    assert (row["topics"], row["subscriptions"], row["moved"], row["held_ms"]) == (2, 4, 3, 9.0)
    assert memory.session_rows(told(after)) == []
    assert memory.session_rows(told(replace(after, leads=False))) == []
    (again,) = memory.session_rows(told(replace(AGENT, term=2, sessions=(ended("a-2-1"),))))
    assert again["session"] == "a-2-1"


def test_opinions_are_recorded_every_five_seconds_and_what_is_cut_is_counted() -> None:
    memory = AgentMemory()
    topics = [
        TopicUsefulness(topic=name, utility=utility, importance=1.0, subscribers=2, publishers=1)
        for name, utility in (("x", 0.9), ("y", 0.05))
    ]
    congestion = CongestionStatus(topics=(topics[0],), least_useful=(topics[1],), known=7)
    agent = replace(AGENT, congestion=congestion)
    now = told(agent, later_s=2)
    rows = memory.opinion_rows(now)
    assert [(row["topic"], row["utility"]) for row in rows] == [("x", 0.9), ("y", 0.05)]
    assert set(rows[0]) == {column.name for column in TOPIC_OPINIONS.columns}
    assert {row["ts"] for row in rows} == {second().ts}
    assert "5 topics without rows in topic_opinions" in now.omissions.tell(0.0, at_once=True)
    assert [len(memory.opinion_rows(told(agent, later_s=s))) for s in (3, 4, 5, 6)] == [0, 0, 2, 0]


def test_what_has_no_topic_is_told_and_not_booked() -> None:
    tally = TopicTally(topics={"x": 3}, requests=7, other=5)
    now = second(carried(sent=tally, delivered=tally, dropped=TopicTally(other=2)))
    assert [(row["topic"], row["msgs_in"]) for row in rate_rows(now, "a-head")] == [("x", 3)]
    assert [(row["topic"], row["delivered"]) for row in delivery_rows(now)] == [("x", 3)]
    told = now.omissions.tell(0.0)
    assert "7 requests and replies sent" in told
    assert "5 messages delivered of topics that the gateway did not tell apart" in told
    assert "2 messages dropped" in told


def test_counts_of_a_long_time_are_not_the_rate_of_one_second() -> None:
    now = second(carried(span_s=30.0, sent=TopicTally(topics={"x": 600, "rare": 1})))
    assert [(row["topic"], row["msgs_in"]) for row in rate_rows(now, "a-head")] == [("x", 20)]
    assert "581 messages sent in seconds without a look" in now.omissions.tell(0.0)


def test_a_look_that_comes_a_second_late_leaves_no_hole() -> None:
    now = second(carried(span_s=2.02, sent=TopicTally(topics={"x": 40})), {"seen": 7})
    rows = [(row["ts"], row["topic"], row["msgs_in"]) for row in rate_rows(now, "a-head")]
    before = now.ts - timedelta(seconds=1)
    assert sorted(rows) == [(before, "x", 20), (now.ts, "seen", 7), (now.ts, "x", 20)]


def test_drops_and_arrivals_are_those_of_the_gateway() -> None:
    now = second(
        carried(delivered=TopicTally(topics={"x": 4}), dropped=TopicTally(topics={"y": 2})), {"z": 1}
    )
    rows = {row["topic"]: (row["delivered"], row["dropped"], row["route"]) for row in delivery_rows(now)}
    assert rows == {"x": (4, 0, "*>a"), "y": (0, 2, "*>a"), "z": (1, 0, "a>a")}


def test_only_the_busiest_topics_get_rows_and_the_others_are_counted() -> None:
    now = second(seen={"a": 5, "b": 1, "c": 4, "d": 2}, max_topics=2)
    assert [row["topic"] for row in rate_rows(now, "a-head")] == ["a", "c"]
    assert now.omissions.tell(0.0) == (
        "3 messages of topics without rows in topic_rates; 2 topics in a second without rows in topic_rates"
    )


def test_copies_are_shared_out_by_messages_among_the_topics_of_a_pattern() -> None:
    held = Subscriptions(Counter({"s.*": 2, "s.one": 1, "t": 1}), {"s.*": 40.0, "s.one": 15.0})
    rows = rate_rows(second(seen={"s.one": 15, "s.two": 5}, subscriptions={"a-edge1": held}), "a-head")
    found = {row["topic"]: (row["msgs_out"], row["subscribers"], row["filters"]) for row in rows}
    assert found == {"s.one": (45, 3, 2), "s.two": (10, 2, 1)}
    assert {row["msgs_in"] for row in rows} == {0}, "they entered the domain at the head"


def test_work_grows_with_topics_and_patterns_and_not_with_their_product(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_up = 0
    plain = Subscriptions.matching

    def counted(self: Subscriptions, topic: str) -> set[str]:
        nonlocal looked_up
        looked_up += 1
        return plain(self, topic)

    monkeypatch.setattr(Subscriptions, "matching", counted)
    names = [f"plant.sensor{n:05}" for n in range(5000)]
    held = Subscriptions(Counter(names), dict.fromkeys(names, 1.0))
    rows = rate_rows(second(seen=dict.fromkeys(names, 1), subscriptions={"a-head": held}), "a-head")
    assert looked_up == 5000
    assert len(rows) == 1000
    assert {row["msgs_out"] for row in rows} == {1}


def test_omissions_are_told_once_in_a_while() -> None:
    omissions = Omissions()
    assert omissions.tell(0.0) == ""
    omissions.add("replies", 2)
    assert omissions.tell(5.0) == "2 replies", "the first at once"
    omissions.add("replies", 2)
    omissions.add("replies", 3)
    assert omissions.tell(4.0 + TELL_EVERY_S) == ""
    assert omissions.tell(5.0 + TELL_EVERY_S) == "5 replies"
    omissions.add("replies", 1)
    omissions.level("patterns", 4)
    omissions.level("patterns", 1)
    assert omissions.tell(6.0 + TELL_EVERY_S) == "4 patterns; 1 replies", "what is new, at once"
    omissions.add("replies", 1)
    assert omissions.tell(7.0 + TELL_EVERY_S) == ""
    assert omissions.tell(7.0 + TELL_EVERY_S, at_once=True) == "1 replies"


def test_what_the_tap_sees_a_little_later_still_came_by_the_gateway() -> None:
    rows = delivery_rows(replace(second(seen={"x": 2, "y": 1}), arrived_before=frozenset({"x"})))
    assert {row["topic"]: row["route"] for row in rows} == {"x": "*>a", "y": "a>a"}


def test_rates_have_a_limit_of_their_own_and_what_is_beyond_is_counted() -> None:
    names = [f"plant.sensor{n:05}" for n in range(30)]
    found = replace(second(seen=dict.fromkeys(names, 2), max_topics=5), max_rate_topics=20)
    assert (len(rate_rows(found, "a-head")), len(delivery_rows(found))) == (20, 5)
    assert found.omissions.tell(0.0) == (
        "50 messages of topics without rows in deliveries; "
        "20 messages of topics without rows in topic_rates; "
        "25 topics in a second without rows in deliveries; 10 topics in a second without rows in topic_rates"
    )
