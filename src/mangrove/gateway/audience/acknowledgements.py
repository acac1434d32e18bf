"""Who waits until publishers know that they are listened to."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from heapq import heappop, heappush

import msgspec


class Awaited(msgspec.Struct):
    """A client that was told something, and for how long it may not know it."""

    client: str
    number: int
    until: float
    heard: bool = True


class Acknowledgements:
    """What is awaited, in the order in which it was told; who waits does so for all that was told before."""

    def __init__(self) -> None:
        self._told = 0
        self._awaited: OrderedDict[int, Awaited] = OrderedDict()
        self._tickets: dict[tuple[str, int], int] = {}
        self._ends: list[tuple[float, int]] = []
        """When what was told is known at the latest, the first first, also of what is known by now."""
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()

    def __len__(self) -> int:
        return len(self._awaited)

    @property
    def waiting(self) -> int:
        """Who waits."""
        return len(self._waiting)

    def tell(self, client: str, number: int, until: float) -> None:
        """A client is told, under a number of its own; whatever it says, it knows at `until`."""
        self._told += 1
        self._awaited[self._told] = Awaited(client, number, until)
        self._tickets[client, number] = self._told
        heappush(self._ends, (until, self._told))

    def known(self, client: str, number: int) -> bool:
        """A client knows; whether that was awaited."""
        ticket = self._tickets.pop((client, number), None)
        if ticket is None:
            return False
        del self._awaited[ticket]
        self._release()
        return True

    def unheard(self, client: str, number: int, until: float) -> None:
        """Nobody heard what a client was told: it is gone, and knows soon if it is not."""
        ticket = self._tickets.get((client, number))
        if ticket is not None:
            awaited = self._awaited[ticket]
            awaited.heard = False
            if until < awaited.until:
                awaited.until = until
                heappush(self._ends, (until, ticket))

    def after(self, done: Callable[[], None]) -> None:
        """Call `done` when everybody knows what was told so far: at once, if they do."""
        if self._awaited:
            self._waiting.append((self._told, done))
        else:
            done()

    def expire(self, now: float) -> list[Awaited]:
        """Those who did not say that they know; nobody waits for them any more."""
        late = []
        while self._ends and self._ends[0][0] <= now:
            each = self._awaited.pop(heappop(self._ends)[1], None)
            if each is not None:
                del self._tickets[each.client, each.number]
                late.append(each)
        if late:
            self._release()
        return late

    def _release(self) -> None:
        first = next(iter(self._awaited), self._told + 1)
        while self._waiting and self._waiting[0][0] < first:
            self._waiting.popleft()[1]()
