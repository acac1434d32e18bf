"""What pages need of a feed: the live one has it, and so has one that is invented for a load test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from mangrove.monitor.feed.snapshot import Snapshot
from mangrove.monitor.told_event import ToldEvent


class Feed(Protocol):
    """See `LiveFeed`."""

    @property
    def snapshot(self) -> Snapshot:
        """The federation as it was last heard."""

    async def changed(self, seen: int, timeout_s: float | None = None) -> int:
        """Wait for a version after `seen`."""

    def events(
        self, since: float | None = None, until: float | None = None, last: int = 1_000
    ) -> Sequence[ToldEvent]:
        """The last events of a span of time."""

    def story(self, event_id: str) -> Sequence[ToldEvent]:
        """An event with its causes and consequences."""
