"""Subjects that cannot be sent at the moment: nobody looks at them until what they wait for may have come.

There may be very many of them, beside a few that can be sent: they must not be passed over for each of those.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from mangrove.client.migration.paused_wire import PublishingWire
from mangrove.client.offline.backlog import Backlog

SELDOM_S = 1.0
"""How often a way that is closed is looked at, and a limit at least: not all that opens them is told."""
SOON_S = 0.01
"""How often a way is that takes no more for now, and a limit at most."""


class Aside:
    """Of one backlog. Subjects that go the same way are looked at together; so are those at their limits."""

    def __init__(self, backlog: Backlog, is_open: Callable[[PublishingWire], bool]) -> None:
        """`is_open` tells whether a way leads to a broker that is there."""
        self._backlog = backlog
        self._is_open = is_open
        self._wires: dict[PublishingWire, None] = {}
        self._look_at = math.inf
        """When the ways are looked at."""
        self.full: PublishingWire | None = None
        """A way that took no more when it was looked at last."""
        self._limited_until = math.inf
        """When the first of those at their limits may be sent."""
        self._limited_since = 0.0
        self._looked_s = 0.0
        """How long it took since then to see that they are at their limits."""

    def closed(self, subject: str, wire: PublishingWire, now: float) -> None:
        """The way of a subject is closed, or takes no more for now."""
        self._backlog.set_aside(subject, wire)
        if wire not in self._wires:
            self._wires[wire] = None
            self._note(wire, now)

    def _note(self, wire: PublishingWire, now: float) -> None:
        soon = self._is_open(wire)
        if soon:
            self.full = wire
        self._look_at = min(self._look_at, now + (SOON_S if soon else SELDOM_S))

    def limited(self, subject: str, wait_s: float, began: float) -> None:
        """A subject is at its limit, as was seen since `began`."""
        now = time.monotonic()
        if self._limited_until == math.inf:
            self._limited_since, self._looked_s = began, 0.0
        self._limited_until = min(self._limited_until, now + min(max(wait_s, SOON_S), SELDOM_S))
        self._looked_s += now - began
        self._backlog.set_aside(subject, self)

    def look(self) -> None:
        """A broker is back, or takes more: look at all ways."""
        self._look_at = 0.0

    def bring_back(self, now: float) -> None:
        """Have all looked at again whose way takes something, and those at limits if it is time."""
        if now >= self._look_at:
            self._look_at, self.full = math.inf, None
            for wire in list(self._wires):
                if self._backlog.waits_for(wire) and (wire.full or not self._is_open(wire)):
                    self._note(wire, now)
                else:
                    del self._wires[wire]
                    self._backlog.bring_back(wire)
        if now >= self._limits_at:
            self._limited_until = math.inf
            self._backlog.bring_back(self)

    @property
    def _limits_at(self) -> float:
        """When limits are looked at: at most half of the time is spent with that, however many they are."""
        return max(self._limited_until, self._limited_since + 2 * self._looked_s)

    def pause_s(self, now: float) -> float:
        """How long nobody need look at any of them."""
        return min(max(min(self._look_at, self._limits_at) - now, 0.0), SELDOM_S)
