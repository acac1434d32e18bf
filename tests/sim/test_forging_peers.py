"""A compromised gateway lies to its neighbours: nobody believes it, and the honest agree all the same."""

from __future__ import annotations

import os
from collections import Counter

import pytest
from tests.kit.engines import federation

from mangrove.model.topics import Contract, TopicRules
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.events.happenings import StatementRefused
from mangrove.overlay.stimuli.replay import replay
from mangrove.overlay.stimuli.stimulus import FrameCame, Stimulus, TrustAnswered
from mangrove.overlay.trust.recorded_trust import RecordedTrust
from mangrove.overlay.trust.trust import Judgement, KeyTrust
from mangrove.simulation.forging.beliefs import false_beliefs
from mangrove.simulation.forging.forger import LURE, LyingGateway
from mangrove.simulation.forging.keys import SimulatedAuthority
from mangrove.simulation.overlay_network import SimulatedOverlay
from mangrove.simulation.schedules.batch import run_schedules

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


def test_honest_gateways_keep_their_promises_beside_a_liar() -> None:
    totals = run_schedules(range(1, 13), lying=True)
    assert not totals.broken, "\n".join(str(result) for result in totals.broken)
    assert totals.promised > totals.schedules


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_honest_gateways_keep_their_promises_beside_two_thousand_liars() -> None:
    totals = run_schedules(range(1, 2_001), workers=os.cpu_count() or 1, lying=True)
    assert not totals.broken, "\n".join(str(result) for result in totals.broken)


def test_a_gateway_that_believes_everything_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KeyTrust, "judge", lambda *_: Judgement("", 0.0))
    broken = run_schedules(range(1, 3), lying=True).broken
    assert any("never said" in problem for result in broken for problem in result.problems)


def test_a_failover_beside_a_liar_replays_with_identical_instructions() -> None:
    """A recording holds what keys and clocks answered, so that it can be replayed without keys."""
    told: list[tuple[Stimulus, int]] = []
    authority = SimulatedAuthority(list(SHAPE.domains), 3)
    record = {"a": lambda *what: told.append(what)}
    net = SimulatedOverlay(SHAPE, 3, authority=authority, record=record)
    epoch = net.engines["a"].epoch
    net.subscribe("c", "twice.x", "plain")
    net.subscribe("a", "from.c")
    net.run(2.0)
    assert net.publish("a", "plain", b"from a")
    assert net.publish("c", "from.c", b"by way of others, who could not have said it")
    LyingGateway(net, "b", seed=4).lie(6.0, 0.02)
    net.black_hole("a", "d", swallow=True)
    net.run(3.0)
    net.black_hole("a", "d", swallow=False)
    net.renew_keys("a")
    net.run(6.5)
    found = replay(OverlayEngine(SHAPE, "a", epoch, trust=RecordedTrust()), told)
    assert found.identical, found.differences[0]
    assert {"TrustAnswered", "KeysRenewed"} <= found.stimuli.keys()
    assert "StatementRefused" in {event.kind for event in found.events}
    assert any(isinstance(each, FrameCame) and each.frame.frame().tags for each, _ in told)
    del told[next(n for n, (each, _) in enumerate(told) if isinstance(each, TrustAnswered) and n > 100)]
    assert not replay(OverlayEngine(SHAPE, "a", epoch, trust=RecordedTrust()), told).identical
