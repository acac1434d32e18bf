"""An event as a monitor has it: with the domain that told it."""

from __future__ import annotations

from mangrove.model.events.event_log import Event


class ToldEvent(Event, frozen=True, kw_only=True):
    """An event, and whose it is: a process may be called by more than its domain."""

    domain: str
    by_agent: bool
    """Whether an agent noted it, and no gateway."""
