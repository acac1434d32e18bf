"""Who wants what: every gateway knows the subjects wanted in every domain.

Each domain's gateway is the only author of its domain's interest. It numbers its changes within its epoch;
the others pass them on to their neighbours when they are news (flooding with versions, as link-state
protocols do). When a link comes up, both ends exchange digests and send what the other lacks; a gap in the
versions is mended the same way. So after any sequence of link failures, all connected gateways agree.

A subject here is a want (`wants`): with the name of a queue group behind it, if it is one that wants it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mangrove.overlay.interest.wants import acceptable
from mangrove.overlay.protocol.control_messages import Digest, InterestUpdate

MAX_SUBJECTS = 200_000
"""Subjects accepted from one domain; beyond it the rest is not advertised, and that is counted."""


class DomainInterest:
    """The interest of one domain, as far as it is known here."""

    __slots__ = ("epoch", "subjects", "version")

    def __init__(self, epoch: int, version: int, subjects: Iterable[str]) -> None:
        self.epoch = epoch
        self.version = version
        self.subjects = set(subjects)

    @property
    def stamp(self) -> tuple[int, int]:
        """Orders the states of one domain in time."""
        return (self.epoch, self.version)


class InterestChange:
    """What an update changed: subjects now wanted, and no longer wanted, by a domain."""

    __slots__ = ("added", "domain", "removed")

    def __init__(self, domain: str, added: set[str], removed: set[str]) -> None:
        self.domain = domain
        self.added = added
        self.removed = removed

    def __bool__(self) -> bool:
        return bool(self.added or self.removed)


class InterestDatabase:
    """The interest of all domains. The owner's part changes by `change_local`, the rest by `receive`."""

    def __init__(self, domain: str, members: Iterable[str], epoch: int) -> None:
        self._domain = domain
        self._members = frozenset(members)
        self._known = {domain: DomainInterest(epoch, 0, ())}
        self.refused_subjects = 0
        self.ignored_updates = 0

    @property
    def own(self) -> DomainInterest:
        """The interest of this gateway's own domain."""
        return self._known[self._domain]

    def domains(self) -> Iterator[tuple[str, DomainInterest]]:
        """All that is known, by domain."""
        yield from sorted(self._known.items())

    def change_local(self, added: Iterable[str], removed: Iterable[str]) -> InterestUpdate | None:
        """Record a change in the own domain; the update to flood, or None if nothing changed."""
        own = self.own
        really_removed = {subject for subject in removed if subject in own.subjects}
        really_added = {subject for subject in added if subject not in own.subjects} - really_removed
        room = MAX_SUBJECTS - len(own.subjects) + len(really_removed)
        if len(really_added) > room:
            self.refused_subjects += len(really_added) - room
            really_added = set(sorted(really_added)[:room])
        if not (really_added or really_removed):
            return None
        own.subjects -= really_removed
        own.subjects |= really_added
        own.version += 1
        return InterestUpdate(
            origin=self._domain,
            epoch=own.epoch,
            version=own.version,
            snapshot=False,
            added=sorted(really_added),
            removed=sorted(really_removed),
        )

    def digest(self) -> Digest:
        """What is known here, to compare with a neighbour."""
        return Digest(known={domain: interest.stamp for domain, interest in self._known.items()})

    def missing_from(self, digest: Digest) -> list[InterestUpdate]:
        """Snapshots that the sender of `digest` lacks."""
        never = (-1, -1)
        return [
            self.snapshot(domain)
            for domain, interest in self.domains()
            if interest.stamp > tuple(digest.known.get(domain, never))
        ]

    def snapshot(self, domain: str) -> InterestUpdate:
        """The whole interest of a domain."""
        interest = self._known[domain]
        return InterestUpdate(
            origin=domain,
            epoch=interest.epoch,
            version=interest.version,
            snapshot=True,
            added=sorted(interest.subjects),
        )

    def receive(self, update: InterestUpdate) -> tuple[InterestChange | None, bool]:
        """Take in an update from a neighbour.

        Returns the change (None if the update was no news) and whether a gap showed that the neighbour
        should be asked again with a digest.
        """
        if update.origin == self._domain and (update.epoch, update.version) <= self.own.stamp:
            return None, False  # an echo of what this gateway said, in this life or an earlier one
        if update.origin == self._domain or update.origin not in self._members:
            # Nobody else may speak for this domain.
            self.ignored_updates += 1
            return None, False
        known = self._known.get(update.origin)
        if known is not None and (update.epoch, update.version) <= known.stamp:
            return None, False
        before = set(known.subjects) if known is not None else set()
        added = {subject for subject in update.added if acceptable(subject)}
        self.refused_subjects += len(update.added) - len(added)
        if update.snapshot:
            after = added
        elif known is not None and update.epoch == known.epoch and update.version == known.version + 1:
            after = (before - set(update.removed)) | added
        else:
            return None, True
        if len(after) > MAX_SUBJECTS:
            self.refused_subjects += len(after) - MAX_SUBJECTS
            after = set(sorted(after)[:MAX_SUBJECTS])
        self._known[update.origin] = DomainInterest(update.epoch, update.version, after)
        return InterestChange(update.origin, after - before, before - after), False
