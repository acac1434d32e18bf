"""A frame is held as long as a detour may take, and never past its deadline."""

from __future__ import annotations

import pytest
from tests.kit.engines import federation
from tests.kit.frames import frame

from mangrove.model.topics import Contract, Late, TopicRules
from mangrove.overlay.delivery.ordered_flow import SETTLED_S
from mangrove.overlay.delivery.patience import MARGIN_S, MIN_HOLD_S, Patience
from mangrove.overlay.links.liveness import LinkCondition, Timing
from mangrove.overlay.links.neighbours import Neighbours
from mangrove.overlay.network.link_state import LinkMeasurements
from mangrove.overlay.network.live_map import LiveMap

RULES = TopicRules(
    (Contract(match="soon", deadline_ms=100, late=Late.DROP), Contract(match="wanted", deadline_ms=100))
)
BEST_EFFORT = 2


def patience(delay_ms: float = 1.0, heartbeat_s: float = 0.05, longest_dead_ms: float = 0.0) -> Patience:
    """Of gateway a on the line a – b – c."""
    shape = federation(("a", "b"), ("b", "c"), topics=RULES)
    live = LiveMap(shape, "a")
    delays_ms = {("a", "b"): delay_ms, ("b", "c"): delay_ms}
    live.update(frozenset(), LinkMeasurements(delays_ms=delays_ms, longest_dead_ms=longest_dead_ms))
    neighbours = Neighbours(["b"], Timing(heartbeat_s=heartbeat_s), 1 << 20)
    neighbours["b"].monitor.condition = LinkCondition.NORMAL
    return Patience(RULES, neighbours, live)


def test_the_hold_follows_the_network() -> None:
    waits = frame(topic_class=BEST_EFFORT)
    assert patience(heartbeat_s=0.01).hold_s(waits) == MIN_HOLD_S
    longer = patience(delay_ms=60.0).hold_s(waits)
    assert longer == pytest.approx(0.4 + 0.24), "two dead intervals, and twice the way to c"
    assert patience(delay_ms=60.0, heartbeat_s=0.1).hold_s(waits) == pytest.approx(longer + 0.2)
    assert patience(delay_ms=1000.0).hold_s(waits) == SETTLED_S


def test_what_is_stuck_in_a_link_elsewhere_is_waited_for() -> None:
    """A link that loses packets is given up late, and only its ends would know."""
    waits = frame(topic_class=BEST_EFFORT)
    own = patience().hold_s(waits)
    assert patience(longest_dead_ms=100.0).hold_s(waits) == own, "that of the own link is longer"
    assert patience(longest_dead_ms=400.0).hold_s(waits) == pytest.approx(0.8 + 0.004)
    assert patience(longest_dead_ms=700.0).hold_s(waits) == SETTLED_S


def test_nothing_is_held_until_it_is_late_but_what_is_late_anyway_keeps_its_order() -> None:
    for topic_class in (0, 1):
        fresh, older = frame(topic_class=topic_class), frame(topic_class=topic_class, age_us=80_000)
        assert patience().hold_s(fresh) == pytest.approx(0.1 - MARGIN_S)
        assert patience().hold_s(older) == pytest.approx(0.02 - MARGIN_S)
    assert patience().hold_s(frame(topic_class=0, age_us=300_000)) == 0.0
    assert patience().hold_s(frame(topic_class=1, age_us=300_000)) >= MIN_HOLD_S
