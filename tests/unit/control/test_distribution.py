"""Where new subscriptions go, in every situation that has a rule."""

from __future__ import annotations

import math
from collections import Counter
from itertools import permutations, product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.control.distribution import POLICIES, Candidate, Distributor, Newcomer
from mangrove.model.agents.load import Amounts, BrokerLoad, ClusterLoad, LoadState, Metric
from mangrove.model.balancing import DISTRIBUTIONS, Balancing, Placement

LOW, HIGH, OVERLOAD, BUSY = LoadState.LOW, LoadState.HIGH, LoadState.OVERLOAD, LoadState.BUSY


def edge(
    name: str,
    used: float | None = 0.0,
    state: LoadState = LOW,
    topics: int = 0,
    capacity: float = 1000.0,
    **other: Any,
) -> Candidate:
    known = {} if used is None else {Metric.MATCHING: used}
    load = BrokerLoad(
        broker=name,
        role="edge",
        state=state,
        measured=LOW if state is BUSY else state,
        utilisation=known,
        capacity={Metric.MATCHING: capacity} if known else {},
        remaining={metric: (0.95 - each) * capacity for metric, each in known.items()},
        headroom=None if used is None else 0.95 - used,
        **other,
    )
    return Candidate(load, topics)


def distributor(policy: str = "headroom", placement: Placement = Placement.LAN, seed: int = 1) -> Distributor:
    return Distributor(Balancing(distribution=policy), placement, seed)


def test_the_registry_has_the_names_of_the_federation_file() -> None:
    assert tuple(POLICIES) == DISTRIBUTIONS


@pytest.mark.parametrize("policy", DISTRIBUTIONS)
@pytest.mark.parametrize("state", list(LoadState))
def test_the_same_topic_goes_to_the_same_edge_whatever_its_state(policy: str, state: LoadState) -> None:
    edges = [edge("a", 0.1), edge("b", 0.97, state)]
    place = distributor(policy).assign(Newcomer("t", serving=("b",)), edges, 0.0)
    assert (place.broker, place.crowded, place.why) == ("b", False, "it serves the topic already")


def test_a_topic_that_is_being_moved_goes_to_its_target() -> None:
    edges = [edge("a", 0.5, BUSY), edge("b", 0.97, BUSY), edge("c")]
    assert distributor().assign(Newcomer("t", serving=("b",), target="a"), edges, 0.0).broker == "a"


def test_a_serving_edge_or_target_that_does_not_answer_or_exist_is_passed_over() -> None:
    edges = [edge("a", 0.5), edge("b", 0.1, reachable=False)]
    assert distributor().assign(Newcomer("t", serving=("b",)), edges, 0.0).broker == "a"
    assert distributor().assign(Newcomer("t", serving=("b", "a")), edges, 0.0).broker == "a"
    assert distributor().assign(Newcomer("t", target="b"), edges, 0.0).broker == "a"
    assert distributor().assign(Newcomer("t", serving=("z",), target="y"), edges, 0.0).broker == "a"


def test_of_several_edges_that_serve_it_the_emptiest() -> None:
    edges = [edge("a", 0.5), edge("b", 0.3), edge("c", 0.0)]
    assert distributor().assign(Newcomer("t", serving=("a", "b")), edges, 0.0).broker == "b"


@pytest.mark.parametrize("used", list(permutations([0.1, 0.5, 0.8])))
def test_in_a_lan_the_emptiest_low_edge(used: tuple[float, ...]) -> None:
    edges = [edge(name, each) for name, each in zip("abc", used, strict=True)]
    place = distributor().assign(Newcomer("t"), edges, 0.0)
    assert place.broker == "abc"[used.index(0.1)]
    assert place.why == "headroom 85%"


def test_share_and_not_size_decides_and_size_only_between_equals() -> None:
    edges = [edge("a", 0.5, capacity=10_000), edge("b", 0.4, capacity=100)]
    assert distributor().assign(Newcomer("t"), edges, 0.0).broker == "b"
    edges = [edge("a", 0.5, capacity=100), edge("b", 0.5, capacity=10_000)]
    assert distributor().assign(Newcomer("t"), edges, 0.0).broker == "b"


def test_unknown_capacity_counts_as_empty_and_ties_go_by_topics_then_name() -> None:
    assert distributor().assign(Newcomer("t"), [edge("a", 0.1), edge("b", None)], 0.0).broker == "b"
    edges = [edge("a", None, topics=3), edge("c", None, topics=2), edge("b", None, topics=2)]
    place = distributor().assign(Newcomer("t"), edges, 0.0)
    assert (place.broker, place.why) == ("b", "unknown headroom")


def test_in_a_wan_the_nearest_low_edge() -> None:
    edges = [edge("a", 0.1), edge("b", 0.8), edge("c", 0.92, HIGH)]
    wan = distributor(placement=Placement.WAN)
    place = wan.assign(Newcomer("t", rtt_ms={"a": 30.0, "b": 4.0, "c": 1.0}), edges, 0.0)
    assert (place.broker, place.why) == ("b", "nearest, 4 ms away")
    assert wan.assign(Newcomer("t", rtt_ms={"b": 90.0}), edges, 0.0).broker == "b"
    assert wan.assign(Newcomer("t", rtt_ms={"a": 4.0, "b": 4.0}), edges, 0.0).broker == "a"


@pytest.mark.parametrize("rtt_ms", [{}, {"b": math.nan}, {"b": -1.0}, {"b": math.inf}, {"c": 1.0}])
def test_in_a_wan_without_round_trips_the_emptiest(rtt_ms: dict[str, float]) -> None:
    edges = [edge("a", 0.1), edge("b", 0.8)]
    place = distributor(placement=Placement.WAN).assign(Newcomer("t", rtt_ms=rtt_ms), edges, 0.0)
    assert place.broker == "a"
    assert "no round trip was measured" in place.why


@pytest.mark.parametrize("policy", DISTRIBUTIONS)
def test_every_policy_chooses_among_low_edges_alone(policy: str) -> None:
    edges = [edge("a", 0.92, HIGH), edge("b", 0.1, BUSY), edge("c", 0.2, reachable=False), edge("d", 0.89)]
    chooser = distributor(policy)
    for number in range(20):
        assert chooser.assign(Newcomer(f"t{number}"), edges, 0.0).broker == "d"


def test_without_a_low_edge_a_high_one_with_room() -> None:
    edges = [edge("a", 0.93, HIGH), edge("b", 0.91, HIGH), edge("c", 0.1, BUSY), edge("d", 1.0, OVERLOAD)]
    neighbours = {"n": ClusterLoad(head=LOW, edges=LOW)}
    place = distributor().assign(Newcomer("t", neighbours=neighbours), edges, 0.0)
    assert (place.broker, place.crowded, place.neighbour) == ("b", False, "")
    # 0.95 - 0.91 of 1000: room for 40 messages a second
    assert not distributor().assign(Newcomer("t", expected=Amounts(0, 0, 39)), edges, 0.0).crowded
    place = distributor().assign(Newcomer("t", expected=Amounts(0, 0, 41)), edges, 0.0)
    assert place.crowded
    # c is busy, yet the least loaded
    assert place.broker == "c"


def test_a_low_neighbour_is_suggested_and_the_client_still_served() -> None:
    edges = [edge("a", 1.2, OVERLOAD), edge("b", 1.0, OVERLOAD)]
    neighbours = {
        "m": ClusterLoad(head=LOW, edges=LOW, headroom=0.3),
        "n": ClusterLoad(head=LOW, edges=LOW, headroom=0.6),
        "o": ClusterLoad(head=LOW, edges=HIGH, headroom=0.9),
    }
    place = distributor().assign(Newcomer("t", neighbours=neighbours), edges, 0.0)
    assert (place.broker, place.neighbour, place.crowded) == ("b", "n", True)
    assert "n has room" in place.why


def test_when_nothing_is_left_the_least_loaded_edge_and_an_event() -> None:
    edges = [edge("a", 1.2, OVERLOAD), edge("b", 1.0, OVERLOAD), edge("c", 0.0, reachable=False)]
    place = distributor().assign(Newcomer("t"), edges, 0.0)
    assert (place.broker, place.neighbour, place.crowded) == ("b", "", True)
    gone = [edge("a", 0.5, reachable=False), edge("b", 0.2, reachable=False)]
    place = distributor().assign(Newcomer("t"), gone, 0.0)
    assert (place.broker, place.crowded) == ("b", True)
    with pytest.raises(ValueError, match="head"):
        distributor().assign(Newcomer("t"), [], 0.0)


def test_what_comes_in_one_period_is_spread_before_it_can_be_measured() -> None:
    edges = [edge(name, used) for name, used in zip("abcd", (0.001, 0.002, 0.0015, 0.0), strict=True)]
    chooser = distributor()
    placed = Counter(chooser.assign(Newcomer(f"t{n}"), edges, 10.0).broker for n in range(100))
    assert placed == {"a": 25, "b": 25, "c": 25, "d": 25}
    # once it is in the measured load, the memory of it is gone
    assert chooser.assign(Newcomer("later"), edges, 14.0).broker == "d"
    assert chooser.assign(Newcomer("clock went back"), edges, 1.0).broker == "d"


def test_a_topic_is_reckoned_with_the_mean_share_of_those_that_are_served() -> None:
    edges = [edge("a", 0.4, topics=4), edge("b", 0.25, topics=2)]
    chooser = distributor()
    # 0.65 / 6 = 0.108 each: b, b, then a
    assert [chooser.assign(Newcomer(f"t{n}"), edges, 0.0).broker for n in range(3)] == ["b", "b", "a"]


def test_baselines() -> None:
    edges = [
        edge("b", 0.1, connections=9),
        edge("a", 0.8, connections=3),
        edge("c", 0.5, connections=3, topics=1),
    ]
    turns = distributor("round-robin")
    assert [turns.assign(Newcomer(f"t{n}"), edges, 0.0).broker for n in range(4)] == ["a", "b", "c", "a"]
    assert distributor("least-connections").assign(Newcomer("t"), edges, 0.0).broker == "a"
    draws = Counter(
        place.broker
        for chooser in (distributor("random", seed=7),)
        for n in range(3000)
        for place in (chooser.assign(Newcomer(f"t{n}"), edges, float(n)),)
    )
    assert all(900 < draws[name] < 1100 for name in "abc")
    again = [distributor("random", seed=7).assign(Newcomer("t"), edges, 0.0).broker for _ in range(5)]
    assert len(set(again)) == 1


STATES = st.sampled_from(list(LoadState))


@given(
    st.lists(st.tuples(st.one_of(st.none(), st.floats(0, 3)), STATES, st.booleans()), min_size=1, max_size=5),
    st.sampled_from(DISTRIBUTIONS),
    st.sampled_from(list(Placement)),
    st.lists(st.tuples(st.sampled_from("abcdez"), st.floats(-5, 500)), max_size=4),
)
def test_everybody_gets_an_edge_and_low_ones_come_first(
    edges: list[tuple[float | None, LoadState, bool]],
    policy: str,
    placement: Placement,
    rtts: list[tuple[str, float]],
) -> None:
    candidates = [
        edge(name, used, state, reachable=reachable)
        for name, (used, state, reachable) in zip("abcde", edges, strict=False)
    ]
    chooser = distributor(policy, placement)
    for number in range(3):
        place = chooser.assign(Newcomer(f"t{number}", rtt_ms=dict(rtts)), candidates, number * 0.1)
        chosen = next(each for each in candidates if each.name == place.broker)
        usable = {each.load.state for each in candidates if each.load.reachable}
        if usable:
            assert chosen.load.reachable
        if LOW in usable:
            assert chosen.load.state is LOW
        assert place.crowded <= (LOW not in usable)
        assert place.why


def test_the_order_in_which_edges_are_listed_does_not_matter() -> None:
    edges = [edge("a", 0.5), edge("b", 0.5), edge("c", None), edge("d", 0.93, HIGH)]
    for policy, order in product(DISTRIBUTIONS, permutations(edges)):
        expected = distributor(policy).assign(Newcomer("t"), edges, 0.0)
        assert distributor(policy).assign(Newcomer("t"), order, 0.0) == expected
