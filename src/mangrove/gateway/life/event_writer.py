"""Writes the engine's events down: for the story, and what was not believed also for the audit log."""

from __future__ import annotations

from collections.abc import Callable

from mangrove.host.audit.audit_log import AuditLog
from mangrove.host.event_file import EventFile
from mangrove.model.audit.entry import AuditKind, Fact
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.events.happenings import StatementRefused


class EventWriter:
    """Takes what happened from the engine."""

    def __init__(
        self, engine: OverlayEngine, file: EventFile, audit: AuditLog, told: Callable[[], None]
    ) -> None:
        """`told` is called when something happened: whoever watches this gateway should look."""
        self._engine = engine
        self._file = file
        self._audit = audit
        self._told = told

    def write(self) -> None:
        """Write what happened since the last time."""
        events = self._engine.take_events()
        self._file.write(events)
        if events:
            self._told()
        for event in events:
            match event.happening:
                case StatementRefused(peer=peer, origin=origin, what=what, reason=reason, count=count):
                    facts: dict[str, Fact] = {"peer": peer, "origin": origin, "what": what, "reason": reason}
                    self._audit.add(AuditKind.MESSAGE_REFUSED, facts, count)
