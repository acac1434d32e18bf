"""A subscription is ready when every domain that can be reached has acted upon it, and not before."""

from __future__ import annotations

from tests.kit.engines import federation

from mangrove.overlay.engine import OverlayEngine
from mangrove.simulation.overlay_network import SimulatedOverlay

LINE = (("a", "b"), ("b", "c"), ("c", "d"))


def ready(engine: OverlayEngine, subject: str) -> tuple[str, ...] | None:
    """Who is not aware of a subject; None if it was not even told."""
    stamp = engine.interest_stamp(subject, "")
    return None if stamp is None else engine.unaware(stamp)


def test_everybody_acknowledges_what_they_have_subscribed_to() -> None:
    net = SimulatedOverlay(federation(*LINE), seed=1)
    net.run(2.0)
    engine = net.engines["a"]
    assert ready(engine, "x") is None, "nobody wants it"
    net.subscribe("a", "x")
    assert ready(engine, "x") == ("b", "c", "d")
    while ready(engine, "x"):
        net.run(net.now + 0.01)
        assert net.now < 4.0
    for name in "bcd":
        assert net.publish(name, "x", name.encode()), "who has acknowledged sends"
    net.run(net.now + 0.1)
    assert {body for _, body in net.delivered} == {b"b", b"c", b"d"}


def test_who_cannot_be_reached_is_not_waited_for_until_it_is_back() -> None:
    net = SimulatedOverlay(federation(*LINE), seed=1)
    net.run(2.0)
    net.black_hole("c", "d", swallow=True)
    net.run(5.0)
    net.subscribe("a", "x")
    net.run(6.0)
    engine = net.engines["a"]
    assert ready(engine, "x") == ()
    net.black_hole("c", "d", swallow=False)
    net.run(12.0)
    assert ready(engine, "x") == ()
    assert net.publish("d", "x", b"from far away")


def test_a_restarted_gateway_has_forgotten_and_says_so() -> None:
    net = SimulatedOverlay(federation(*LINE), seed=1)
    net.subscribe("a", "x")
    net.run(3.0)
    stamp = net.engines["a"].interest_stamp("x", "")
    assert stamp is not None
    net.crash("d", silent=False)
    net.run(4.0)
    net.start("d")
    net.run(8.0)
    assert net.engines["a"].unaware(stamp) == ()
    assert net.publish("d", "x", b"it has learnt it again")


def test_a_later_version_is_asked_for_only_by_those_who_came_later() -> None:
    """Others keep subscribing: who waits for an earlier version is not kept waiting by them."""
    net = SimulatedOverlay(federation(*LINE), seed=1)
    net.subscribe("a", "x")
    net.run(3.0)
    engine = net.engines["a"]
    before = engine.interest_stamp("x", "")
    assert before is not None
    net.subscribe("a", "y")
    assert engine.unaware(before) == ()
    after = engine.interest_stamp("y", "")
    assert after is not None
    assert engine.unaware(after) == ("b", "c", "d")
