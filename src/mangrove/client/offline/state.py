"""What a caller can see of what is kept for a broker's return."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from mangrove.client.offline.kept import Reason
from mangrove.client.publishing import Published


class OfflineState(msgspec.Struct, frozen=True, kw_only=True):
    """How much waits for a broker, since when, and what became of what waited before."""

    messages: int = 0
    """Messages that wait."""
    size_bytes: int = 0
    """What they take of the room, which is more than their payload."""
    since: float | None = None
    """When the oldest of them was published, in seconds since 1970; None if nothing waits."""
    kept: int = 0
    """Messages that had to wait, since the connection was made."""
    sent: int = 0
    """Those of them that were sent."""
    said_again: int = 0
    """Messages that were sent again, under their ids, because a broker may have died with them."""
    recovered: int = 0
    """Messages that an earlier process had left behind on disk."""
    unreadable_bytes: int = 0
    """What could not be read there: it was being written when the machine stopped, or is damaged."""
    shortened: int = 0
    """Messages that would not have been said again if a broker had died, for there were too many."""
    dropped: Mapping[str, Mapping[Reason, Published]] = msgspec.field(default_factory=dict)
    """What was given up, by subject and reason; under `>`, subjects beyond those counted one by one."""
    problem: str = ""
    """Why the disk does not have all that waits, or still has what waits no longer, if that is so."""

    def __bool__(self) -> bool:
        return self.messages > 0


OnOffline = Callable[[OfflineState], object]
"""Told when messages begin to wait, when the first of them has no room, and when all have been sent."""
