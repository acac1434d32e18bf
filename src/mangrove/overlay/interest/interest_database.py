"""Who wants what: every gateway knows the subjects wanted in every domain.

Each domain's gateway is the only author of its domain's interest. It numbers its changes within its epoch;
the others pass them on to their neighbours when they are news (flooding with versions, as link-state
protocols do). When a link comes up, both ends exchange digests and send what the other lacks; a gap in the
versions is mended the same way. So after any sequence of link failures, all connected gateways agree.

A change costs what the change is, never what the table is. Only a snapshot costs as much as the table; it
comes in parts (`overlay.interest.snapshots`), and takes effect when the last one has come.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Set
from itertools import chain, islice

import msgspec

from mangrove.model.federation import DEFAULT_MAX_SUBJECTS
from mangrove.overlay.interest.snapshots import Assembly, Snapshot
from mangrove.overlay.interest.wants import acceptable
from mangrove.overlay.protocol.control_messages import Digest, InterestUpdate
from mangrove.overlay.protocol.signed import Signed
from mangrove.overlay.protocol.signed_bodies import interest_statement
from mangrove.overlay.trust.notary import INTEREST, Notary
from mangrove.overlay.trust.refusals import Refusal
from mangrove.overlay.trust.table_hash import TableHash

MAX_EXAMPLES = 10
WARN_AT = 0.8
MAX_ASSEMBLIES = 4
"""Snapshots that one neighbour may have begun and not ended, where domains have keys."""
MAX_LATER, MAX_LATER_BYTES = 4096, 16 << 20
"""Changes that are kept while their base is under way."""
SUBJECT_BYTES = 64
"""What a subject takes beside its text."""

_PLAIN = re.compile(r"[A-Za-z0-9/:=@+~#-][\w/:=@+~#-]*(\.[\w/:=@+~#-]+)*", re.ASCII)
"""Most subjects; the others are judged by the full rules."""


class DomainInterest:
    """The interest of one domain, as far as it is known here: wants (`overlay.interest.wants`), in order."""

    __slots__ = ("epoch", "hash", "statement", "table", "version")

    def __init__(
        self,
        epoch: int,
        version: int,
        subjects: Iterable[str],
        statement: Signed | None = None,
        table_hash: TableHash | None = None,
    ) -> None:
        self.epoch = epoch
        self.version = version
        self.table = dict.fromkeys(subjects)
        self.statement = statement
        """What the domain has signed of this very version, where domains have keys."""
        self.hash = table_hash
        """Of the table, to compare with what is signed."""

    @property
    def subjects(self) -> Set[str]:
        """All that is wanted."""
        return self.table.keys()

    @property
    def stamp(self) -> tuple[int, int]:
        """Orders the states of one domain in time."""
        return (self.epoch, self.version)


class InterestChange:
    """What an update changed: subjects now wanted, and no longer wanted, by a domain."""

    __slots__ = ("added", "domain", "removed", "stamp")

    def __init__(
        self, domain: str, stamp: tuple[int, int], added: Iterable[str], removed: Iterable[str]
    ) -> None:
        self.domain = domain
        self.stamp = stamp
        self.added: Set[str] = dict.fromkeys(added).keys()
        self.removed: Set[str] = dict.fromkeys(removed).keys()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed)


class _Later:
    """Changes whose base is under way. Those that find no room are not kept, but known to be missing."""

    __slots__ = ("_size_bytes", "newest", "updates")

    def __init__(self) -> None:
        self.updates: list[InterestUpdate] = []
        self.newest = (-1, -1)
        self._size_bytes = 0

    def keep(self, update: InterestUpdate) -> None:
        """Another one came."""
        self.newest = max(self.newest, _stamp(update))
        size_bytes = sum(SUBJECT_BYTES + len(subject) for subject in chain(update.added, update.removed))
        if len(self.updates) < MAX_LATER and self._size_bytes + size_bytes <= MAX_LATER_BYTES:
            self.updates.append(update)
            self._size_bytes += size_bytes


class InterestDatabase:
    """The interest of all domains. The owner's part changes by `change_local`, the rest by `receive`."""

    def __init__(
        self,
        domain: str,
        members: Iterable[str],
        epoch: int,
        max_subjects: int = DEFAULT_MAX_SUBJECTS,
        notary: Notary | None = None,
    ) -> None:
        """With a `notary` that has keys, changes are signed, and those of others must be."""
        self._domain = domain
        self._notary = notary if notary is not None and notary.secured else None
        self._hash = TableHash()
        """Of the own table, where domains have keys."""
        self._members = frozenset(members)
        self._known = {domain: DomainInterest(epoch, 0, ())}
        self._assemblies: dict[tuple[str, str], Assembly] = {}
        """Snapshots under way, by the neighbour that sends them and the domain that they are of."""
        self._asked: set[tuple[str, str]] = set()
        """Neighbours that were sent a digest because of a gap, with the domain that lacks something."""
        self._later: dict[str, _Later] = {}
        self.max_subjects = max_subjects
        self.waiting: dict[str, None] = {}
        """Subjects of the own domain beyond the limit; the oldest are served when there is room."""
        self.refused_subjects = 0
        self.refused_examples: list[str] = []
        self.ignored_updates = 0
        self.early_updates = 0
        """Updates of a life of their gateway that is not known yet, or over."""

    def warnings(self) -> list[str]:
        """Domains that come near their limit, and what is beyond it."""
        found = [
            f"{domain} wants {len(interest.table):,} subjects, of at most {self.max_subjects:,}"
            for domain, interest in self.domains()
            if len(interest.table) >= WARN_AT * self.max_subjects
        ]
        if self.waiting:
            some = ", ".join(islice(self.waiting, MAX_EXAMPLES))
            found.append(f"{self._domain} wants {len(self.waiting):,} more, which are not served: {some}")
        elif self.refused_examples:
            found.append(f"{self._domain} refused subjects, as {', '.join(map(repr, self.refused_examples))}")
        return found

    @property
    def signed(self) -> bool:
        """Whether changes are signed, with a hash of the table that they lead to."""
        return self._notary is not None

    @property
    def own(self) -> DomainInterest:
        """The interest of this gateway's own domain."""
        return self._known[self._domain]

    def domains(self) -> Iterator[tuple[str, DomainInterest]]:
        """All that is known, by domain."""
        yield from sorted(self._known.items())

    def begin(self, epoch: int) -> None:
        """A life of this gateway begins: what its domain wants is told anew, by this one."""
        self.own.epoch = epoch
        self.own.statement = None
        self.forget_peer("")

    def adopt(self, members: Iterable[str], gone: Iterable[str]) -> None:
        """These are the domains from now on; nothing is known any more of those that are `gone`."""
        self._members = frozenset(members)
        for name in gone:
            self._known.pop(name, None)
            self._later.pop(name, None)
        self._assemblies = {key: each for key, each in self._assemblies.items() if key[1] in self._members}
        self._asked = {key for key in self._asked if key[1] in self._members}

    # -- the own domain -----------------------------------------------------------------------------------

    def change_local(self, added: Iterable[str], removed: Iterable[str]) -> InterestUpdate | None:
        """Record a change in the own domain; the update to flood, or None if nothing changed."""
        own = self.own
        subjects = own.table
        really_removed = []
        for subject in removed:
            if subject in subjects:
                del subjects[subject]
                really_removed.append(subject)
            else:
                self.waiting.pop(subject, None)
        really_added = []
        for subject in added:
            if subject in subjects or subject in self.waiting or self._unfit(subject):
                continue
            if len(subjects) < self.max_subjects:
                subjects[subject] = None
                really_added.append(subject)
            else:
                self.waiting[subject] = None
                self._refuse(subject)
        while self.waiting and len(subjects) < self.max_subjects:
            subject = next(iter(self.waiting))
            del self.waiting[subject]
            subjects[subject] = None
            really_added.append(subject)
        return self._changed(really_added, really_removed) if really_added or really_removed else None

    def limit(self, max_subjects: int) -> InterestUpdate | None:
        """Each domain may want so many subjects from now on; the update to flood, if the own table changes.

        Of what is beyond it the newest wait: others keep to the same limit, and take all that is told.
        """
        self.max_subjects = max_subjects
        beyond = list(self.own.table)[max_subjects:]
        if not beyond:
            return self.change_local((), ())
        for subject in beyond:
            del self.own.table[subject]
            self._refuse(subject)
        self.waiting = {**dict.fromkeys(beyond), **self.waiting}
        return self._changed([], beyond)

    def restate(self) -> InterestUpdate:
        """The keys have changed: a version in which nothing changes, signed with the new ones."""
        return self._changed([], [])

    def _changed(self, added: list[str], removed: list[str]) -> InterestUpdate:
        own = self.own
        own.version += 1
        update = InterestUpdate(
            origin=self._domain,
            epoch=own.epoch,
            version=own.version,
            snapshot=False,
            added=sorted(added),
            removed=sorted(removed),
        )
        if self._notary is None:
            return update
        self._hash.remove(removed)
        self._hash.add(added)
        own.statement = self._notary.state(update, self._hash.root())
        return msgspec.structs.replace(update, statement=own.statement)

    def _unfit(self, subject: str) -> bool:
        """Whether others would refuse a want, and with it all that is signed together with it."""
        if self._notary is None or _acceptable(subject):
            return False
        self._refuse(subject)
        return True

    # -- comparing with neighbours ------------------------------------------------------------------------

    def digest(self) -> Digest:
        """What is known here, to compare with a neighbour."""
        return Digest(known={domain: interest.stamp for domain, interest in self._known.items()})

    def missing_from(self, digest: Digest) -> list[str]:
        """Domains of which the sender of `digest` needs a snapshot."""
        never = (-1, -1)
        return [
            domain
            for domain, interest in self.domains()
            if interest.stamp > tuple(digest.known.get(domain, never))
        ]

    def snapshot(self, domain: str) -> Snapshot:
        """The whole interest of a domain, to be sent in parts."""
        interest = self._known[domain]
        if self._notary is not None and domain == self._domain and interest.statement is None:
            nothing = InterestUpdate(
                origin=domain, epoch=interest.epoch, version=interest.version, snapshot=False, added=[]
            )
            interest.statement = self._notary.state(nothing, self._hash.root())
        return Snapshot(domain, interest.epoch, interest.version, list(interest.table), interest.statement)

    def forget_peer(self, peer: str) -> bool:
        """A neighbour is gone; whether it owed something that others should be asked for."""
        before = len(self._assemblies) + len(self._asked)
        self._assemblies = {key: value for key, value in self._assemblies.items() if key[0] != peer}
        self._asked = {key for key in self._asked if key[0] != peer}
        return len(self._assemblies) + len(self._asked) < before

    # -- other domains ------------------------------------------------------------------------------------

    def receive(self, update: InterestUpdate, peer: str = "") -> tuple[InterestChange | None, bool]:
        """Take in an update from a neighbour.

        Returns the change (None if the update was no news, or a part of a snapshot that is not complete) and
        whether a gap showed that the neighbour should be asked again with a digest.
        """
        origin = update.origin
        if origin == self._domain and (update.epoch, update.version) <= self.own.stamp:
            return None, False  # an echo of what this gateway said, in this life or an earlier one
        if origin == self._domain or origin not in self._members:
            # Nobody else may speak for this domain.
            self.ignored_updates += 1
            if self._notary is not None:
                why = Refusal.OWN_NAME if origin == self._domain else Refusal.IMPOSSIBLE
                self._notary.refuse(peer, origin, INTEREST, why)
            return None, False
        known = self._known.get(origin)
        if known is not None and (update.epoch, update.version) <= known.stamp:
            self._assemblies.pop((peer, origin), None)
            return None, False
        if self._notary is not None and not self._vouched(self._notary, update, peer):
            return None, False
        if update.snapshot:
            return self._receive_part(update, peer)
        if known is not None and _follows(known, update):
            return self._follow(known, update, peer), False
        self._later.setdefault(origin, _Later()).keep(update)
        asked = (peer, origin) in self._asked or (peer, origin) in self._assemblies
        self._asked.add((peer, origin))
        return None, not asked

    def _follow(self, known: DomainInterest, update: InterestUpdate, peer: str) -> InterestChange | None:
        """Apply a change to the state that it was made from; None if it leads elsewhere than was signed."""
        subjects = known.table
        removed = [subject for subject in dict.fromkeys(update.removed) if subject in subjects]
        gone = set(removed)
        added = [
            subject for subject in self._accepted(update.added) if subject not in subjects or subject in gone
        ]
        room = max(0, self.max_subjects - len(subjects) + len(removed))
        for subject in added[room:]:
            self._refuse(subject)
        del added[room:]
        if self._notary is not None and not self._leads_to_what_is_signed(known, update, added, removed):
            reason = "the table that it leads to is another"
            self._notary.refuse(peer, update.origin, INTEREST, Refusal.IMPOSSIBLE, reason)
            return None
        for subject in removed:
            del subjects[subject]
        subjects.update(dict.fromkeys(added))
        known.version = update.version
        known.statement = update.statement
        # Whoever was asked may have nothing newer to send: the next gap is asked for anew.
        self._asked = {asked for asked in self._asked if asked[1] != update.origin}
        later = self._later.get(update.origin)
        if later is not None and later.newest <= known.stamp:
            del self._later[update.origin]
        return InterestChange(update.origin, known.stamp, added, removed)

    def _receive_part(self, update: InterestUpdate, peer: str) -> tuple[InterestChange | None, bool]:
        key = (peer, update.origin)
        assembly = self._assemblies.get(key)
        if assembly is None or assembly.stamp != (update.epoch, update.version) or update.part == 0:
            assembly = self._assemblies[key] = Assembly((update.epoch, update.version))
            self._bound_assemblies(peer)
        if update.part == 0:
            assembly.statement = update.statement
        if update.part != assembly.parts or len(assembly.subjects) > self.max_subjects:
            # Parts come in order or not at all; a sender that does otherwise is not waited for.
            del self._assemblies[key]
            self._asked.discard(key)
            self.ignored_updates += 1
            return None, False
        accepted = self._accepted(update.added)
        assembly.add(accepted)
        if self._notary is not None:
            assembly.hash.add(accepted)
        if not update.last:
            return None, False
        del self._assemblies[key]
        if self._notary is not None and not self._as_signed(self._notary, assembly, update, peer):
            self._asked.discard(key)
            return None, False
        self._asked = {asked for asked in self._asked if asked[1] != update.origin}
        return self._replace(update, assembly)

    def _bound_assemblies(self, peer: str) -> None:
        """An honest neighbour sends large snapshots one after the other: of many, the last ones are kept."""
        begun = [key for key in self._assemblies if key[0] == peer]
        for key in begun[:-MAX_ASSEMBLIES] if self._notary is not None else ():
            del self._assemblies[key]
            self.ignored_updates += 1

    def _replace(self, update: InterestUpdate, assembly: Assembly) -> tuple[InterestChange | None, bool]:
        """A snapshot is complete; changes that came meanwhile follow it."""
        before = self._known.get(update.origin)
        old = {} if before is None else before.table
        for _ in range(len(assembly.subjects) - self.max_subjects):
            self._refuse(assembly.subjects.popitem()[0])
        known = DomainInterest(
            update.epoch, update.version, assembly.subjects, assembly.statement, assembly.hash
        )
        self._known[update.origin] = known
        later = self._later.pop(update.origin, None) or _Later()
        for change in sorted(later.updates, key=_stamp):
            if _follows(known, change):
                self._follow(known, change, "")
        gap = later.newest > known.stamp
        new = known.table
        return (
            InterestChange(
                update.origin,
                known.stamp,
                [subject for subject in new if subject not in old] if old else new,
                [subject for subject in old if subject not in new],
            ),
            gap,
        )

    # -- signatures ---------------------------------------------------------------------------------------

    def problems(self) -> list[str]:
        """Invariants that do not hold: what is known of others' interest is what they have signed of it."""
        if self._notary is None:
            return []
        found = (
            [] if self._hash.root() == TableHash(self.own.table).root() else ["the own table's hash is wrong"]
        )
        for domain, known in self.domains():
            if domain == self._domain:
                continue
            statement = None if known.statement is None else interest_statement(known.statement)
            stamp = None if statement is None else (statement.origin, statement.epoch, statement.version)
            if statement is None or stamp != (domain, *known.stamp):
                found.append(f"the interest of {domain} is kept without what it signed of it")
            elif statement.table != TableHash(known.table).root():
                found.append(f"the interest of {domain} is not what it signed")
        return found

    def _vouched(self, notary: Notary, update: InterestUpdate, peer: str) -> bool:
        """Whether the origin has signed an update that would be news.

        Of a snapshot, the first part shows that; the table is compared with it when it is complete.
        """
        if not notary.known_life(peer, update):
            self.early_updates += 1
            return False
        if update.snapshot and update.part:
            return True
        if notary.stated(peer, update) is None:
            return False
        fit = all(map(_acceptable, update.added)) and len(update.added) <= self.max_subjects
        if not (fit or update.snapshot):
            notary.refuse(peer, update.origin, INTEREST, Refusal.IMPOSSIBLE, "wants that nobody may have")
        return fit or update.snapshot

    def _leads_to_what_is_signed(
        self, known: DomainInterest, update: InterestUpdate, added: list[str], removed: list[str]
    ) -> bool:
        """Whether the table after a change is the one that its origin has signed with it.

        If it were not, who passes the whole table on would be taken for a forger.
        """
        if known.hash is None:
            known.hash = TableHash(known.table)
        known.hash.remove(removed)
        known.hash.add(added)
        signed = update.statement
        if signed is not None and known.hash.root() == interest_statement(signed).table:
            return True
        known.hash.remove(added)
        known.hash.add(removed)
        return False

    def _as_signed(self, notary: Notary, assembly: Assembly, update: InterestUpdate, peer: str) -> bool:
        """Whether a complete snapshot is the table that its origin has signed."""
        signed = assembly.statement
        if signed is not None and assembly.hash.root() == interest_statement(signed).table:
            return True
        notary.refuse(peer, update.origin, INTEREST, Refusal.OTHER_CONTENT, "another table")
        return False

    def _accepted(self, subjects: Iterable[str]) -> list[str]:
        """Subjects from elsewhere end up in the head broker's protocol: only well-formed, federated ones."""
        accepted = []
        for subject in dict.fromkeys(subjects):
            if _acceptable(subject):
                accepted.append(subject)
            else:
                self._refuse(subject)
        return accepted

    def _refuse(self, subject: str) -> None:
        self.refused_subjects += 1
        if len(self.refused_examples) < MAX_EXAMPLES and subject[:80] not in self.refused_examples:
            self.refused_examples.append(subject[:80])


def _stamp(update: InterestUpdate) -> tuple[int, int]:
    return (update.epoch, update.version)


def _follows(known: DomainInterest, update: InterestUpdate) -> bool:
    return update.epoch == known.epoch and update.version == known.version + 1


def _acceptable(wanted: str) -> bool:
    return (len(wanted) <= 256 and _PLAIN.fullmatch(wanted) is not None) or acceptable(wanted)
