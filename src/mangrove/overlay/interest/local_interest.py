"""What the own domain's subscribers want, as the head broker tells it.

While the head broker is away (a restart takes a moment, and its edges come back one by one), the last known
interest stays in force for a holdover, so that the other domains keep sending and nothing flaps.
"""

from __future__ import annotations

from collections.abc import Iterator

HOLDOVER_S = 5.0


class LocalInterest:
    """Subjects wanted in this domain, plain or by queue groups, and the changes not yet passed on."""

    def __init__(self, holdover_s: float = HOLDOVER_S) -> None:
        self._holdover_s = holdover_s
        self._groups_of: dict[str, set[str]] = {}
        self._stale: set[str] = set()
        self._stale_until: float | None = None
        self._added: set[str] = set()
        self._removed: set[str] = set()

    @property
    def pending(self) -> bool:
        """Whether there are changes to pass on."""
        return bool(self._added or self._removed)

    @property
    def unconfirmed(self) -> bool:
        """Whether the broker was away and not all subscribers have returned yet."""
        return bool(self._stale)

    def groups(self) -> Iterator[tuple[str, str]]:
        """Subjects with the queue groups that want them."""
        for subject, groups in self._groups_of.items():
            for group in groups:
                if group:
                    yield subject, group

    def change(self, subject: str, group: str, wanted: bool) -> None:
        """A subscription came or went. The empty group stands for plain subscribers."""
        groups = self._groups_of.get(subject)
        if wanted:
            if groups is None:
                self._groups_of[subject] = {group}
                if subject in self._stale:
                    self._stale.discard(subject)
                else:
                    self._removed.discard(subject)
                    self._added.add(subject)
            else:
                groups.add(group)
        elif groups is not None:
            groups.discard(group)
            if not groups:
                del self._groups_of[subject]
                self._added.discard(subject)
                self._removed.add(subject)

    def head_lost(self, now: float) -> None:
        """The broker is away: nothing is confirmed any more, and nothing withdrawn yet."""
        self._stale |= self._groups_of.keys()
        self._groups_of.clear()
        self._stale_until = now + self._holdover_s

    def expire(self, now: float) -> None:
        """Withdraw what was not confirmed in time."""
        if self._stale_until is not None and now >= self._stale_until:
            self._stale_until = None
            self._removed |= self._stale
            self._added -= self._stale
            self._stale.clear()

    def take_changes(self) -> tuple[set[str], set[str]]:
        """The subjects added and removed since the last call."""
        changes = self._added, self._removed
        self._added, self._removed = set(), set()
        return changes
