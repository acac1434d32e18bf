"""Events of all domains in order of time, as far as they are kept."""

from __future__ import annotations

import math
import time
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable

import msgspec

from mangrove.agent.story import KINDS
from mangrove.model.agents.names import AGENT_SUFFIX
from mangrove.model.events.event_log import Event, read_event
from mangrove.monitor.told_event import ToldEvent

MAX_EVENTS = 50_000
"""Older ones are let go of, and counted."""
MAX_AHEAD_S = 86_400.0
"""A clock that is further ahead than that is none."""


def _moment(event: Event) -> float:
    return event.at


class EventBook:
    """Takes events as domains tell them, each once."""

    def __init__(self) -> None:
        self._events: list[ToldEvent] = []
        self._ids: set[str] = set()
        self.forgotten = 0
        self.refused = 0
        """Of kinds that are not known here, of other domains' processes, or of a time to come."""

    def take(self, domain: str, lines: Iterable[bytes | msgspec.Raw]) -> bool:
        """What a domain wrote down; whether any of it is new."""
        before = len(self._ids) + self.forgotten
        latest = time.time() + MAX_AHEAD_S
        for line in lines:
            event = read_event(bytes(line), KINDS)
            if event is None or not _of(event, domain) or not 0 <= event.at <= latest:
                self.refused += 1
            elif event.id not in self._ids:
                self._ids.add(event.id)
                insort(self._events, _told(event, domain), key=_moment)
        surplus = len(self._events) - MAX_EVENTS
        if surplus > 0:
            self.forgotten += surplus
            self._ids.difference_update(event.id for event in self._events[:surplus])
            del self._events[:surplus]
        return len(self._ids) + self.forgotten != before

    def between(self, since: float | None, until: float | None, last: int) -> tuple[ToldEvent, ...]:
        """The `last` events of a span of time, in order; bounds in seconds since 1970."""
        first = 0 if since is None else bisect_left(self._events, since, key=_moment)
        end = len(self._events) if until is None else bisect_right(self._events, until, key=_moment)
        return tuple(self._events[max(first, end - last) : end])

    @property
    def events(self) -> list[ToldEvent]:
        """All that are kept; not to be changed."""
        return self._events


def _told(event: Event, domain: str) -> ToldEvent:
    process = event.id.rpartition("-")[0]
    return ToldEvent(
        id=event.id,
        at=event.at,
        cause=event.cause,
        happening=event.happening,
        domain=domain,
        by_agent=process.endswith(AGENT_SUFFIX),
    )


def _of(event: Event, domain: str) -> bool:
    """Whether the process that it happened in is one of the domain's: nobody tells the events of another."""
    return event.id.startswith(f"{domain}-") and math.isfinite(event.at)
