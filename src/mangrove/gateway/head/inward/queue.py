"""What waits for the head broker: bounded in bytes, the oldest dropped first and counted."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from mangrove.gateway.mediation.manner import AS_IT_IS, Manner

FROM_HERE = ""
"""The origin of messages of this domain that come back to it: they pass no border."""

Waiting: TypeAlias = tuple[bytes, int, str, Manner]
"""A body, what its frame had left of hops, the domain that it came from, and how it comes in."""


class HeadQueue:
    """Passes bodies straight on while the broker can take them, and holds them as they came while it cannot.

    They are looked into when they are passed on: what they mean may have changed while they waited. The bound
    counts what is held here; the socket's own buffer is bounded by its high-water mark.
    """

    def __init__(
        self,
        limit_bytes: int,
        deliver: Callable[[bytes, int, str, Manner], None],
        dropped: Callable[[bytes], None],
    ) -> None:
        self._limit_bytes = limit_bytes
        self._deliver = deliver
        self._dropped = dropped
        self._open = False
        self._held: deque[Waiting] = deque()
        self.held_bytes = 0

    @property
    def flows(self) -> bool:
        """Whether nothing waits and nothing need wait."""
        return self._open and not self._held

    def send(self, body: bytes, hop_limit: int, origin: str = FROM_HERE, manner: Manner = AS_IT_IS) -> None:
        """Deliver now, or when the broker can take it; `hop_limit` is what its frame had left."""
        if self._open:
            self._deliver(body, hop_limit, origin, manner)
            return
        self._held.append((body, hop_limit, origin, manner))
        self.held_bytes += len(body)
        while self.held_bytes > self._limit_bytes:
            self._dropped(self._pop()[0])

    def _pop(self) -> Waiting:
        waiting = self._held.popleft()
        self.held_bytes -= len(waiting[0])
        return waiting

    def take_out(self) -> list[Waiting]:
        """Give up all that waits."""
        held = list(self._held)
        self._held.clear()
        self.held_bytes = 0
        return held

    def open(self) -> None:
        """The broker can take more: let out what waited, until it cannot again."""
        self._open = True
        while self._held and self._open:
            self._deliver(*self._pop())

    def shut(self) -> None:
        """The broker is full or gone."""
        self._open = False
