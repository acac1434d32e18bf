"""Where new subscribers are led: never where it is worse, forbidden or full, and never to and fro."""

from __future__ import annotations

import math
from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from mangrove.control.steering.choice import RESERVE, choose, cost_at
from mangrove.control.steering.distances import Distances
from mangrove.control.steering.room import Demand, fit
from mangrove.evaluation.steering.trial import Playing, run_seed
from mangrove.evaluation.steering.workload import Setting, draw_workload
from mangrove.model.agents.load import Amounts, ClusterLoad, LoadState, Metric
from mangrove.model.agents.peers import EdgeRoom
from mangrove.model.federation import Domain, Federation, Link

NAMES = ("a", "b", "c", "d", "e")


@st.composite
def federations(draw: st.DrawFn) -> Federation:
    pairs = [(first, second) for number, first in enumerate(NAMES) for second in NAMES[number + 1 :]]
    chosen = draw(st.lists(st.sampled_from(pairs), min_size=1, unique=True))
    delays = st.sampled_from([1.0, 2.0, 5.0, 20.0])
    return Federation(
        name="drawn",
        domains={name: Domain(name=name, base_port=4000) for name in NAMES},
        links=tuple(Link(between=pair, delay_ms=draw(delays)) for pair in chosen),
    )


loads = st.builds(
    ClusterLoad,
    head=st.just(LoadState.LOW),
    edges=st.sampled_from(LoadState),
    headroom=st.none() | st.floats(0.0, 0.95),
)
published = st.dictionaries(st.sampled_from(NAMES), st.integers(1, 5))


def neighbours(federation: Federation, home: str, told: Mapping[str, ClusterLoad]) -> dict[str, ClusterLoad]:
    linked = {link.other(home) for link in federation.links_of(home)}
    return {name: load for name, load in told.items() if name in linked}


@given(federations(), st.sampled_from(NAMES), published, st.dictionaries(st.sampled_from(NAMES), loads))
def test_nobody_is_led_where_it_is_worse_or_full(
    federation: Federation, home: str, sources: dict[str, int], told: dict[str, ClusterLoad]
) -> None:
    distances = Distances(federation)
    around = neighbours(federation, home, told)
    verdict = choose(home, sources, around, distances)
    assert verdict.why
    assert choose(home, sources, around, distances, shared=True).domain == "", (
        "others stay: nothing is spared"
    )
    backwards = dict(reversed(around.items()))
    assert choose(home, dict(reversed(sources.items())), backwards, Distances(federation)) == verdict
    if not verdict.domain:
        return
    load = around[verdict.domain]
    assert load.edges is LoadState.LOW
    assert load.headroom is None or load.headroom > RESERVE
    before, after = cost_at(home, sources, distances), cost_at(verdict.domain, sources, distances)
    assert after.no_worse_than(before)
    assert after.crossings < before.crossings
    assert verdict.slack_ms >= 0.0
    for other in around:
        if other != verdict.domain and cost_at(other, sources, distances).crossings < after.crossings:
            full = around[other].edges is not LoadState.LOW or (around[other].headroom or 1.0) <= RESERVE
            assert full or not cost_at(other, sources, distances).no_worse_than(before)


@given(federations(), st.sampled_from(NAMES), published)
def test_where_somebody_is_led_nobody_is_led_back(
    federation: Federation, home: str, sources: dict[str, int]
) -> None:
    """Costs fall with every step, so no chain of decisions comes back to where it was."""
    empty = ClusterLoad(head=LoadState.LOW, edges=LoadState.LOW)
    distances = Distances(federation)
    been = [home]
    while domain := choose(
        been[-1], sources, neighbours(federation, been[-1], dict.fromkeys(NAMES, empty)), distances
    ).domain:
        assert domain not in been
        been.append(domain)


rooms = st.builds(
    EdgeRoom,
    broker=st.sampled_from([f"b-edge{number}" for number in range(1, 5)]),
    remaining=st.dictionaries(st.sampled_from(Metric), st.floats(0.0, 1e6)),
    headroom=st.none() | st.floats(-0.5, 0.95) | st.just(math.nan),
    topics=st.lists(st.sampled_from("xyz"), unique=True).map(tuple),
)
demands = st.dictionaries(
    st.sampled_from("vwxyz"),
    st.builds(
        Demand,
        clients=st.just(("one",)),
        stream=st.builds(Amounts, st.floats(0, 1e6), st.just(0.0), st.floats(0, 1e4)),
        output=st.floats(0, 1e6),
    ),
)


@given(demands, st.lists(rooms, unique_by=lambda room: room.broker))
def test_no_edge_is_given_more_than_leaves_its_reserve(
    wanted: dict[str, Demand], offered: list[EdgeRoom]
) -> None:
    taken = fit(wanted, offered)
    assert taken == fit(dict(reversed(wanted.items())), offered[::-1])
    by_name = {room.broker: room for room in offered}
    for topic, incoming in taken.items():
        served = topic in by_name[incoming.broker].topics
        needed = wanted[topic]
        assert incoming.load[Metric.OUTPUT] >= needed.output
        assert served or incoming.load[Metric.INPUT] >= needed.stream.input
    for name, room in by_name.items():
        given_ = [each for each in taken.values() if each.broker == name]
        if not given_:
            continue
        assert room.headroom is None or room.headroom > RESERVE
        part = 1.0 - RESERVE / (1.0 if room.headroom is None else room.headroom)
        for metric, left in room.remaining.items():
            assert sum(each.load[metric] for each in given_) <= part * left + 1e-6


SMALL = Setting(domains=3, topics=8, subscribers=16)


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([600.0, 120.0, 60.0]))
def test_agents_lead_nobody_to_and_fro_and_spare_links(seed: int, capacity_msg_s: float) -> None:
    """The brains of three domains in virtual time, with edges that are empty, used or full."""
    found = run_seed(SMALL.changed(capacity_msg_s=capacity_msg_s), seed)
    home, steered = found["home"], found["steered"]
    assert home.moved == 0 or home.sessions
    if not home.sessions and not steered.sessions:
        assert steered.orders <= 2
        assert steered.link_msg_s <= home.link_msg_s
        assert steered.mean_ms <= home.mean_ms + 1e-9
        assert steered.overload_s <= home.overload_s


def test_who_is_where_its_home_is_stays_there() -> None:
    """A round trip tells: a client at home would lose on its own line what is gained between domains."""
    workload = draw_workload(3, SMALL.changed(abroad=0.0))
    playing = Playing(workload, steer=True)
    playing.result()
    assert all(playing.served_in(each) == each.home for each in workload.subscribers)
