"""How events reach who listens: hosts say how many there are, and who wants them asks from where it is.

Numbers are places in the order in which a host's supervisor, in one life of it, read the event logs of its
processes. Who has a number gets what comes after it, a page at a time; nobody keeps a list of readers.
"""

from __future__ import annotations

import msgspec

from mangrove.model.stream.messages import ONLY_HOST

EVENTS_PART = "events"


def events_part(host: str) -> str:
    """The part that tells how many events there are on a host: `EventHead`."""
    return f"{EVENTS_PART}_{host or ONLY_HOST}"


def events_subject(domain: str, host: str) -> str:
    """Where the events of a host are asked for: `EventsQuestion`; the answer is an `EventsPage`."""
    return f"mangrove.{domain}.status.events.{host or ONLY_HOST}"


def host_of_events(part: str) -> str:
    """The host that speaks in a part, as it is in subjects."""
    return part.removeprefix(f"{EVENTS_PART}_")


class EventHead(msgspec.Struct, frozen=True, kw_only=True):
    """How many events were read so far."""

    life: int
    count: int


class EventsQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """What comes after the first `after` events? Of another life, or by default: all that is kept."""

    life: int = 0
    after: int = 0


class EventsPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some events, as they were written down, from number `first` on."""

    life: int
    count: int
    """Of all."""
    first: int
    """More than was asked for: those in between are not kept any more."""
    lines: tuple[msgspec.Raw, ...] = ()
