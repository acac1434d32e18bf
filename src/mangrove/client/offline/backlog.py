"""Messages that wait for a broker: in order within a subject, the most urgent subjects first, within bounds.

What has no room, or waits for too long, is given back as dropped: nothing disappears here.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator

from mangrove.client.offline.kept import Dropped, Kept, Reason
from mangrove.client.offline.urgency import Urgency

MIN_HEAP = 64


class _Class:
    """Subjects that are equally urgent: each in order, in turns; and which message is the oldest of all."""

    def __init__(self) -> None:
        self.queues: dict[str, deque[Kept]] = {}
        self.turns: OrderedDict[str, None] = OrderedDict()
        """Subjects that are not set aside. The one whose turn it is comes first."""
        self._oldest: list[tuple[int, str]] = []
        """A heap of numbers; those of messages that have left are passed over."""
        self.messages = 0

    def append(self, kept: Kept) -> None:
        self._queue(kept.subject).append(kept)
        self._note(kept)

    def prepend(self, kept: Kept) -> None:
        self._queue(kept.subject).appendleft(kept)
        self._note(kept)

    def _queue(self, subject: str) -> deque[Kept]:
        queue = self.queues.get(subject)
        if queue is None:
            queue = self.queues[subject] = deque()
            self.turns[subject] = None
        return queue

    def _note(self, kept: Kept) -> None:
        self.messages += 1
        heapq.heappush(self._oldest, (kept.number, kept.subject))
        if len(self._oldest) > 2 * self.messages + MIN_HEAP:
            self._oldest = sorted(
                (each.number, each.subject) for queue in self.queues.values() for each in queue
            )

    def pop(self, subject: str) -> Kept:
        queue = self.queues[subject]
        kept = queue.popleft()
        self.messages -= 1
        if not queue:
            del self.queues[subject]
            self.turns.pop(subject, None)
        return kept

    def bring_back(self, subject: str) -> None:
        """It is this subject's turn."""
        self.turns[subject] = None
        self.turns.move_to_end(subject, last=False)

    def oldest(self) -> Kept | None:
        """Numbers rise within a subject: the lowest of all is the first of its subject."""
        heap = self._oldest
        while heap:
            number, subject = heap[0]
            queue = self.queues.get(subject)
            if queue is not None and queue[0].number == number:
                return queue[0]
            heapq.heappop(heap)
        return None


class Backlog:
    """All that waits. Numbers of messages rise in the order in which they were published."""

    def __init__(self, max_bytes: int, max_age_s: float, urgency: Callable[[str], Urgency]) -> None:
        self._max_bytes = max_bytes
        self._max_age_s = max_age_s
        self._urgency = urgency
        self._classes: dict[Urgency, _Class] = {}
        self._ranks: list[Urgency] = []
        """The most urgent first."""
        self._aside: dict[object, dict[str, _Class]] = {}
        """Subjects that nobody looks at, by what they wait for."""
        self._waits_for: dict[str, object] = {}
        self.messages = 0
        self.size_bytes = 0

    def __contains__(self, subject: str) -> bool:
        found = self._classes.get(self._urgency(subject))
        return found is not None and subject in found.queues

    def __iter__(self) -> Iterator[Kept]:
        """In the order of publishing."""
        queues = (queue for each in self._classes.values() for queue in each.queues.values())
        return heapq.merge(*queues, key=lambda kept: kept.number)

    def govern(self, urgency: Callable[[str], Urgency]) -> None:
        """Contracts have become known: what waits is sorted anew, and nothing is set aside."""
        waiting = list(self)
        self._urgency = urgency
        self._classes, self._ranks = {}, []
        self._aside, self._waits_for = {}, {}
        for kept in waiting:
            self._class_of(kept.subject).append(kept)

    def _class_of(self, subject: str) -> _Class:
        urgency = self._urgency(subject)
        found = self._classes.get(urgency)
        if found is None:
            found = self._classes[urgency] = _Class()
            self._ranks = sorted(self._classes)
        return found

    # -- coming ---------------------------------------------------------------------------------------------

    def add(self, kept: Kept) -> list[Dropped]:
        """A message waits from now on, behind all others of its subject; what was dropped to make room.

        Room is made of the oldest messages of the least urgent subjects. One that is itself the least urgent
        and larger than all the room is dropped at once.
        """
        self._class_of(kept.subject).append(kept)
        self.messages += 1
        self.size_bytes += kept.size_bytes
        return self._make_room()

    def put_back(self, some: Iterable[Kept]) -> list[Dropped]:
        """These were taken before all that waits of their subjects, and wait again; what was dropped."""
        for kept in sorted(some, key=lambda one: one.number, reverse=True):
            self._class_of(kept.subject).prepend(kept)
            self.messages += 1
            self.size_bytes += kept.size_bytes
        return self._make_room()

    def _make_room(self) -> list[Dropped]:
        dropped = []
        while self.size_bytes > self._max_bytes:
            for rank in reversed(self._ranks):
                oldest = self._classes[rank].oldest()
                if oldest is not None:
                    dropped.append(Dropped(self.take(oldest.subject), Reason.TOO_MUCH))
                    break
        return dropped

    # -- leaving --------------------------------------------------------------------------------------------

    def by_urgency(self) -> Iterator[str]:
        """Subjects that are not set aside: the most urgent first, those that are equally urgent in turns.

        Ask anew when something was taken: there may be very many subjects, so this is no copy.
        """
        for rank in self._ranks:
            yield from self._classes[rank].turns

    def subjects(self) -> Iterator[str]:
        """All of which something waits, set aside or not."""
        for each in self._classes.values():
            yield from each.queues

    def first(self, subject: str) -> Kept | None:
        """What is next of a subject."""
        found = self._classes.get(self._urgency(subject))
        queue = None if found is None else found.queues.get(subject)
        return None if queue is None else queue[0]

    def take(self, subject: str) -> Kept:
        """The next message of a subject that waits; it waits no longer."""
        found = self._class_of(subject)
        kept = found.pop(subject)
        if subject not in found.queues:
            self._not_aside(subject)
        self.messages -= 1
        self.size_bytes -= kept.size_bytes
        return kept

    def had_its_turn(self, subject: str) -> None:
        """Others that are as urgent come first now."""
        turns = self._class_of(subject).turns
        if subject in turns:
            turns.move_to_end(subject)

    def set_aside(self, subject: str, what: object) -> None:
        """A subject cannot be sent until it is brought back; what waits of it keeps its place."""
        found = self._class_of(subject)
        if subject in found.queues and self._waits_for.get(subject) is not what:
            self._not_aside(subject)
            found.turns.pop(subject, None)
            self._aside.setdefault(what, {})[subject] = found
            self._waits_for[subject] = what

    def waits_for(self, what: object) -> bool:
        """Whether a subject was set aside for this."""
        return what in self._aside

    def bring_back(self, what: object) -> None:
        """It is the turn of all that wait for this, as if they had not been set aside."""
        for subject, found in reversed(self._aside.pop(what, {}).items()):
            del self._waits_for[subject]
            found.bring_back(subject)

    def bring_back_subject(self, subject: str) -> None:
        """The same, of a single subject."""
        found = self._not_aside(subject)
        if found is not None:
            found.bring_back(subject)

    def _not_aside(self, subject: str) -> _Class | None:
        """Its class, if it was set aside."""
        what = self._waits_for.pop(subject, None)
        if what is None:
            return None
        those = self._aside[what]
        found = those.pop(subject)
        if not those:
            del self._aside[what]
        return found

    def expire(self, now_ns: int) -> list[Dropped]:
        """What has waited for too long."""
        dropped = []
        for rank, each in self._classes.items():
            while (oldest := each.oldest()) is not None:
                reason = self._expiry(rank, oldest, now_ns)
                if reason is None:
                    break
                dropped.append(Dropped(self.take(oldest.subject), reason))
        return dropped

    def expiry(self, kept: Kept, now_ns: int) -> Reason | None:
        """Why a message should not be sent any more, if it should not."""
        return self._expiry(self._urgency(kept.subject), kept, now_ns)

    def _expiry(self, urgency: Urgency, kept: Kept, now_ns: int) -> Reason | None:
        age_s = (now_ns - kept.at_ns) / 1e9
        if urgency.late(age_s):
            return Reason.LATE
        return Reason.TOO_OLD if age_s > self._max_age_s else None

    def oldest_ns(self) -> int | None:
        """When the oldest message that waits was published."""
        firsts = (each.oldest() for each in self._classes.values())
        return min((kept.at_ns for kept in firsts if kept is not None), default=None)
