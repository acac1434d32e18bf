"""What a domain tells its neighbours, and what a broker may take or must lose."""

from __future__ import annotations

import math
from itertools import product

import pytest

from mangrove.control.load.capacity import accepts, capacity_of, need_of, room_of
from mangrove.control.load.cluster import cluster_load, edges_state
from mangrove.model.agents.load import Amounts, BrokerLoad, LoadState, Metric, Trigger
from mangrove.model.balancing import Balancing
from mangrove.model.federation import Edge

LOW, HIGH, OVERLOAD, BUSY = LoadState.LOW, LoadState.HIGH, LoadState.OVERLOAD, LoadState.BUSY


def a_load(
    broker: str, used: float | None = 0.0, state: LoadState = LOW, capacity: float = 1000.0, **other: object
) -> BrokerLoad:
    known = {} if used is None else {Metric.MATCHING: used}
    return BrokerLoad(
        broker=broker,
        role="edge",
        state=state,
        measured=LOW if state is BUSY else state,
        utilisation=known,
        capacity={Metric.MATCHING: capacity} if known else {},
        remaining={metric: (0.95 - each) * capacity for metric, each in known.items()},
        headroom=None if used is None else 0.95 - used,
        **other,  # type: ignore[arg-type]
    )


def test_the_state_of_two_edges_by_enumeration() -> None:
    for first, second in product(LoadState, repeat=2):
        state = edges_state([a_load("a", state=first), a_load("b", state=second)])
        if LOW in (first, second):
            assert state is LOW
        elif first is second:
            assert state is first
        else:
            assert state is HIGH


def test_remaining_capacity_is_summed_and_the_largest_single_edge_told() -> None:
    load = cluster_load(
        a_load("head", 0.5), [a_load("a", 0.95, OVERLOAD), a_load("b", 0.2), a_load("c", 0.4)]
    )
    assert load.head_remaining == {Metric.MATCHING: pytest.approx(450)}
    assert load.edges_remaining == {Metric.MATCHING: pytest.approx(750 + 550)}
    assert load.largest_edge == {Metric.MATCHING: pytest.approx(750)}
    assert load.headroom == pytest.approx(0.75)


def test_an_overfull_edge_takes_nothing_from_the_sum() -> None:
    load = cluster_load(a_load("head"), [a_load("a", 3.0, OVERLOAD), a_load("b", 0.2)])
    assert load.edges_remaining == {Metric.MATCHING: pytest.approx(750)}


def test_the_largest_edge_is_one_that_takes_load() -> None:
    load = cluster_load(a_load("head"), [a_load("a", 0.1, BUSY), a_load("b", 0.6)])
    assert load.headroom == pytest.approx(0.35)


def test_brokers_that_do_not_answer_are_left_out() -> None:
    gone = a_load("a", 0.1, reachable=False)
    load = cluster_load(a_load("head", 0.1, reachable=False), [gone, a_load("b", 0.96, OVERLOAD)])
    assert (load.head, load.edges, load.head_remaining) == (OVERLOAD, OVERLOAD, {})
    assert cluster_load(a_load("head"), [gone]).edges is OVERLOAD


def test_brokers_that_were_not_measured_yet_are_left_out() -> None:
    unmeasured = BrokerLoad(broker="a", role="edge", state=LOW, measured=LOW, capacity={Metric.MATCHING: 10})
    assert cluster_load(unmeasured, [unmeasured]).edges is OVERLOAD
    assert not accepts(unmeasured)
    assert room_of(unmeasured, Balancing()).matching < 0


def test_a_domain_without_edges_serves_at_its_head() -> None:
    load = cluster_load(a_load("head", 0.5), [])
    assert load.edges is LOW
    assert load.headroom == pytest.approx(0.45)


def test_unknown_capacity_is_left_out_of_the_sum() -> None:
    load = cluster_load(a_load("head", None), [a_load("a", None), a_load("b", 0.2)])
    assert (load.edges, load.edges_remaining, load.head_remaining) == (LOW, {}, {})


def test_capacity_of_a_broker() -> None:
    assert capacity_of(Edge()) == Amounts(math.inf, math.inf, math.inf)
    assert capacity_of(Edge(capacity=20_000, bandwidth_mbps=1000)) == Amounts(125e6, 125e6, 20_000)


def test_who_fills_the_room_or_sheds_the_need_stays_below_the_threshold() -> None:
    balancing = Balancing(target=0.95, ceiling=0.95)
    acceptor = a_load("a", 0.4, capacity=5000)
    room = room_of(acceptor, balancing)
    assert room.matching == pytest.approx(2750, abs=0.01)
    assert room.input == math.inf
    assert 0.4 + room.matching / 5000 < balancing.high
    assert room_of(acceptor, Balancing()).matching == pytest.approx(2625, abs=0.01)  # halfway
    assert room_of(acceptor, Balancing(ceiling=0.9)).matching == pytest.approx(2500, abs=0.01)
    source = a_load("b", 1.2, OVERLOAD, overloaded=(Metric.MATCHING,))
    assert need_of(source, balancing)[Metric.MATCHING] == pytest.approx(250, abs=0.01)
    assert 1.2 - need_of(source, balancing)[Metric.MATCHING] / 1000 < balancing.high
    assert need_of(source, Balancing())[Metric.MATCHING] == pytest.approx(300, abs=0.01)  # down to `low`
    assert need_of(source, Balancing(target=0.7))[Metric.MATCHING] == pytest.approx(500, abs=0.01)


def test_a_trigger_asks_for_a_tenth_of_what_causes_it() -> None:
    source = a_load(
        "b", None, OVERLOAD, triggers=(Trigger.PENDING, Trigger.CPU), bytes_out_s=7000.0, messages_in_s=500.0
    )
    assert need_of(source, Balancing()) == {Metric.OUTPUT: 700.0, Metric.MATCHING: 50.0}


@pytest.mark.parametrize("state", list(LoadState))
@pytest.mark.parametrize("reachable", [True, False])
def test_only_a_low_broker_that_answers_is_given_load(state: LoadState, reachable: bool) -> None:
    assert accepts(a_load("a", 0.1, state, reachable=reachable)) == (state is LOW and reachable)


def test_a_broker_that_has_just_not_answered_is_given_nothing() -> None:
    """What it was given since its last answer is not measured."""
    assert not accepts(a_load("a", 0.1, LOW, problem="it does not answer"))
