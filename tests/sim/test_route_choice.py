"""Contracts on a network in virtual time: promises kept and regained, load spread, nothing back and forth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

import pytest

from mangrove.model.events.event_log import Event
from mangrove.model.federation import Domain, Federation, Link
from mangrove.model.status import RouteStatus
from mangrove.model.topics import Contract, TopicRules
from mangrove.model.versions.document import WrittenDocument
from mangrove.model.versions.network import network_of
from mangrove.model.versions.succession import successor
from mangrove.simulation.overlay_network import SimulatedOverlay


def federation(
    pairs: dict[tuple[str, str], float],
    contracts: list[Contract],
    *,
    failure: float | None = None,
    bandwidth_mbps: float | None = None,
    places: Mapping[str, tuple[float, float]] = MappingProxyType({}),
) -> Federation:
    names = sorted({name for pair in pairs for name in pair})
    return Federation(
        name="choice",
        domains={
            name: Domain(name=name, base_port=1, location=places.get(name), failure_probability=failure)
            for name in names
        },
        links=tuple(
            Link(between=pair, delay_ms=delay, failure_probability=failure, bandwidth_mbps=bandwidth_mbps)
            for pair, delay in pairs.items()
        ),
        topics=TopicRules(tuple(contracts)),
    )


def routes_of(net: SimulatedOverlay, source: str) -> list[RouteStatus]:
    return [route for route in net.engines[source].status(net.now).routes if route.active]


def events_of(net: SimulatedOverlay, source: str) -> list[Event]:
    return net.engines[source].take_events()


THREE_WAYS = {
    ("s", "m"): 2.0,
    ("m", "t"): 2.0,
    ("s", "n"): 3.0,
    ("n", "t"): 3.0,
    ("s", "p"): 4.0,
    ("p", "t"): 4.0,
}


def test_a_resiliency_is_kept_with_fewest_paths_and_kept_again_after_a_failure() -> None:
    shape = federation(THREE_WAYS, [Contract(match="x", resiliency=0.999)], failure=0.01)
    net = SimulatedOverlay(shape, seed=1)
    net.subscribe("t", "x")
    net.run(3.0)
    assert {route.path for route in routes_of(net, "s")} == {("s", "m", "t"), ("s", "n", "t")}
    (promise,) = routes_of(net, "s")[0].requirements
    assert (promise.name, promise.asked, promise.met) == ("resiliency", 0.999, True)
    assert routes_of(net, "s")[0].resiliency == pytest.approx(1 - (1 - 0.99**3) ** 2, rel=1e-4)
    events_of(net, "s")
    net.black_hole("m", "t", True)
    net.run(6.0)
    assert {route.path for route in routes_of(net, "s")} == {("s", "n", "t"), ("s", "p", "t")}
    net.black_hole("m", "t", False)
    net.run(150.0)
    assert {route.path for route in routes_of(net, "s")} == {("s", "n", "t"), ("s", "p", "t")}, (
        "no need to move"
    )
    kinds = Counter(event.kind for event in events_of(net, "s"))
    assert (kinds["RouteRequested"], kinds["RouteRetired"]) == (1, 1)
    net.validate()


def test_a_promise_that_cannot_be_kept_is_told_and_taken_back() -> None:
    shape = federation(THREE_WAYS, [Contract(match="x", resiliency=0.9999)], failure=0.01)
    net = SimulatedOverlay(shape, seed=2)
    net.subscribe("t", "x")
    net.run(3.0)
    assert len(routes_of(net, "s")) == 3
    events_of(net, "s")
    net.black_hole("m", "t", True)
    net.run(5.0)
    unmet = [event for event in events_of(net, "s") if event.kind == "ContractUnmet"]
    assert len(unmet) == 1
    assert "a path is up with probability 0.9991, 0.9999 is promised" in unmet[0].happening.sentence()
    assert len(routes_of(net, "s")) == 2
    net.black_hole("m", "t", False)
    net.run(9.0)
    assert [event.kind for event in events_of(net, "s") if event.kind.startswith("Contract")] == [
        "ContractMet"
    ]
    assert len(routes_of(net, "s")) == 3
    net.validate()


def test_a_separation_is_regained_when_the_network_heals() -> None:
    places = {"s": (0.0, 0.0), "t": (0.0, 20.0), "m": (0.0, 10.0), "n": (2.0, 10.0), "p": (9.0, 10.0)}
    shape = federation(THREE_WAYS, [Contract(match="x", paths=2, separation_km=600)], places=places)
    net = SimulatedOverlay(shape, seed=3)
    net.subscribe("t", "x")
    net.run(3.0)
    apart = {("s", "m", "t"), ("s", "p", "t")}
    assert {route.path for route in routes_of(net, "s")} == apart
    net.black_hole("s", "p", True)
    net.run(6.0)
    near = routes_of(net, "s")
    assert {route.path for route in near} == {("s", "m", "t"), ("s", "n", "t")}
    assert "paths are 222 km apart, 600 km are asked for" in near[0].unmet
    net.black_hole("s", "p", False)
    net.run(12.0)
    assert {route.path for route in routes_of(net, "s")} in (apart, {("s", "n", "t"), ("s", "p", "t")})
    assert not routes_of(net, "s")[0].unmet
    net.validate()


def test_of_two_contracts_that_avoid_each_other_the_later_one_moves() -> None:
    places = {"s": (0.0, 0.0), "t": (0.0, 20.0), "m": (0.0, 10.0), "n": (6.0, 10.0), "p": (-9.0, 10.0)}
    contracts = [
        Contract(match="x", separation_km=300, apart_from=("y",)),
        Contract(match="y", separation_km=300, apart_from=("x",)),
    ]
    net = SimulatedOverlay(federation(THREE_WAYS, contracts, places=places), seed=6)
    net.subscribe("t", "x", "y")
    net.run(3.0)
    assert [(route.topic, route.path) for route in routes_of(net, "s")] == [("y", ("s", "n", "t"))]
    assert not routes_of(net, "s")[0].unmet
    events_of(net, "s")
    net.run(90.0)
    assert events_of(net, "s") == []
    net.validate()


@pytest.mark.parametrize("gone", ["z", "m"])
def test_contracts_keep_apart_also_after_a_site_has_left(gone: str) -> None:
    """Its number stays in the network without a place and without links: one beside all paths, or on one."""
    places = {
        "s": (0.0, 0.0),
        "t": (0.0, 20.0),
        "m": (0.0, 10.0),
        "n": (6.0, 10.0),
        "p": (-9.0, 10.0),
        "z": (40.0, 10.0),
    }
    contracts = [Contract(match="x", separation_km=300, apart_from=("y",)), Contract(match="y", rate_mbps=5)]
    net = SimulatedOverlay(federation({**THREE_WAYS, ("t", "z"): 5.0}, contracts, places=places), seed=1)
    net.subscribe("t", "x", "y")
    net.run(5.0)
    assert {route.topic: route.path[1] for route in routes_of(net, "s")} == {"x": "n", "y": "m"}
    engine = net.engines["s"]
    without = network_of(engine.federation).without(gone)
    contracts_stay = engine.document.topics.contracts
    after = successor(engine.document, contracts_stay, by="operator", at="", network=without)
    net.propose("s", WrittenDocument(text=after.text()))
    net.run(net.now + 30)
    assert gone not in engine.federation.domains
    if gone != "m":
        net.black_hole("s", "m", True)
    net.run(net.now + 60)
    found = routes_of(net, "s")
    assert {route.topic: route.path[1] for route in found} == {"x": "p", "y": "n"}
    assert not any(route.unmet for route in found)
    net.validate()


EQUAL_WAYS = {("s", "m"): 3.0, ("m", "t"): 3.0, ("s", "n"): 3.0, ("n", "t"): 3.0}


def test_contracts_of_one_source_do_not_pile_onto_one_of_two_equal_ways() -> None:
    contracts = [Contract(match=name, rate_mbps=30) for name in "abcd"]
    net = SimulatedOverlay(federation(EQUAL_WAYS, contracts, bandwidth_mbps=100), seed=4)
    net.subscribe("t", *"abcd")
    net.run(3.0)
    assert Counter(route.path[1] for route in routes_of(net, "s")) == {"m": 2, "n": 2}
    assert not any(route.unmet for route in routes_of(net, "s"))
    events_of(net, "s")
    net.run(150.0)
    assert events_of(net, "s") == [], "nothing happens, so nothing moves"
    net.validate()


def publish_steadily(net: SimulatedOverlay, source: str, subject: str, mbps: float, until: float) -> None:
    """Four messages a second, of which nothing is kept."""
    size = int(mbps * 31_250)
    number = 0

    def publish() -> None:
        nonlocal number
        number += 1
        net.delivered.clear()
        net.delivered_at.clear()
        net.publish(source, subject, f"{source} {subject} {number} ".encode().ljust(size, b"."))
        if net.now < until:
            net.at(net.now + 0.25, publish)

    net.at(net.now, partial(publish))


def test_sources_that_do_not_know_of_each_other_spread_over_what_is_free() -> None:
    """Four sources first take the same way; what its links carry is advertised, and some leave, once."""
    sources = ["s1", "s2", "s3", "s4"]
    pairs = {(source, middle): 3.0 for source in sources for middle in "mn"}
    pairs |= {("m", "t"): 3.0, ("n", "t"): 3.0}
    shape = federation(pairs, [Contract(match="x", rate_mbps=4)], bandwidth_mbps=12)
    net = SimulatedOverlay(shape, seed=5)
    net.subscribe("t", "x")
    net.run(2.0)
    for source in sources:
        publish_steadily(net, source, "x", 4, until=180.0)
    net.run(100.0)
    ways = Counter(routes_of(net, source)[0].path[1] for source in sources)
    assert ways == {"m": 2, "n": 2}
    assert not any(routes_of(net, source)[0].unmet for source in sources)
    requested = [
        event for source in sources for event in events_of(net, source) if event.kind == "RouteRequested"
    ]
    assert len(requested) <= 8, "each chose once and moved at most once"
    net.run(180.0)
    assert [event for source in sources for event in events_of(net, source) if "Route" in event.kind] == []
    net.validate()
