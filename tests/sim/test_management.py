"""Management frames on a simulated network: they arrive, and delay neither heartbeats nor urgent data."""

from __future__ import annotations

from functools import partial

from tests.kit.engines import federation

from mangrove.model.topics import Contract, TopicRules
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.links.management import BYTES_A_SECOND, MAX_MANAGEMENT_BYTES, TOO_FAST
from mangrove.overlay.stimuli.replay import replay
from mangrove.overlay.stimuli.stimulus import Stimulus
from mangrove.simulation.overlay_network import SimulatedOverlay

RULES = TopicRules((Contract(match="alert.>", deadline_ms=200),))
SLOW_BYTES_S = 125_000.0


def failures(net: SimulatedOverlay) -> int:
    return sum(
        link.failures for engine in net.engines.values() for link in engine.status(net.now).links.values()
    )


def flood(net: SimulatedOverlay, seconds: float) -> int:
    """An agent that says more than it may, and a publisher; how many alerts were published."""
    alerts = 0
    for step in range(int(seconds * 100)):
        for _ in range(3):
            net.manage("a", "b", bytes(MAX_MANAGEMENT_BYTES))
        if step % 10 == 0:
            alerts += net.publish("a", "alert.x", b"alert %d" % step)
        net.run(net.now + 0.01)
    return alerts


def test_what_agents_say_goes_one_hop_and_to_nobody_else() -> None:
    net = SimulatedOverlay(federation(("a", "b"), ("b", "c")), seed=1)
    net.subscribe("c", ">")
    net.run(1.0)
    net.manage("a", "b", b"small")
    net.manage("a", "b", b"large" * 10_000)
    net.manage("c", "b", b"other")
    net.run(2.0)
    assert sorted(net.managed["b"]) == [("a", b"large" * 10_000), ("a", b"small"), ("c", b"other")]
    assert not net.managed["a"]
    assert not net.managed["c"]
    assert not net.delivered


def test_a_flood_delays_neither_heartbeats_nor_alerts() -> None:
    net = SimulatedOverlay(federation(("a", "b"), ("b", "c"), ("a", "c"), topics=RULES), seed=1)
    net.subscribe("b", "alert.>")
    net.run(1.0)
    alerts = flood(net, 5.0)
    net.run(net.now + 1.0)
    assert failures(net) == 0
    assert sum(body.startswith(b"alert") for _, body in net.delivered) == alerts == 50
    carried = net.engines["a"].status(net.now).links["b"].management
    assert carried.dropped[TOO_FAST] > 1000
    assert carried.sent_bytes <= BYTES_A_SECOND * 7.1


def test_a_flood_on_a_slow_link_leaves_most_of_it_to_data() -> None:
    net = SimulatedOverlay(federation(("a", "b"), ("b", "c"), ("a", "c"), topics=RULES), seed=1)
    net.subscribe("b", "bulk", "alert.>")
    net.run(1.0)
    for link in net.links.values():
        link.bytes_per_s = SLOW_BYTES_S
    for number in range(1000):
        net.publish("a", "bulk", b"bulk %d " % number * 60)
    alerts = flood(net, 4.0)
    late = [
        at
        for (_, body), at in net.delivered_at.items()
        if body.startswith(b"alert") and at > 1.0 + int(body.split()[1]) * 0.01 + 0.2
    ]
    assert not late
    assert alerts == 40
    carried = net.engines["a"].status(net.now).links["b"].management
    assert carried.sent_bytes <= 0.3 * SLOW_BYTES_S * 4.0
    net.run(net.now + 10.0)
    assert sum(body.startswith(b"bulk") for _, body in net.delivered) == 1000
    assert failures(net) == 0


def test_a_link_that_fails_loses_what_waits_and_carries_again_afterwards() -> None:
    net = SimulatedOverlay(federation(("a", "b"), ("b", "c"), ("a", "c")), seed=1)
    net.run(1.0)
    net.black_hole("a", "b", swallow=True)
    net.manage("a", "b", b"lost")
    net.run(3.0)
    net.manage("a", "b", b"dropped")
    net.black_hole("a", "b", swallow=False)
    net.run(8.0)
    net.manage("a", "b", b"back")
    net.run(9.0)
    assert net.managed["b"] == [("a", b"back")]
    net.validate()


def test_what_was_said_is_replayed_without_its_words() -> None:
    told: list[tuple[Stimulus, int]] = []
    shape = federation(("a", "b"))
    net = SimulatedOverlay(shape, seed=1, record={"a": partial(lambda kept, *what: kept.append(what), told)})
    net.run(1.0)
    net.manage("a", "b", b"secret" * 4000)
    net.manage("b", "a", b"secret" * 4000)
    net.run(2.0)
    assert net.managed["a"] == [("b", b"secret" * 4000)]
    assert b"secret" not in repr(told).encode()
    found = replay(OverlayEngine(shape, "a", net.engines["a"].epoch), told)
    assert found.identical, found.differences[0]
    assert found.stimuli["ManagementOffered"] == 1
