"""Topics that are published twice leave by two paths that share nothing, where the federation has them."""

from __future__ import annotations

import pytest
from tests.kit.engines import federation

from mangrove.model.topics import Contract, Mirror, TopicRules
from mangrove.simulation.overlay_network import SimulatedOverlay

RULES = TopicRules(
    (Contract(match="both.>", mirror=Mirror.BOTH), Contract(match="ready.>", mirror=Mirror.STANDBY))
)
BOTH, READY = 0, 1
RING = (("a", "b"), ("b", "d"), ("a", "c"), ("c", "d"))
LINE = (("a", "b"), ("b", "d"))


def network(*links: tuple[str, str]) -> SimulatedOverlay:
    net = SimulatedOverlay(federation(*links, topics=RULES), seed=1)
    net.subscribe("d", "both.x", "ready.x")
    net.run(2.0)
    return net


def test_two_paths_that_share_nothing_carry_what_is_always_mirrored() -> None:
    net = network(*RING)
    paths = net.engines["a"].active_paths(BOTH, "d")
    assert sorted(paths) == [("a", "b", "d"), ("a", "c", "d")]
    assert net.engines["a"].active_paths(READY, "d") == [], "on standby, the tables lead"
    assert all(not route.unmet for route in net.engines["a"].status(net.now).routes)


def test_where_there_are_no_two_paths_nothing_is_asked_for_that_cannot_be_given() -> None:
    net = network(*LINE)
    assert net.engines["a"].active_paths(BOTH, "d") == []
    assert net.engines["a"].status(net.now).routes == ()
    assert net.publish("a", "both.x", b"by the tables")
    net.run(3.0)
    assert net.delivered["d", b"by the tables"] == 1


@pytest.mark.parametrize(("subject", "waits"), [("both.x", False), ("ready.x", True)])
def test_a_black_hole_delays_only_what_has_one_path(subject: str, waits: bool) -> None:
    net = network(*RING)
    for link in (("a", "b"), ("b", "d")):
        net.black_hole(*link, True)
    assert net.publish("a", subject, b"into the hole")
    net.run(2.02)
    assert net.delivered["d", b"into the hole"] == (0 if waits else 1)
    net.run(6.0)
    assert net.delivered["d", b"into the hole"] == 1, "once in the end, by whichever way"
