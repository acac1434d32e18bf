"""A compromised gateway lies to its neighbours: nobody believes it, and the honest agree all the same."""

from __future__ import annotations

from collections import Counter

from tests.kit.engines import federation

from mangrove.model.topics import Contract, TopicRules
from mangrove.overlay.events.happenings import StatementRefused
from mangrove.simulation.forging.beliefs import false_beliefs
from mangrove.simulation.forging.forger import LURE, LyingGateway
from mangrove.simulation.forging.keys import SimulatedAuthority
from mangrove.simulation.overlay_network import SimulatedOverlay

RULES = TopicRules((Contract(match="twice.>", paths=2),))
SHAPE = federation(("a", "b"), ("b", "c"), ("c", "d"), ("a", "d"), ("b", "d"), topics=RULES)


def network(seed: int = 1) -> SimulatedOverlay:
    return SimulatedOverlay(SHAPE, seed, authority=SimulatedAuthority(list(SHAPE.domains), seed))


def test_gateways_with_keys_do_what_those_without_do() -> None:
    net = network()
    net.subscribe("c", "twice.x", "plain")
    net.run(2.0)
    for number in range(50):
        for subject in ("twice.x", "plain"):
            assert net.publish("a", subject, f"{subject} {number}".encode())
        net.run(net.now + 0.02)
        if number == 20:
            net.black_hole("b", "c", swallow=True)
    net.run(net.now + 1.0)
    assert len(net.delivered) == 100
    assert not net.duplicates
    net.validate()
    assert not false_beliefs(net)


def test_lies_are_refused_and_named() -> None:
    net = network()
    net.subscribe("c", "twice.x", "plain")
    net.subscribe("a", "other")
    net.run(2.0)
    liar = LyingGateway(net, "b", seed=5)
    net.subscribe("d", "more")
    net.crash("c", silent=False)
    net.run(net.now + 1.0)
    net.start("c")
    net.run(net.now + 2.0)
    for _ in range(60):
        liar.lie(net.now + 0.4, 0.01)
        net.run(net.now + 0.5)
        net.validate()
        assert not false_beliefs(net)
    assert len(liar.lies) > 8, liar.lies
    refused = Counter(
        (event.happening.peer, event.happening.what)
        for name in "acd"
        for event in net.engines[name].take_events()
        if isinstance(event.happening, StatementRefused)
    )
    assert {peer for peer, _ in refused} == {"b"}, refused
    assert {what for _, what in refused} >= {"link state", "interest", "route", "notice of a region"}
    for name in "acd":
        engine = net.engines[name]
        assert not engine.failed_links
        assert LURE not in engine.wanted_elsewhere()
        assert any(" from b " in what for what in engine.status(net.now).ignored)
