"""Cases that random schedules found, by themselves."""

from __future__ import annotations

from itertools import pairwise

from tests.kit.engines import federation

from mangrove.model.topics import Contract, TopicRules
from mangrove.simulation.overlay_network import SimulatedOverlay

TWICE = TopicRules((Contract(match="twice", paths=2),))


def test_repair_may_lead_back_through_the_origin() -> None:
    """a sends to c by b; the link from b to c dies; the way that is left leads from b through a."""
    net = SimulatedOverlay(federation(("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")), seed=1)
    net.subscribe("c", "x")
    net.run(1.0)
    for number in range(100):
        net.publish("a", "x", str(number).encode())
        net.run(net.now + 0.01)
        if number == 40:
            net.black_hole("b", "c", swallow=True)
    net.run(net.now + 1.0)
    assert len(net.delivered) == 100
    assert not net.duplicates
    assert not net.dropped


def test_routes_chosen_while_the_network_was_young_become_disjoint() -> None:
    """The second link of the ring comes up last: until then both paths must share what there is."""
    shape = federation(("a", "b"), ("b", "d"), ("a", "c"), ("c", "d"), ("b", "c"), topics=TWICE)
    net = SimulatedOverlay(shape, seed=1)
    net.black_hole("c", "d", swallow=True)
    net.subscribe("d", "twice")
    net.run(2.0)
    net.black_hole("c", "d", swallow=False)
    net.run(6.0)
    paths = net.engines["a"].active_paths(0, "d")
    links = [frozenset(pair) for path in paths for pair in pairwise(path)]
    assert len(paths) == 2
    assert len(links) == len(set(links)), f"{paths} share a link"


def test_a_first_path_in_the_way_of_every_other_gives_way() -> None:
    """The shortest path a b c d leaves no disjoint second one, but a b f d and a e c d are disjoint."""
    pairs = [("a", "b"), ("b", "c"), ("c", "d"), ("a", "e"), ("c", "e"), ("b", "f"), ("d", "f")]
    net = SimulatedOverlay(federation(*pairs, topics=TWICE), seed=1)
    net.subscribe("d", "twice")
    net.run(3.0)
    assert set(net.engines["a"].active_paths(0, "d")) == {("a", "b", "f", "d"), ("a", "e", "c", "d")}
