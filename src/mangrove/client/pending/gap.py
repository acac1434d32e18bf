"""What a subscriber is told of messages that it will not get."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Literal

import msgspec

from mangrove.client.message import Message
from mangrove.errors import MangroveError
from mangrove.model.congestion.terms import Slow

MAX_GAPS = 1_000
"""Subjects that are told apart before somebody takes the notices; the others are told together."""

UNSUBSCRIBED: Literal["unsubscribed"] = "unsubscribed"
"""The reason for what waited for a callback when its subscription ended."""


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """Messages of one subject that were left out since the last notice of it."""

    subject: str
    """The subscription's own pattern stands for all subjects beyond the first `MAX_GAPS`."""
    lost: int
    reason: str
    """The policy (`Slow`) that left them out, or `unsubscribed`."""
    first_time: float | None = None
    """When the earliest of them was published, in seconds since 1970; None if they do not say."""
    last_time: float | None = None
    """When the latest of them was."""


OnGap = Callable[[Gap], Awaitable[None] | None]


class SlowSubscriberError(MangroveError):
    """The subscription was ended because its reader did not keep up (`slow: disconnect`)."""

    def __init__(self, subject: str, waiting: int) -> None:
        self.subject = subject
        self.waiting = waiting
        super().__init__(
            f"the subscription to {subject} was ended: {waiting:,} messages waited for its reader",
            hint="read faster, raise max_pending, or choose another policy for slow subscribers",
        )


class Gaps:
    """Counts what a subscription lost, exactly, until it is told."""

    def __init__(self, pattern: str, *, one_subject: bool) -> None:
        self._pattern = pattern
        self._one_subject = one_subject
        self.untold: dict[tuple[str, str], Gap] = {}
        """By subject and reason."""
        self.lost: Counter[str] = Counter()
        """All that was left out so far, by reason."""

    def note(self, lost: list[Message], reason: Slow | Literal["unsubscribed"]) -> dict[str, int]:
        """Count messages that were left out, given in the order in which they came; how many by subject."""
        self.lost[reason] += len(lost)
        if self._one_subject:
            counts = {self._pattern: len(lost)}
            ends = {self._pattern: (lost[0], lost[-1])}
        else:
            counts = Counter([message.subject for message in lost])
            first = {message.subject: message for message in reversed(lost)}
            last = {message.subject: message for message in lost}
            ends = {subject: (first[subject], last[subject]) for subject in counts}
        for subject, count in counts.items():
            self._add(subject, count, reason, *(message.published_at for message in ends[subject]))
        return counts

    def _add(self, subject: str, count: int, reason: str, *times: float | None) -> None:
        if (subject, reason) not in self.untold and len(self.untold) >= MAX_GAPS:
            subject = self._pattern
        before = self.untold.get((subject, reason))
        known = [time for time in times if time is not None]
        if before is not None:
            count += before.lost
            known += [time for time in (before.first_time, before.last_time) if time is not None]
        self.untold[subject, reason] = Gap(
            subject=subject,
            lost=count,
            reason=str(reason),
            first_time=min(known, default=None),
            last_time=max(known, default=None),
        )

    def look(self) -> list[Gap]:
        """What has not been told yet."""
        return list(self.untold.values())

    def take(self) -> list[Gap]:
        """What has not been told yet; from here on it has been."""
        gaps = list(self.untold.values())
        self.untold.clear()
        return gaps

    def take_first(self) -> Gap | None:
        """The first that has not been told yet; from here on it has been."""
        return self.untold.pop(next(iter(self.untold))) if self.untold else None
