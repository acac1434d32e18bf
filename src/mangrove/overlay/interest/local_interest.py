"""What the own domain's subscribers want, as the head broker tells it.

While the head broker is away (a restart takes a moment, and its edges come back one by one), the last known
interest stays in force for a holdover, so that the other domains keep sending and nothing flaps. What comes
for the domain meanwhile must wait: a broker that has just restarted would throw away what comes before its
subscribers have returned.

Where another broker has taken the head's place, only those are away who were connected to the dead one. So
the others are waited for a moment only, and then served; what nobody else wants waits on.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from itertools import chain

from mangrove.model.patterns.trie import SubjectTrie
from mangrove.model.selectors.group_names import selector_in
from mangrove.model.subjects import patterns_over
from mangrove.overlay.interest.snapshots import first_slice
from mangrove.overlay.interest.waiting_wants import Leaf, WaitingWants
from mangrove.overlay.interest.wants import parts, want

HOLDOVER_S = 5.0
KEPT_HOLDOVER_S = 120.0
"""While a broker is away that keeps subscriptions and messages on its disk, and takes long to start."""
MOVED_HOLDOVER_S = 0.5
"""For the other brokers to find the one that has taken the head's place: they dial every 50 to 100 ms."""
WITHDRAWN_PER_TURN = 2000
"""Wants of a broker that did not come back are given up so many at a time, while others get their turn."""


class LocalInterest:
    """Subjects wanted in this domain, plain or by queue groups, and the changes not yet passed on."""

    def __init__(self, holdover_s: float = HOLDOVER_S) -> None:
        self._holdover_s = holdover_s
        self._wanted: dict[str, None] = {}
        """Wants that the broker has confirmed, in the order in which they came."""
        self._groups: SubjectTrie[str] = SubjectTrie()
        """Queue groups by subject; those of a lost broker count until the holdover ends."""
        self._selecting: SubjectTrie[str] = SubjectTrie()
        """And those that stand for selectors: there may be very many, and to read a name takes time."""
        self._patterns = 0
        """How many plain wants with wildcards are in force."""
        self._stale: dict[str, None] = {}
        self._stale_until: float | None = None
        self._served_from: float | None = None
        """When those who are back are served, though others are not."""
        self._served = False
        self._given_up = 0
        self._added = WaitingWants()
        self._removed = WaitingWants()

    def tell_together(self, leaf: Leaf) -> None:
        """From the beginning, changes that have the same `leaf` are passed on together."""
        assert not self.pending, "what waits already has its order"
        self._added, self._removed = WaitingWants(leaf), WaitingWants(leaf)

    @property
    def additions(self) -> bool:
        """Whether there are new wants to pass on."""
        return bool(self._added)

    @property
    def withdrawals(self) -> bool:
        """Whether there are wants to pass on that are gone."""
        return bool(self._removed)

    @property
    def pending(self) -> bool:
        """Whether there are changes to pass on."""
        return self.additions or self.withdrawals

    @property
    def settled(self) -> bool:
        """Whether all subscribers are back since the broker was away, or are not waited for any more."""
        return self._served or not self._stale

    def __len__(self) -> int:
        """Wants that are in force."""
        return len(self._wanted) + len(self._stale)

    def groups_for(self, subject: str) -> tuple[str, ...]:
        """The queue groups that want a literal subject; those that stand for selectors are no such groups."""
        return tuple(sorted(self._groups.match(subject)))

    def wants(self, subject: str) -> bool:
        """Whether anybody wants a literal subject, plainly or in a queue group."""
        if subject in self._wanted or subject in self._stale:
            return True
        if self._groups.match(subject) or self._selecting.match(subject):
            return True
        # There may be very many wants, and this is seldom asked: they have no other order for it.
        return self._patterns > 0 and any(
            pattern is None or pattern in self._wanted or pattern in self._stale
            for pattern in patterns_over(subject)
        )

    def awaited(self, subject: str) -> bool:
        """Whether a literal subject is wanted only by subscribers who have not come back."""
        if not self._stale:
            return False
        groups = self._groups.match(subject) | self._selecting.match(subject)
        covering = [subject, *patterns_over(subject)]
        keys = [want(each, group) for each in covering if each is not None for group in ("", *groups)]
        # Where not all patterns can be told, nothing is held back.
        back = None in covering or any(key in self._wanted for key in keys)
        return not back and any(key in self._stale for key in keys)

    def change(self, subject: str, group: str, wanted: bool) -> bool:
        """A subscription came or went; the empty group stands for plain subscribers.

        Returns whether the queue groups of some subject changed.
        """
        key = want(subject, group)
        if wanted and key not in self._wanted:
            self._wanted[key] = None
            if key in self._stale:
                del self._stale[key]
            else:
                self._patterns += _is_pattern(key)
                self._removed.discard(key)
                self._added.add(key)
        elif not wanted and key in self._wanted:
            del self._wanted[key]
            self._patterns -= _is_pattern(key)
            self._added.discard(key)
            self._removed.add(key)
        if not group:
            return False
        if not wanted:
            return self._remove_group(subject, group)
        of_kind = self._groups if selector_in(group) is None else self._selecting
        return of_kind.add(subject, group)

    def _remove_group(self, subject: str, group: str) -> bool:
        return self._groups.remove(subject, group) or self._selecting.remove(subject, group)

    def reconsider(self, told: Callable[[str], bool], stays_home: Callable[[str], bool]) -> None:
        """Other contracts hold: pass on what was kept back, or withdraw what stays in its domain now."""
        for key in (*self._wanted, *self._stale):
            home = stays_home(parts(key)[0])
            if not home and not told(key):
                self._added.add(key)
            elif home and told(key):
                self._removed.add(key)

    def head_lost(self, now: float) -> None:
        """The broker is away: nothing is confirmed any more, and nothing withdrawn yet."""
        self._stale |= self._wanted
        self._wanted = {}
        self._stale_until = now + self._holdover_s
        self._served_from, self._served = None, False

    def head_moved(self, now: float) -> None:
        """Another broker has taken its place, or it is back with the subscriptions that it kept."""
        if self._stale:
            self._served_from = now + min(MOVED_HOLDOVER_S, self._holdover_s)
        if self._stale_until is not None:
            self._stale_until = min(self._stale_until, now + HOLDOVER_S)

    def serve_now(self, now: float) -> bool:
        """Whether those who are back are to be served from now on; told once."""
        if self._served_from is None or now < self._served_from:
            return False
        self._served_from, self._served = None, bool(self._stale)
        return True

    def timer(self) -> float | None:
        """When the holdover ends, or those who are back are served."""
        return self._stale_until if self._served_from is None else self._served_from

    def expire(self, now: float) -> int | None:
        """After a holdover, withdraw what was not confirmed, in slices: how many wants, when all are gone.

        None before that.
        """
        if self._stale_until is None or now < self._stale_until:
            return None
        for _ in range(min(WITHDRAWN_PER_TURN, len(self._stale))):
            key, _ = self._stale.popitem()
            self._added.discard(key)
            self._removed.add(key)
            subject, group = parts(key)
            if group:
                self._remove_group(subject, group)
            self._patterns -= _is_pattern(key)
            self._given_up += 1
        if self._stale:
            return None
        self._stale_until = None
        self._served_from, self._served = None, False
        withdrawn, self._given_up = self._given_up, 0
        return withdrawn

    def take_changes(self, *, withdraw: bool = True) -> tuple[Set[str], Set[str]]:
        """Wants added and removed since the last call, as many as are passed on in one go.

        Unless `withdraw`, those that were removed stay for another time.
        """
        taken = list(first_slice(chain(self._removed if withdraw else (), self._added)))
        gone = min(len(taken), len(self._removed)) if withdraw else 0
        self._removed.told(gone)
        self._added.told(len(taken) - gone)
        return dict.fromkeys(taken[gone:]).keys(), dict.fromkeys(taken[:gone]).keys()

    def problems(self) -> list[str]:
        """Invariants that do not hold."""
        found = []
        if self._stale.keys() & self._wanted.keys():
            found.append("a want is both confirmed and unconfirmed")
        if any(key in self._removed for key in self._added):
            found.append("a want is both added and removed")
        if self._patterns != sum(map(_is_pattern, (*self._wanted, *self._stale))):
            found.append("patterns were miscounted")
        if self._stale and self._stale_until is None:
            found.append("unconfirmed interest never expires")
        return found


def _is_pattern(key: str) -> bool:
    return ("*" in key or ">" in key) and " " not in key
