"""One publisher's order survives cuts, repairs, returning links and subscribers that come and go."""

from __future__ import annotations

from itertools import pairwise

import pytest
from tests.kit.engines import federation

from mangrove.model.federation import Federation, Link
from mangrove.model.topics import Contract, Order, TopicRules
from mangrove.simulation.overlay_network import SimulatedOverlay

RULES = TopicRules((Contract(match="twice", paths=2), Contract(match="loose", order=Order.NONE)))
DELAYS_MS = {("a", "b"): 10.0, ("b", "c"): 10.0, ("c", "d"): 30.0, ("a", "d"): 10.0}
INTERVAL_S = 0.001


def ring() -> SimulatedOverlay:
    shape = federation(*DELAYS_MS, topics=RULES)
    links = tuple(Link(between=pair, delay_ms=delay_ms) for pair, delay_ms in DELAYS_MS.items())
    shape = Federation(name="ring", domains=shape.domains, links=links, topics=RULES)
    return SimulatedOverlay(shape, seed=1)


def numbers(net: SimulatedOverlay, name: str) -> list[int]:
    """What arrived in a domain, in the order of arrival."""
    return [int(body) for where, body in net.delivered if where == name]


def publish(net: SimulatedOverlay, subject: str, first: int, count: int) -> None:
    for number in range(first, first + count):
        assert net.publish("a", subject, str(number).encode())
        net.run(net.now + INTERVAL_S)


def cut_and_heal(subject: str) -> tuple[SimulatedOverlay, list[int]]:
    """a sends to d while their link swallows everything, and while it is back."""
    net = ring()
    net.subscribe("d", subject)
    net.run(2.0)
    publish(net, subject, 0, 1000)
    net.black_hole("a", "d", swallow=True)
    publish(net, subject, 1000, 2000)
    net.black_hole("a", "d", swallow=False)
    publish(net, subject, 3000, 3000)
    net.run(net.now + 2.0)
    assert not net.duplicates
    return net, numbers(net, "d")


@pytest.mark.parametrize("subject", ["plain", "twice"])
def test_a_silent_cut_and_its_end_leave_everything_in_order(subject: str) -> None:
    net, arrived = cut_and_heal(subject)
    assert arrived == list(range(6000))
    times = [net.delivered_at["d", str(number).encode()] for number in arrived]
    gap = max(later - earlier for earlier, later in pairwise(times))
    assert gap < 0.2, f"a silence of {gap:.3f} s"


def test_without_order_the_returning_link_is_faster_than_the_detour() -> None:
    _, arrived = cut_and_heal("loose")
    assert sorted(arrived) == list(range(6000))
    assert arrived != sorted(arrived)


@pytest.mark.parametrize("leaves", [False, True])
def test_order_spans_a_change_of_destinations_while_the_path_changes(leaves: bool) -> None:
    """The link a – d returns while messages are on the detour, and another subscriber comes or leaves: what
    follows goes to other destinations, in another flow, by the faster way."""
    net = ring()
    net.subscribe("d", "x")
    if leaves:
        net.subscribe("b", "x")
    net.run(2.0)
    net.black_hole("a", "d", swallow=True)
    publish(net, "x", 0, 1000)
    net.black_hole("a", "d", swallow=False)
    number = 1000
    while not net.engines["a"].usable("d"):
        publish(net, "x", number, 1)
        number += 1
    (net.unsubscribe if leaves else net.subscribe)("b", "x")
    publish(net, "x", number, 500)
    net.run(net.now + 2.0)
    assert numbers(net, "d") == list(range(number + 500))
    assert numbers(net, "b") == sorted(numbers(net, "b"))
    assert len(numbers(net, "b")) > 400
    assert not net.duplicates
    net.validate()
