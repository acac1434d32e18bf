"""Links and sites that fail together, silently: nothing is lost where a way is left, whoever hears first."""

from __future__ import annotations

import random

import msgspec
import pytest
from tests.kit.engines import federation

from mangrove.model.federation import Federation, Prepare, RiskGroup
from mangrove.overlay.events.happenings import ColourChanged
from mangrove.routing.network.generators import random_network
from mangrove.simulation.overlay_network import SimulatedOverlay

LADDER = (("a", "b"), ("b", "c"), ("d", "e"), ("e", "f"), ("a", "d"), ("b", "e"), ("c", "f"), ("a", "f"))
"""Two rails of three sites, three rungs, and a way across."""


def with_group(shape: Federation, **groups: RiskGroup) -> Federation:
    return msgspec.structs.replace(shape, risk_groups=groups)


def cut(net: SimulatedOverlay, group: RiskGroup) -> None:
    for link in group.links:
        net.black_hole(*link, swallow=True)


def told_colours(net: SimulatedOverlay, name: str) -> list[ColourChanged]:
    return [e.happening for e in net.engines[name].take_events() if isinstance(e.happening, ColourChanged)]


@pytest.mark.parametrize("apart_s", [0.0, 0.02, 0.4])
def test_a_duct_is_cut_and_nothing_is_lost(apart_s: float) -> None:
    """Three links of one duct, at once or one after the other: between its links no state has a colour."""
    duct = RiskGroup(links=(("a", "b"), ("b", "e"), ("e", "f")))
    net = SimulatedOverlay(with_group(federation(*LADDER), duct=duct), seed=1)
    net.subscribe("f", "x")
    net.subscribe("b", "x")
    net.run(1.0)
    told_colours(net, "a")
    cut_at = [1.4 + number * apart_s for number in range(3)]
    for number in range(300):
        net.publish("a", "x", str(number).encode())
        net.run(net.now + 0.005)
        while cut_at and net.now >= cut_at[0]:
            net.black_hole(*duct.links[3 - len(cut_at)], swallow=True)
            cut_at.pop(0)
    net.run(net.now + 2.0)
    assert not cut_at
    assert sum(net.delivered.values()) == 600
    assert not net.duplicates
    assert not net.dropped
    changes = told_colours(net, "a")
    assert changes[-1].prepared, "the whole group has a colour"
    assert "(risk group duct, prepared table)" in changes[-1].sentence()
    assert [change.risk_group for change in changes[:-1]] == [""] * (len(changes) - 1)
    assert net.engines["a"].failed_links == frozenset(duct.links)
    if apart_s == 0.4:
        assert not all(change.prepared for change in changes), "two of its links have none"
    net.validate()


def test_without_the_group_the_same_cut_is_served_by_what_is_left() -> None:
    duct = RiskGroup(links=(("a", "b"), ("b", "e"), ("e", "f")))
    net = SimulatedOverlay(federation(*LADDER), seed=1)
    net.subscribe("f", "x")
    net.run(1.0)
    told_colours(net, "a")
    cut(net, duct)
    for number in range(100):
        net.publish("a", "x", str(number).encode())
        net.run(net.now + 0.005)
    net.run(net.now + 2.0)
    assert len(net.delivered) == 100
    assert not told_colours(net, "a")[-1].prepared


@pytest.mark.parametrize("seed", range(1, 21))
def test_groups_of_random_networks(seed: int) -> None:
    """A random group that leaves the network in one piece fails in silence while everybody publishes."""
    chance = random.Random(seed)
    graph = random_network(8, 14, seed=seed)
    shape = federation(*[(f"s{graph.names[u]}", f"s{graph.names[v]}") for u, v in graph.ends.tolist()])
    sites = sorted(shape.domains)
    links = [link.pair for link in shape.links]
    group = next(
        drawn
        for _ in range(200)
        if len(shape.reachable(sites[0], set(drawn := chance.sample(links, 4)))) == len(sites) - 1
    )
    shape = with_group(shape, duct=RiskGroup(links=tuple(group)))
    if seed % 2:
        shape = msgspec.structs.replace(shape, prepare=Prepare.PAIRS)
    net = SimulatedOverlay(shape, seed, jitter_s=0.002)
    for site in sites:
        net.subscribe(site, "x")
    net.run(2.0)
    published = 0
    for number in range(100):
        for site in sites:
            published += net.publish(site, "x", f"{site} {number}".encode())
        net.run(net.now + 0.01)
        if number == 30:
            cut(net, RiskGroup(links=tuple(group)))
    net.run(net.now + 3.0)
    assert published == 100 * len(sites)
    assert sum(net.delivered.values()) == published * (len(sites) - 1)
    assert not net.duplicates
    assert not net.dropped
    assert {engine.failed_links for engine in net.engines.values()} == {frozenset(group)}
    assert all(told_colours(net, site)[-1].prepared for site in sites)
    net.validate()
