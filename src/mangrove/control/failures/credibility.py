"""What clients' reports of dead brokers are worth: who was wrong too often is not listened to for a while.

A client whose session is down while its broker lives has trouble with its line, which is worth to be told.
One that says so again and again, of whatever broker, costs a count and nothing else.
"""

from __future__ import annotations

from collections import Counter, OrderedDict

import msgspec

WRONG = 3
"""A client that was wrong so often within `MEMORY_S` is not believed."""
MEMORY_S = 60.0
TOLD_AGAIN_S = 60.0
"""Trouble of one client with one broker is an event at most so often."""
MAX_CLIENTS = 1_000
NOT_BELIEVED = "reports of dead brokers by clients that were wrong before"
OTHER_BROKER = "reports of brokers that are not of this domain"


class _Mistakes(msgspec.Struct):
    count: int = 0
    until: float = 0.0


class Credibility:
    """Remembers a bounded number of clients that were wrong, the latest ones."""

    def __init__(self) -> None:
        self._mistakes: OrderedDict[str, _Mistakes] = OrderedDict()
        self._told_at: OrderedDict[tuple[str, str], float] = OrderedDict()
        self.refused: Counter[str] = Counter()
        self.refuted = 0
        """Reports of brokers that were alive."""

    def believes(self, client: str, now: float) -> bool:
        """Whether a report of a client counts."""
        mistakes = self._mistakes.get(client)
        if mistakes is None or now >= mistakes.until or mistakes.count < WRONG:
            return True
        self.refused[NOT_BELIEVED] += 1
        return False

    def was_wrong(self, client: str, broker: str, now: float) -> bool:
        """The broker that a client reported is alive; whether that is worth an event."""
        self.refuted += 1
        mistakes = self._mistakes.setdefault(client, _Mistakes())
        if now >= mistakes.until:
            mistakes.count = 0
        mistakes.count += 1
        mistakes.until = now + MEMORY_S
        self._mistakes.move_to_end(client)
        if len(self._mistakes) > MAX_CLIENTS:
            self._mistakes.popitem(last=False)
        trouble = (client, broker)
        if now - self._told_at.get(trouble, -TOLD_AGAIN_S) < TOLD_AGAIN_S:
            return False
        self._told_at[trouble] = now
        self._told_at.move_to_end(trouble)
        if len(self._told_at) > MAX_CLIENTS:
            self._told_at.popitem(last=False)
        return True
