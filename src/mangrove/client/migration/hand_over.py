"""Hands one subscription over from a broker (OLD) to another (NEW): nothing lost, repeated or out of order.

No I/O: whoever runs it feeds what comes through both legs, publishes the markers and does what `stage` says.
The application gets OLD's stream until NEW is known to be complete, then NEW's without what OLD brought.
Why that is enough is argued in docs/decisions/0035-subscriptions-are-handed-over-between-markers.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Generic, TypeVar

from mangrove.client.migration.leg import Key, Leg, Origin

M = TypeVar("M")

MAX_HELD = 100_000
"""Messages that wait for OLD at most; with more, the subscription stays there."""
MAX_HELD_BYTES = 64 << 20
MIN_ROUNDS = 8
SEARCH_S = 1.0
"""So many rounds of markers, and so long, for messages that look the same and come without a pause."""
ENTER_S = 5.0
OVERLAP_S = 15.0
SETTLE_S = 5.0


class Stage(Enum):
    """How far a hand-over is."""

    ENTERING = "entering"
    """Subscribed at NEW; until a marker from each origin has come through it."""
    OVERLAPPING = "overlapping"
    """NEW is complete from here on; until it is known what OLD had brought before that."""
    SETTLING = "settling"
    """OLD is to be left; NEW's messages are handed out, but for copies of what OLD brought."""
    MOVED = "moved"
    STAYED = "stayed"


class HandOver(Generic[M]):
    """One subscription on its way from OLD to NEW.

    Begin it before NEW is subscribed to. `key_of` names a message: a text if it has an id, else a digest.
    """

    def __init__(
        self, key_of: Callable[[M], Key], size_of: Callable[[M], int], now: float, *, markers: bool = True
    ) -> None:
        """Without `markers` (they do not cross domains) the caller says when NEW is `in_force`, and for how
        long OLD is waited for."""
        self.stage = Stage.ENTERING
        self.problem = ""
        """Why it stays, or why it moved at once."""
        self.repeated = 0
        self.held_ms = 0.0
        self._key_of = key_of
        self._size_of = size_of
        self._origins = set(Origin) if markers else set()
        self._markers = markers
        self._old = Leg()
        self._new = Leg()
        self._held: list[tuple[float, M, Key]] = []
        self._held_bytes = 0
        self._next_number = 1
        self._counted_from = 0
        """Markers from this number on were published when NEW was complete."""
        self._last_from = 0
        """Markers from this number on were published when OLD had been drained."""
        self._given: Counter[Key] = Counter()
        """How often messages came through NEW, as far as they have been judged."""
        self._missing: dict[bytes, int] = {}
        """How often a message came through OLD before NEW was complete, for those judged already."""
        self._rounds: list[int] = []
        """Rounds of markers, published when NEW was complete, that have come through both legs."""
        self._unsettled: set[bytes] = set()
        """Messages through OLD of which that is not known yet."""
        self._until = now + ENTER_S
        self._complete_since = 0.0
        self._pause_until = 0.0
        self._settle_s = SETTLE_S

    @property
    def done(self) -> bool:
        """Whether it is over."""
        return self.stage in (Stage.MOVED, Stage.STAYED)

    @property
    def wants_markers(self) -> bool:
        """Whether markers are to be published now and then."""
        return self._markers and self.stage in (Stage.ENTERING, Stage.OVERLAPPING, Stage.SETTLING)

    @property
    def origins(self) -> frozenset[Origin]:
        """Where they are published."""
        return frozenset(self._origins)

    def next_number(self) -> int:
        """The number for the next round of markers, the same at all origins."""
        number = self._next_number
        self._next_number += 1
        return number

    def old(self, messages: Iterable[M], now: float) -> list[M]:
        """Messages have come through OLD: what to deliver."""
        if self.stage is Stage.STAYED:
            return list(messages)
        if self.stage in (Stage.SETTLING, Stage.MOVED):
            return []  # left already; they come through NEW
        taken = list(messages)
        for message in taken:
            key = self._key_of(message)
            self._old.take(key)
            if isinstance(key, bytes) and key not in self._missing:
                self._unsettled.add(key)
        if self._old.count > MAX_HELD:
            self._stay("more messages than can be remembered")
        return taken

    def new(self, messages: Iterable[M], now: float) -> list[M]:
        """Messages have come through NEW: what to deliver."""
        if self.stage is Stage.MOVED:
            return list(messages)
        if self.stage is Stage.STAYED:
            return []
        taken = [(now, message, self._key_of(message)) for message in messages]
        for _, _, key in taken:
            self._new.take(key)
        if self.stage is Stage.SETTLING:
            return self._judged(taken, now)
        self._held += taken
        self._held_bytes += sum(self._size_of(message) for _, message, _ in taken)
        if len(self._held) > MAX_HELD or self._held_bytes > MAX_HELD_BYTES:
            self._stay("more messages than can be held")
        return []

    def old_marker(self, origin: Origin, number: int, now: float) -> list[M]:
        """A marker has come through OLD: what to deliver now."""
        self._old.mark(origin, number)
        return self._round_came(number, now)

    def new_marker(self, origin: Origin, number: int, now: float) -> list[M]:
        """A marker has come through NEW: what to deliver now."""
        self._new.mark(origin, number)
        if self.stage is Stage.ENTERING and all(self._new.highest(each) for each in self._origins):
            self._complete(now)
        elif self.stage is Stage.SETTLING and all(
            self._new.highest(each) >= self._last_from for each in self._origins
        ):
            self._forget()
        return self._round_came(number, now)

    def in_force(self, pause_s: float, now: float) -> None:
        """Without markers: NEW is complete, and what was sent before has come through OLD after `pause_s`."""
        if self.stage is Stage.ENTERING:
            self._complete(now)
            self._settle_s = pause_s
            self._pause_until = now + pause_s
            self._until = now + pause_s + OVERLAP_S

    def old_lost(self, now: float) -> list[M]:
        """OLD's connection broke: what to deliver now. NEW serves from here on, whatever it had brought."""
        self._origins.discard(Origin.OLD)
        if self.stage in (Stage.ENTERING, Stage.OVERLAPPING):
            return self._release("the connection to the old broker broke", now)
        return []

    def new_lost(self) -> None:
        """NEW's connection broke. Before OLD is left it stays; afterwards NEW is like any broken one."""
        if self.stage in (Stage.ENTERING, Stage.OVERLAPPING):
            self._stay("the connection to the new broker broke")
        elif self.stage is Stage.SETTLING:
            self._origins.discard(Origin.NEW)

    def give_up(self, reason: str) -> None:
        """Stay at OLD if that is still possible."""
        if self.stage in (Stage.ENTERING, Stage.OVERLAPPING):
            self._stay(reason)

    def handle_timer(self, now: float) -> list[M]:
        """Time has passed: what to deliver now."""
        if self.stage is Stage.OVERLAPPING and not self._markers and now >= self._pause_until:
            return self._release("", now)
        if now >= self._until:
            if self.stage is Stage.ENTERING:
                self._stay(f"the subscription was not in force after {ENTER_S:g} s")
            elif self.stage is Stage.OVERLAPPING:
                self._stay("markers did not come through both brokers in time")
            elif self.stage is Stage.SETTLING:
                self._forget()
        return []

    def _complete(self, now: float) -> None:
        """What came through NEW before was handled by all brokers long before OLD is left: OLD brings it."""
        self._held.clear()
        self._held_bytes = 0
        self._new = Leg()
        self.stage = Stage.OVERLAPPING
        self._complete_since = now
        self._counted_from = self._next_number
        self._until = now + OVERLAP_S

    def _stay(self, problem: str) -> None:
        self.stage = Stage.STAYED
        self.problem = problem
        self._held.clear()
        self._forget_counts()

    def _round_came(self, number: int, now: float) -> list[M]:
        """Leave OLD once it is known of every message how often it came before NEW was complete."""
        if self.stage is not Stage.OVERLAPPING or number < self._counted_from or number in self._rounds:
            return []
        if not all(self._origins <= leg.places(number).keys() for leg in (self._old, self._new)):
            return []
        self._rounds.append(number)
        for key in list(self._unsettled):
            quiet = self._quiet_round(key)
            if quiet is not None:
                self._missing[key] = self._difference(key, quiet, Origin.HEAD)
                self._unsettled.discard(key)
        searched = len(self._rounds) >= MIN_ROUNDS and now >= self._complete_since + SEARCH_S
        return self._release("", now) if searched or not self._unsettled else []

    def _quiet_round(self, key: bytes) -> int | None:
        return next((number for number in reversed(self._rounds) if self._is_quiet(key, number)), None)

    def _is_quiet(self, key: bytes, number: int) -> bool:
        """Whether none of these messages came among the markers of a round, on either leg."""
        for leg in (self._old, self._new):
            places = leg.places(number).values()
            if leg.times_before(key, min(places)) != leg.times_before(key, max(places)):
                return False
        return True

    def _difference(self, key: bytes, number: int, origin: Origin) -> int:
        """How much oftener a message came through OLD than through NEW, up to one marker."""
        before_old = self._old.times_before(key, self._old.places(number)[origin])
        return max(0, before_old - self._new.times_before(key, self._new.places(number)[origin]))

    def _missing_of(self, key: bytes) -> int:
        """How often a message came through OLD alone, before NEW was complete."""
        found = self._missing.get(key)
        if found is None:
            found = self._missing[key] = self._estimate(key)
        return found

    def _estimate(self, key: bytes) -> int:
        """For messages that come thick and fast: the difference that is the same at all markers of an origin.

        Markers keep their place among the messages of their own broker alone; among others they float.
        """
        if not self._rounds:
            return max(0, self._old.times(key) - self._new.times(key))
        quiet = self._quiet_round(key)
        if quiet is not None:
            return self._difference(key, quiet, Origin.HEAD)
        votes = [
            Counter(self._difference(key, number, origin) for number in self._rounds).most_common(1)[0]
            for origin in Origin
            if origin in self._origins
        ]
        return max(votes, key=lambda vote: vote[1])[0]  # of equals, the head's

    def _release(self, problem: str, now: float) -> list[M]:
        """What OLD brings from here on comes through NEW as well."""
        self.problem = problem
        self.stage = Stage.SETTLING
        self._last_from = self._next_number
        self._until = now + self._settle_s
        held, self._held = self._held, []
        return self._judged(held, now)

    def _judged(self, taken: list[tuple[float, M, Key]], now: float) -> list[M]:
        """Messages of NEW without those that OLD had brought."""
        due = []
        for since, message, key in taken:
            self._given[key] += 1
            brought = self._old.times(key)
            if brought:
                copies = brought - self._missing_of(key) if isinstance(key, bytes) else brought
                if self._given[key] <= copies:
                    self.repeated += 1
                    continue
            self.held_ms = max(self.held_ms, (now - since) * 1e3)
            due.append(message)
        return due

    def _forget(self) -> None:
        self.stage = Stage.MOVED
        self._forget_counts()

    def _forget_counts(self) -> None:
        self._old = Leg()
        self._new = Leg()
        self._given.clear()
        self._missing.clear()
        self._unsettled.clear()
