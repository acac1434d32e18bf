"""A head broker that goes away and comes back: interest stays in force, and nothing is lost meanwhile."""

from __future__ import annotations

from tests.kit.engines import federation

from mangrove.overlay.interest.local_interest import HOLDOVER_S
from mangrove.simulation.overlay_network import SimulatedOverlay

LINE = (("a", "b"), ("b", "c"))


def network() -> SimulatedOverlay:
    net = SimulatedOverlay(federation(*LINE), seed=1)
    net.subscribe("c", "x", "y")
    net.run(2.0)
    return net


def test_messages_wait_for_the_subscribers_to_return() -> None:
    net = network()
    net.lose_head("c")
    net.run(3.0)
    assert net.publish("a", "x", b"while it is away"), "others keep sending"
    net.run(3.5)
    net.return_head("c", "x")
    net.run(4.0)
    assert net.publish("a", "y", b"y has not returned yet")
    assert not net.delivered, "a broker that has just restarted would throw it away"
    net.subscribe("c", "y")
    net.run(4.5)
    assert {body for _, body in net.delivered} == {b"while it is away", b"y has not returned yet"}
    kinds = [event.kind for event in net.engines["c"].take_events()]
    assert kinds[-2:] == ["HeadLost", "HeadSettled"]


def test_who_does_not_return_is_given_up_after_the_holdover() -> None:
    net = network()
    net.lose_head("c")
    net.return_head("c", "x")
    net.publish("a", "x", b"for x")
    net.run(2.0 + HOLDOVER_S - 0.1)
    assert not net.delivered
    assert net.publish("a", "y", b"still thought to be wanted")
    net.run(2.0 + HOLDOVER_S + 0.5)
    assert net.delivered["c", b"for x"] == 1
    assert not net.publish("a", "y", b"nobody wants it any more")
    assert net.engines["a"].status(net.now).interest["c"] == 1


def test_queue_groups_that_do_not_return_are_forgotten() -> None:
    net = network()
    engine = net.engines["c"]
    engine.change_local_interest("x", "workers", True)
    assert engine.queue_groups("x") == ("workers",)
    net.lose_head("c")
    net.return_head("c", "x", "y")
    assert engine.queue_groups("x") == ("workers",), "they may still come"
    net.run(2.0 + HOLDOVER_S + 0.1)
    assert engine.queue_groups("x") == ()
