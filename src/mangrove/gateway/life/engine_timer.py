"""Lets the engine, and all that goes by time beside it, do what is due."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic

from mangrove.gateway.life.event_writer import EventWriter
from mangrove.gateway.limits.arrivals import ArrivalLimits
from mangrove.gateway.sealing.sealed_traffic import SealedTraffic
from mangrove.host.audit.audit_log import AuditLog
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.instructions import Instruction

MIN_TICK_S = 0.002
MAX_TICK_S = 1.0
"""A gateway that stands by has hardly anything to do."""


class EngineTimer:
    """Comes back when the engine says that something is due."""

    def __init__(
        self,
        engine: OverlayEngine,
        carry_out: Callable[[list[Instruction]], None],
        sealed: SealedTraffic,
        events: EventWriter,
        arrivals: ArrivalLimits,
        audit: AuditLog,
    ) -> None:
        self._engine = engine
        self._carry_out = carry_out
        self._sealed = sealed
        self._events = events
        self._arrivals = arrivals
        self._audit = audit
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        """When the timer is served."""

    def tick(self) -> None:
        """Let the engine do what is due, and come back when something is due again.

        Called early when a neighbour appears: from then on, heartbeats bring it back often enough for all
        else.
        """
        self.stop()
        try:
            self._carry_out(self._engine.handle_timer(monotonic()))
            self._sealed.tell(monotonic())
            self._events.write()
            self._arrivals.expire(monotonic())
            self._audit.settle()
        finally:  # whatever went wrong: without heartbeats all neighbours would give this gateway up
            self.set()

    def set(self) -> None:
        """Come back when something is due; never later than was said before."""
        now = monotonic()
        due = max(min(self._engine.timer(), now + MAX_TICK_S), now + MIN_TICK_S)
        if self._timer is not None:
            if self._due <= due:
                return
            self._timer.cancel()
        self._due = due  # uvloop's handle does not tell it, if the time has passed already
        self._timer = asyncio.get_running_loop().call_at(due, self.tick)

    def stop(self) -> None:
        """Come back no more, until told to."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
