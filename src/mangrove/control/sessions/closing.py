"""What is repeated until it is done: a session's record is removed, and neighbours are told of its end."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from mangrove.control.instructions import Instruction, Store, StoreWrite, TellPeer
from mangrove.control.store_writes import SESSIONS
from mangrove.model.agents.peers import SessionEnded

REPEAT_S = 1.0
MAX_TIMES = 30
"""A neighbour that has not answered after so many times has freed its brokers by its own time-out."""


class Closing:
    """Writes and messages that must get through: a record that stays is taken up by the next leader."""

    def __init__(self, number: Callable[[], int]) -> None:
        self._number = number
        self._peers: dict[tuple[str, str], tuple[float, int]] = {}
        """Session and neighbour → when it is told again, and how often it was."""
        self._writes: dict[int, dict[str, bytes | None]] = {}
        self._latest: dict[str, int] = {}
        """The last write of each key: what failed before it is not repeated."""
        self._unwritten: dict[str, bytes | None] = {}
        self._retry_at = math.inf

    def write(self, values: dict[str, bytes | None]) -> list[Instruction]:
        """Write values under keys of the sessions' bucket; None removes."""
        if not values:
            return []
        number = self._number()
        self._writes[number] = values
        for key in values:
            self._latest[key] = number
            self._unwritten.pop(key, None)
        return [Store(number, tuple(StoreWrite(SESSIONS, key, value) for key, value in values.items()))]

    def pending(self, key: str) -> bool:
        """Whether the last value of a key is not in the store yet."""
        return key in self._latest or key in self._unwritten

    def tell(self, session: str, peers: Iterable[str], now: float) -> list[Instruction]:
        """Neighbours are to know that a session is over."""
        told: list[Instruction] = []
        for peer in peers:
            self._peers[session, peer] = (now + REPEAT_S, 1)
            told.append(TellPeer(peer, SessionEnded(session=session)))
        return told

    def closed(self, session: str, peer: str) -> None:
        """A neighbour knows."""
        self._peers.pop((session, peer), None)

    def stored(self, write: int) -> None:
        """A write is in the store."""
        for key in self._writes.pop(write, {}):
            if self._latest.get(key) == write:
                del self._latest[key]

    def failed(self, write: int, now: float) -> None:
        """A write is to be repeated, unless there is a later one."""
        for key, value in self._writes.pop(write, {}).items():
            if self._latest.get(key) == write:
                self._unwritten[key] = value
                self._retry_at = now + REPEAT_S

    def timer(self) -> float:
        """When something is to be repeated."""
        return min(self._retry_at, min((at for at, _ in self._peers.values()), default=math.inf))

    def handle_timer(self, now: float) -> list[Instruction]:
        """Repeat what is due."""
        told: list[Instruction] = []
        for place, (at, times) in list(self._peers.items()):
            if at > now:
                continue
            if times >= MAX_TIMES:
                del self._peers[place]
                continue
            self._peers[place] = (now + REPEAT_S, times + 1)
            told.append(TellPeer(place[1], SessionEnded(session=place[0])))
        if now >= self._retry_at:
            values, self._unwritten, self._retry_at = self._unwritten, {}, math.inf
            told += self.write(values)
        return told
