"""What engines were told in a failure, told again to new ones: they must answer the same."""

from __future__ import annotations

from functools import partial

from tests.kit.engines import federation

from mangrove.model.topics import Contract, Order, TopicRules
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.events.happenings import ColourChanged
from mangrove.overlay.links.liveness import Timing
from mangrove.overlay.stimuli.replay import replay
from mangrove.overlay.stimuli.stimulus import Stimulus
from mangrove.simulation.overlay_network import SimulatedOverlay

RING = (("a", "b"), ("b", "c"), ("c", "d"), ("a", "d"))
RULES = TopicRules(
    (
        Contract(match="twice.>", paths=2, deadline_ms=100),
        Contract(match="ordered.>", order=Order.PUBLISHER),
    )
)
Told = list[tuple[Stimulus, int]]


def failover() -> tuple[SimulatedOverlay, dict[str, Told]]:
    """A link swallows everything for a while, a gateway's head broker dies, a gateway crashes."""
    shape = federation(*RING, topics=RULES)
    told: dict[str, Told] = {name: [] for name in "abcd"}
    record = {name: partial(lambda kept, *what: kept.append(what), told[name]) for name in "abc"}
    net = SimulatedOverlay(shape, seed=3, jitter_s=0.001, record=record)
    net.subscribe("c", "twice.x", "ordered.y", "plain")
    net.subscribe("b", "plain")
    net.run(1.0)
    for step in range(400):
        for subject in ("twice.x", "ordered.y", "plain"):
            net.publish("a", subject, f"{subject} {step}".encode() * 50)
        net.run(net.now + 0.01)
        if step == 100:
            net.black_hole("a", "b", swallow=True)
        if step == 200:
            net.lose_head("c")
        if step == 230:
            net.return_head("c", "twice.x", "ordered.y", "plain")
        if step == 250:
            net.crash("d", silent=False)
        if step == 300:
            net.black_hole("a", "b", swallow=False)
    net.run(net.now + 3.0)
    return net, told


def fresh(net: SimulatedOverlay, name: str, timing: Timing | None = None) -> OverlayEngine:
    return OverlayEngine(net.federation, name, net.engines[name].epoch, timing=timing)


def test_a_failover_replays_with_identical_instructions() -> None:
    net, told = failover()
    for name in "abc":
        found = replay(fresh(net, name), told[name])
        assert found.count == len(told[name]) > 1000
        assert found.identical, f"{name}: {found.differences[0]}"
        assert [event.id for event in found.events] == [event.id for event in net.engines[name].take_events()]
    kinds = {event.kind for event in replay(fresh(net, "a"), told["a"]).events}
    assert {"LinkFailed", "ColourChanged", "RouteRetired", "LinkRecovered"} <= kinds


def test_an_engine_that_decides_otherwise_is_noticed() -> None:
    net, told = failover()
    found = replay(fresh(net, "a", Timing(min_slack_s=0.2)), told["a"])
    assert not found.identical
    assert found.differences[0].position < len(told["a"])


def test_a_story_crosses_sites() -> None:
    """The neighbours of a failed link note it; everybody else's change of tables names their event."""
    net, _ = failover()
    events = {name: net.engines[name].take_events() for name in "abc"}
    failures = {event.id for name in "ab" for event in events[name] if event.kind == "LinkFailed"}
    elsewhere = [
        event
        for event in events["c"]
        if isinstance(event.happening, ColourChanged)
        and ("a", "b") in event.happening.failed
        and event.at > 1.0  # links that were never up have not failed
    ]
    assert elsewhere
    assert {event.cause for event in elsewhere} <= failures
