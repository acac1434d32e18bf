"""What was sent and may still be lost: until a broker has confirmed it, and a moment beyond.

A broker that confirms has taken a message in; that it has also passed it on nobody tells. It does so at
once, so what it confirmed a moment ago is not said again when it dies.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import islice

import msgspec

from mangrove.client.offline.kept import Kept

SETTLE_S = 0.5
"""What was confirmed for so long has been passed on."""
MAX_UNCONFIRMED = 1 << 12
MAX_UNCONFIRMED_BYTES = 1 << 22
"""Beyond it publishers wait for a confirmation."""
MAX_MESSAGES = 1 << 13
"""Subscribers know at least so many ids: more, said again, would be taken for new ones."""
MAX_BYTES = 1 << 23


class Flight:
    """Messages in the order in which they were sent. Only what was confirmed leaves it, unless taken back."""

    def __init__(self) -> None:
        self._sent: deque[Kept] = deque()
        self._left = 0
        """Messages that are not in it any more; positions are counted from the first message of all."""
        self._confirmed = 0
        """The position behind the last message that was confirmed."""
        self._times: deque[tuple[float, int]] = deque()
        self._size_bytes = 0
        self._unconfirmed_bytes = 0
        self.takes = 0
        """How often something was taken back: positions of before mean nothing then."""
        self.shortened = 0
        """Messages that left sooner than they should, because there were too many."""

    def __len__(self) -> int:
        return len(self._sent)

    @property
    def end(self) -> int:
        """The position behind the last message."""
        return self._left + len(self._sent)

    @property
    def full(self) -> bool:
        """Whether so much is unconfirmed that nothing should be added."""
        return (
            self.end - self._confirmed >= MAX_UNCONFIRMED or self._unconfirmed_bytes >= MAX_UNCONFIRMED_BYTES
        )

    def add(self, kept: Kept) -> None:
        """A message was sent."""
        self._sent.append(kept)
        size_bytes = kept.size_bytes
        self._size_bytes += size_bytes
        self._unconfirmed_bytes += size_bytes

    def unconfirmed(self) -> set[str]:
        """Subjects of what nobody has confirmed."""
        return {kept.subject for kept in islice(self._sent, self._confirmed - self._left, None)}

    def confirm(self, end: int, takes: int, now: float) -> None:
        """Everything before a position was confirmed, as `end` and `takes` were when that was asked for."""
        if takes != self.takes or end <= self._confirmed:
            return
        start = self._confirmed - self._left
        newly = islice(self._sent, start, end - self._left)
        self._unconfirmed_bytes -= sum(kept.size_bytes for kept in newly)
        self._confirmed = end
        self._times.append((now, end))

    def settle(self, now: float) -> list[Kept]:
        """What has arrived, as far as can be known."""
        settled: list[Kept] = []
        while self._times and self._times[0][0] + SETTLE_S <= now:
            self._leave(self._times.popleft()[1], settled)
        due = len(settled)
        while len(self._sent) > MAX_MESSAGES or self._size_bytes > MAX_BYTES:
            if self._left >= self._confirmed:
                break
            self._leave(self._left + 1, settled)
        self.shortened += len(settled) - due
        return settled

    def _leave(self, until: int, into: list[Kept]) -> None:
        while self._left < until:
            kept = self._sent.popleft()
            self._left += 1
            self._size_bytes -= kept.size_bytes
            into.append(kept)

    def take_back(self, lost: Callable[[str], bool]) -> list[Kept]:
        """What may be lost with a broker, subject by subject; the rest is taken for unconfirmed."""
        taken, stayed = [], deque[Kept]()
        subjects: dict[str, bool] = {}
        for kept in self._sent:
            gone = subjects.get(kept.subject)
            if gone is None:
                gone = subjects[kept.subject] = lost(kept.subject)
            if gone:
                taken.append(msgspec.structs.replace(kept, again=True))
            else:
                stayed.append(kept)
        self._sent = stayed
        self._left = self._confirmed = 0
        self._times.clear()
        self._size_bytes = self._unconfirmed_bytes = sum(kept.size_bytes for kept in stayed)
        self.takes += 1
        return taken
