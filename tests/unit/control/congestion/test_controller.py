"""Congestion is declared, publishers are limited by usefulness, and limits go when there is room again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mangrove.control.congestion.controller import MARGIN, CongestionControl
from mangrove.control.congestion.states import ControlState
from mangrove.control.congestion.surroundings import PublisherOffer, TopicOffer
from mangrove.model.agents.load import Amounts, BrokerLoad, LoadState, Metric
from mangrove.model.balancing import Balancing
from mangrove.model.congestion.parameters import Congestion, Mode
from mangrove.model.events.event_log import EventId, EventLog

BALANCING = Balancing()
NO_ROOM = Amounts()
TARGET = BALANCING.low - MARGIN * (BALANCING.high - BALANCING.low)
"""Of a capacity: brokers that are short are relieved so far."""


@dataclass
class Talker:
    """A publisher that offers so much, and says what it may."""

    topic: str
    rate: float
    utility: float = 0.5
    size: float = 100.0
    protected: bool = False
    subscribers: int = 2
    edge: str = "edge1"
    name: str = "p"


@dataclass
class VirtualDomain:
    """Brokers that carry exactly what is said."""

    talkers: list[Talker]
    capacity: dict[str, float]
    """Messages in a second."""
    others: dict[str, float] = field(default_factory=dict)
    """What nobody can limit."""
    room: Amounts = NO_ROOM
    parts: dict[str, float] = field(default_factory=dict)
    declared_brokers: dict[str, EventId | None] = field(default_factory=dict)
    control: CongestionControl = None  # type: ignore[assignment]
    carried: dict[str, float] = field(default_factory=dict)

    def said(self, talker: Talker) -> float:
        limit = self.control.limits.get((talker.topic, talker.name))
        return talker.rate if limit is None else min(talker.rate, limit.msg_s)

    def load(self, broker: str) -> float:
        own = sum(self.said(each) for each in self.talkers if broker in ("head", each.edge))
        return own + self.others.get(broker, 0.0)

    def utilisation(self, broker: str) -> float:
        return self.load(broker) / (self.capacity[broker] * self.parts.get(broker, 1.0))

    def measure(self) -> None:
        """Loads are measured before the limits of this second are told."""
        self.carried = {broker: self.load(broker) for broker in self.capacity}

    def loads(self, now: float) -> Mapping[str, BrokerLoad]:
        found = {}
        for broker, whole in self.capacity.items():
            capacity = whole * self.parts.get(broker, 1.0)
            share = self.carried[broker] / capacity
            state = (
                LoadState.OVERLOAD
                if share >= BALANCING.high
                else LoadState.HIGH
                if share >= BALANCING.low
                else LoadState.LOW
            )
            found[broker] = BrokerLoad(
                broker=broker,
                role="head" if broker == "head" else "edge",
                state=state,
                measured=state,
                utilisation={Metric.MATCHING: share},
                capacity={Metric.MATCHING: capacity},
                overloaded=(Metric.MATCHING,) if state is LoadState.OVERLOAD else (),
                messages_in_s=self.carried[broker],
            )
        return found

    def overloaded(self, broker: str, now: float) -> bool:
        return self.loads(now)[broker].measured is LoadState.OVERLOAD

    def declared(self, now: float) -> Mapping[str, EventId | None]:
        return self.declared_brokers

    def declare(self, load: BrokerLoad, tried: Sequence[str], now: float) -> None:
        self.declared_brokers[load.broker] = "oslo-1"

    def room_elsewhere(self, load: BrokerLoad, now: float) -> Amounts:
        return self.room

    def offers(self, now: float) -> Sequence[TopicOffer]:
        return [
            TopicOffer(
                topic=each.topic,
                utility=each.utility,
                subscribers=each.subscribers,
                publishers=(PublisherOffer(each.name, each.utility, each.rate, self.said(each), each.size),),
                copies={"head": 1.0, each.edge: float(each.subscribers)},
                protected=each.protected,
            )
            for each in self.talkers
        ]


def domain(
    talkers: list[Talker], congestion: Congestion | None = None, **capacity: float
) -> tuple[VirtualDomain, EventLog]:
    made = VirtualDomain(talkers, capacity or {"head": 1e6, "edge1": 1000.0})
    log = EventLog("oslo-agent")
    made.control = CongestionControl(congestion or Congestion(), BALANCING, made, log)
    return made, log


def play(virtual: VirtualDomain, start: float, seconds: int) -> list[dict[tuple[str, str], float]]:
    """The limits after each second."""
    found = []
    for second in range(seconds):
        now = start + second
        virtual.measure()
        virtual.control.consider(now)
        virtual.declared_brokers = {
            broker: event
            for broker, event in virtual.declared_brokers.items()
            if virtual.control.still_short(broker) or virtual.overloaded(broker, now)
        }
        found.append({key: limit.msg_s for key, limit in virtual.control.limits.items()})
    return found


def talkers() -> list[Talker]:
    return [
        Talker("alert", 100.0, utility=0.1, protected=True),
        Talker("useful", 300.0, utility=0.9),
        Talker("middling", 300.0, utility=0.5),
        Talker("useless", 200.0, utility=0.05),
    ]


def test_nothing_is_limited_while_there_is_room() -> None:
    virtual, log = domain(talkers())
    assert play(virtual, 0.0, 10) == [{}] * 10
    assert virtual.control.state is ControlState.CLEAR
    assert not log.take()


def test_the_least_useful_speak_less_as_soon_as_capacity_is_cut() -> None:
    virtual, log = domain(talkers())
    play(virtual, 0.0, 3)
    virtual.parts["edge1"] = 0.6
    (limits,) = play(virtual, 3.0, 1)
    assert virtual.utilisation("edge1") < BALANCING.low
    assert ("alert", "p") not in limits
    assert ("useful", "p") not in limits
    assert limits["middling", "p"] == pytest.approx(124.0, abs=2.0), "the last one has what is left"
    assert 1.0 <= limits["useless", "p"] < 5.0, "its region allows hardly more than a probe"
    assert virtual.control.limits["useless", "p"].brokers == ("edge1",)
    kinds = [event.kind for event in log.take()]
    assert kinds == ["PublishersLimited"]


def test_limits_are_gone_within_fifteen_seconds_after_capacity_returns_and_not_at_once() -> None:
    virtual, log = domain(talkers())
    virtual.parts["edge1"] = 0.5
    play(virtual, 0.0, 10)
    virtual.parts["edge1"] = 1.0
    after = play(virtual, 10.0, 15)
    assert after[3] == after[0] != {}, "room must last before limits are raised"
    assert after[-1] == {}
    counts = [len(limits) for limits in after]
    assert counts == sorted(counts, reverse=True)
    assert virtual.control.state is ControlState.CLEAR
    assert not virtual.declared_brokers
    assert [event.kind for event in log.take()][-1] == "CongestionOver"


def test_the_most_important_are_lifted_first() -> None:
    virtual, _ = domain(talkers())
    virtual.parts["edge1"] = 0.3
    play(virtual, 0.0, 5)
    virtual.parts["edge1"] = 1.0
    gone: list[str] = []
    for limits in play(virtual, 5.0, 15):
        gone += [
            name
            for name in ("useful", "middling", "useless")
            if (name, "p") not in limits and name not in gone
        ]
    assert gone == ["useful", "middling", "useless"]


def test_room_elsewhere_is_left_to_sessions() -> None:
    virtual, _ = domain(talkers())
    virtual.room = Amounts(1e9, 1e9, 1e9)
    virtual.parts["edge1"] = 0.5
    assert play(virtual, 0.0, 5) == [{}] * 5
    virtual.declared_brokers["edge1"] = None
    assert play(virtual, 5.0, 1)[0], "a session has found nobody"


def test_what_nobody_can_limit_is_left_out_of_the_budget() -> None:
    virtual, _ = domain(talkers())
    virtual.others["edge1"] = 200.0
    virtual.parts["edge1"] = 0.7
    play(virtual, 0.0, 1)
    assert virtual.utilisation("edge1") <= BALANCING.low
    assert virtual.utilisation("edge1") > BALANCING.low - 0.05, "no more is taken than must be"


def test_off_computes_and_limits_nobody_and_always_limits_without_congestion() -> None:
    virtual, _ = domain(talkers(), Congestion(mode=Mode.OFF))
    virtual.parts["edge1"] = 0.3
    assert play(virtual, 0.0, 3) == [{}] * 3
    virtual, _ = domain(talkers(), Congestion(mode=Mode.ALWAYS), head=1e6, edge1=950.0)
    assert play(virtual, 0.0, 3)[-1], "94 % is more than the low threshold"


def test_protected_topics_that_are_too_much_alone_are_told_once() -> None:
    virtual, log = domain([Talker("alert", 500.0, protected=True), Talker("other", 500.0)])
    virtual.parts["edge1"] = 0.4
    limits = play(virtual, 0.0, 5)[-1]
    assert ("alert", "p") not in limits
    assert limits["other", "p"] <= 1.0
    assert [event.kind for event in log.take()].count("ProtectedTooMuch") == 1


def test_a_successor_keeps_limits_until_it_knows_what_clients_say() -> None:
    virtual, _ = domain(talkers())
    virtual.parts["edge1"] = 0.5
    before = play(virtual, 0.0, 5)[-1]
    kept, short = dict(virtual.control.limits), virtual.control.short
    everybody, virtual.talkers = virtual.talkers, []
    virtual.control = CongestionControl(Congestion(), BALANCING, virtual, EventLog("oslo-agent"))
    virtual.control.resume(kept, short, 5.0)
    assert play(virtual, 5.0, 3)[-1] == before
    virtual.talkers = everybody
    assert play(virtual, 8.0, 10)[-1] == before


def test_publishers_that_are_gone_leave_no_limits() -> None:
    virtual, _ = domain(talkers())
    virtual.parts["edge1"] = 0.5
    play(virtual, 0.0, 3)
    virtual.talkers = []
    assert play(virtual, 3.0, 10)[-1] == {}
    assert virtual.control.state is ControlState.CLEAR


rates = st.floats(min_value=5.0, max_value=500.0)
some_talkers = st.lists(
    st.builds(
        Talker,
        topic=st.uuids().map(str),
        rate=rates,
        utility=st.floats(min_value=0.0, max_value=1.0),
        size=st.floats(min_value=10.0, max_value=2000.0),
        protected=st.sampled_from([False, False, False, True]),
        subscribers=st.integers(min_value=0, max_value=5),
        edge=st.sampled_from(["edge1", "edge2"]),
    ),
    min_size=1,
    max_size=8,
)
parts = st.floats(min_value=0.1, max_value=1.0)


def damaged(some: list[Talker], part1: float, part2: float) -> VirtualDomain:
    virtual, _ = domain(some, head=5000.0, edge1=1000.0, edge2=800.0)
    virtual.parts.update(edge1=part1, edge2=part2)
    return virtual


@settings(max_examples=60, deadline=None)
@given(some_talkers, parts, parts)
def test_limits_keep_brokers_below_and_rest_under_constant_load(
    some: list[Talker], part1: float, part2: float
) -> None:
    virtual = damaged(some, part1, part2)
    history = play(virtual, 0.0, 30)
    assert all(limits == history[-1] for limits in history[12:]), "limits never come to rest"
    protected = {each.topic for each in some if each.protected}
    assert not any(topic in protected for limits in history for topic, _ in limits)
    for broker in virtual.capacity:
        alone = sum(each.rate for each in some if each.protected and broker in ("head", each.edge))
        room = virtual.capacity[broker] * virtual.parts.get(broker, 1.0)
        if alone < BALANCING.low * room:
            assert virtual.utilisation(broker) < BALANCING.high


@settings(max_examples=60, deadline=None)
@given(some_talkers, parts, parts)
def test_everybody_who_is_stopped_recovers_when_it_becomes_useful(
    some: list[Talker], part1: float, part2: float
) -> None:
    virtual = damaged(some, part1, part2)
    limits = play(virtual, 0.0, 10)[-1]
    for talker in some:
        before = limits.get((talker.topic, "p"))
        if before is None or not talker.subscribers:
            continue
        assert before > 0.0, "it cannot be judged any more"
        others = [each for each in some if each is not talker and not each.protected]
        for each in others:
            each.utility = 0.001
        talker.utility = 1.0
        after = play(virtual, 10.0, 15)[-1].get((talker.topic, "p"), talker.rate)
        protected = [each for each in some if each.protected]
        for broker in ("head", talker.edge):
            alone = sum(each.rate for each in protected if broker in ("head", each.edge))
            room = virtual.capacity[broker] * virtual.parts.get(broker, 1.0) * TARGET
            if alone + len(some) > room:
                return
        possible = min(
            talker.rate,
            *(
                virtual.capacity[broker] * virtual.parts.get(broker, 1.0) * TARGET
                - sum(each.rate for each in protected if broker in ("head", each.edge))
                - len(some)
                for broker in ("head", talker.edge)
            ),
        )
        assert after >= possible * 0.97
        return


@settings(max_examples=40, deadline=None)
@given(some_talkers, parts, parts)
def test_all_limits_are_gone_once_capacity_is_back(some: list[Talker], part1: float, part2: float) -> None:
    virtual = damaged(some, 1.0, 1.0)
    if any(virtual.utilisation(broker) > BALANCING.low - 0.02 for broker in virtual.capacity):
        return
    virtual.parts.update(edge1=part1, edge2=part2)
    play(virtual, 0.0, 10)
    virtual.parts.clear()
    assert play(virtual, 10.0, 15)[-1] == {}
    assert virtual.control.state is ControlState.CLEAR
