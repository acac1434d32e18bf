"""How long a frame ahead of its turn may be held: as long as a detour takes, but not until it is late."""

from __future__ import annotations

from mangrove.model.topics import Late
from mangrove.model.versions.rules_in_force import Rules
from mangrove.overlay.delivery.ordered_flow import SETTLED_S
from mangrove.overlay.links.neighbours import Neighbours
from mangrove.overlay.network.live_map import LiveMap
from mangrove.overlay.protocol.frames import Frame

MIN_HOLD_S = 0.25
MARGIN_S = 0.005
"""A frame is let go so much before its deadline."""


class Patience:
    """Knows the network and the contracts.

    What entered a failed link goes another way when the failure is detected, and others that learn of the
    failure earlier may send around it meanwhile. What is stuck there may be behind others that come through
    late and show that the link lives; only then does the silence begin for which it is given up. So frames
    are late by two dead intervals and a detour: the longest interval of all links, since it is not known here
    which ones the missing frames are on.
    """

    def __init__(self, rules: Rules, neighbours: Neighbours, live: LiveMap) -> None:
        self._rules = rules
        self._neighbours = neighbours
        self._live = live

    @property
    def detour_s(self) -> float:
        """How much later than others a frame may come that had to take another way."""
        dead_s = max((each.monitor.dead_interval_s for each in self._neighbours if each.usable), default=0.0)
        dead_s = max(dead_s, self._live.measured.longest_dead_ms / 1000)
        return min(SETTLED_S, max(MIN_HOLD_S, 2 * dead_s + 2 * self._live.farthest_s))

    def hold_s(self, frame: Frame) -> float:
        """How long a frame may be held."""
        contract = self._rules.contract_at(frame.topic_class)
        if contract.deadline_ms is None:
            return self.detour_s
        left_s = (contract.deadline_ms - self._live.own_egress_ms) / 1000 - frame.age_us / 1e6 - MARGIN_S
        if left_s > 0:
            return min(self.detour_s, left_s)
        # What is late but wanted has nothing left to lose but its order.
        return self.detour_s if contract.late is Late.DELIVER else 0.0
