"""When a session starts, and how much must go."""

from __future__ import annotations

import pytest

from mangrove.control.offloading.trigger import (
    Start,
    StartedBy,
    acceptor,
    next_start,
)
from mangrove.model.agents.load import Amounts, BrokerLoad, LoadState, Metric
from mangrove.model.balancing import Balancing

PAPER = Balancing(target=0.95, ceiling=0.95)


def edge(name: str, matching: float, state: LoadState | None = None, **other: object) -> BrokerLoad:
    measured = (
        LoadState.OVERLOAD if matching >= 0.95 else LoadState.HIGH if matching >= 0.9 else LoadState.LOW
    )
    settings: dict[str, object] = {
        "broker": name,
        "role": "edge",
        "state": state or measured,
        "measured": measured,
        "utilisation": {Metric.MATCHING: matching},
        "capacity": {Metric.MATCHING: 20_000.0},
        "headroom": 0.95 - matching,
        "overloaded": (Metric.MATCHING,) if matching >= 0.95 else (),
    }
    return BrokerLoad(**{**settings, **other})  # type: ignore[arg-type]


def overload(
    *loads: BrokerLoad, resting: tuple[str, ...] = (), settling: tuple[str, ...] = ()
) -> Start | None:
    return next_start(StartedBy.OVERLOAD, loads, PAPER, resting=resting, settling=settling)


def imbalance(*loads: BrokerLoad, **settings: object) -> Start | None:
    return next_start(StartedBy.IMBALANCE, loads, PAPER, **settings)  # type: ignore[arg-type]


def test_the_most_overloaded_broker_starts_first_with_low_acceptors_by_headroom() -> None:
    start = overload(edge("a", 0.96), edge("b", 0.99), edge("c", 0.8), edge("d", 0.5), edge("e", 0.92))
    assert start is not None
    assert start.source == "b"
    assert start.acceptors == ("d", "c")
    assert start.need == {Metric.MATCHING: pytest.approx(0.04 * 20_000, rel=1e-4)}
    assert "99.0%" in start.why


@pytest.mark.parametrize("state", [LoadState.BUSY, LoadState.HIGH, LoadState.LOW])
def test_only_overload_starts_and_not_while_busy(state: LoadState) -> None:
    assert overload(edge("a", 0.99, state), edge("b", 0.1)) is None


def test_a_resting_broker_starts_nothing_and_a_settling_one_takes_nothing() -> None:
    loads = (edge("a", 0.99), edge("b", 0.1), edge("c", 0.2))
    assert overload(*loads, resting=("a",)) is None
    start = overload(*loads, settling=("b",))
    assert start is not None
    assert start.acceptors == ("c",)


def test_an_overload_without_low_brokers_starts_all_the_same() -> None:
    start = overload(edge("a", 0.99), edge("b", 0.91), edge("c", 0.1, LoadState.BUSY))
    assert start is not None
    assert start.acceptors == ()


def test_a_head_has_no_acceptor_among_edges() -> None:
    start = overload(edge("head", 0.99, role="head"), edge("b", 0.1))
    assert start is not None
    assert start.acceptors == ()


def test_an_acceptor_has_its_room_or_the_cap_if_that_is_less() -> None:
    load = edge("a", 0.45)
    free = acceptor(load, PAPER, domain="d", topics=frozenset({"t"}))
    assert free.room.matching == pytest.approx(10_000.0, rel=1e-4)
    assert (free.broker, free.domain) == ("a", "d")
    assert free.headroom == pytest.approx(0.5)
    capped = acceptor(load, PAPER, domain="d", cap=Amounts(matching=300.0, input=7.0))
    assert capped.room == Amounts(7.0, 0.0, 300.0)


def test_two_edges_that_differ_by_more_than_the_threshold_start_peer() -> None:
    assert imbalance(edge("a", 0.60), edge("b", 0.50)) is None, "at the threshold nothing starts"
    start = imbalance(edge("a", 0.62), edge("b", 0.50), edge("c", 0.55))
    assert start is not None
    assert (start.source, start.acceptors) == ("a", ("b",))
    assert start.need == {Metric.MATCHING: pytest.approx(0.07 * 10_000)}, "until they differ by half of it"
    assert start.cap.matching == pytest.approx(0.12 * 10_000), "and b does not end above a"
    assert "12.0%" in start.why


def test_how_close_two_edges_are_brought_may_be_set() -> None:
    further = Balancing(imbalance_stop=0.02)
    start = next_start(StartedBy.IMBALANCE, (edge("a", 0.62), edge("b", 0.50)), further)
    assert start is not None
    assert start.need == {Metric.MATCHING: pytest.approx(0.10 * 10_000)}


def test_peer_leads_no_more_to_an_edge_than_would_come_back() -> None:
    a = edge("a", 0.5, utilisation={Metric.MATCHING: 0.50, Metric.OUTPUT: 0.42}, capacity=_both())
    b = edge("b", 0.3, utilisation={Metric.MATCHING: 0.30, Metric.OUTPUT: 0.50}, capacity=_both())
    start = imbalance(a, b)
    assert start is not None
    assert start.source == "a"
    assert start.cap.output == pytest.approx(0.02 * 125e6 / 2), "b is at most 10 % above a on output"


def test_peer_waits_for_low_acceptors_and_for_brokers_in_sessions() -> None:
    assert imbalance(edge("a", 1.2), edge("b", 0.93)) is None
    assert imbalance(edge("a", 0.9), edge("b", 0.1, LoadState.BUSY)) is None
    assert imbalance(edge("a", 0.9, LoadState.BUSY), edge("b", 0.1)) is None
    assert imbalance(edge("a", 0.9), edge("b", 0.1), resting=("a",)) is None
    assert imbalance(edge("a", 0.9), edge("b", 0.1), settling=("b",)) is None


def test_peer_sees_the_widest_metric() -> None:
    a = edge("a", 0.5, utilisation={Metric.MATCHING: 0.5, Metric.OUTPUT: 0.7}, capacity=_both())
    b = edge("b", 0.3, utilisation={Metric.MATCHING: 0.3, Metric.OUTPUT: 0.1}, capacity=_both())
    start = imbalance(a, b)
    assert start is not None
    assert set(start.need) == {Metric.MATCHING, Metric.OUTPUT}
    assert "output" in start.why


def test_an_unreachable_broker_neither_starts_nor_takes() -> None:
    gone = edge("b", 0.1, reachable=False)
    start = overload(edge("a", 0.99), gone)
    assert start is not None
    assert start.acceptors == ()
    assert overload(edge("a", 0.99, reachable=False)) is None


def _both() -> dict[Metric, float]:
    return {Metric.MATCHING: 20_000.0, Metric.OUTPUT: 125e6}
