"""What the other domains want, turned into action: subscriptions at the head broker, flows of messages.

What is learnt is known at once and passed on at once. Acting upon it is work, done in slices: `work_off` does
so much and no more, so that a storm of subscriptions in one domain delays nobody's messages and heartbeats.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator
from itertools import islice

from mangrove.model.federation import Federation
from mangrove.model.versions.network import members
from mangrove.model.versions.rules_in_force import Rules
from mangrove.overlay.forwarding.border import Border
from mangrove.overlay.forwarding.flows import FlowTable
from mangrove.overlay.instructions import ChangeSubscriptions, ConfirmSubscriptions, ForgetRoutes, Instruction
from mangrove.overlay.interest.interest_database import DomainInterest, InterestChange, InterestDatabase
from mangrove.overlay.interest.snapshots import SLICE_SUBJECTS, Snapshot
from mangrove.overlay.interest.wanted_classes import WantedClasses
from mangrove.overlay.interest.wants import parts, subject_of
from mangrove.overlay.protocol.control_messages import Digest, InterestUpdate
from mangrove.overlay.trust.notary import Notary

MAY_NOT_LEAVE = "interest of another domain in what may not leave this one"


class _Work:
    """A change that is being acted upon."""

    __slots__ = ("added", "domain", "judged", "removed", "stamp")

    def __init__(self, change: InterestChange, *, judged: bool = False) -> None:
        self.domain = change.domain
        self.stamp = change.stamp
        self.added = deque(change.added)
        self.removed = deque(change.removed)
        self.judged = judged
        """Whether all of it passes, or passed, the border."""


class RemoteInterest:
    """The interest of all domains, and what this gateway does because of it."""

    def __init__(
        self,
        domain: str,
        federation: Federation,
        epoch: int,
        flows: FlowTable,
        border: Border | None = None,
        notary: Notary | None = None,
        rules: Rules | None = None,
    ) -> None:
        """What may not pass the `border` is neither asked for nor listened to."""
        self._domain = domain
        self._rules: Rules = rules or federation.topics
        self._flows = flows
        self._border = border
        self.ignored: Counter[str] = Counter()
        self._work: deque[_Work] = deque()
        self._budget = SLICE_SUBJECTS
        self.classes = WantedClasses(self._rules)
        self.applied: dict[str, tuple[int, int]] = {}
        """Up to where the interest of each other domain has been acted upon."""
        self.interest = InterestDatabase(
            domain, federation.domain_order, epoch, federation.limits.subjects, notary
        )

    def __len__(self) -> int:
        """How many subjects other domains want."""
        return len(self._flows.subjects())

    @property
    def subscribed(self) -> list[str]:
        """Everything that other domains want, and so this gateway subscribes to at its head broker."""
        return list(self._flows.subjects())

    @property
    def busy(self) -> bool:
        """Whether something that is known has not been acted upon."""
        return bool(self._work)

    def problems(self) -> list[str]:
        """Invariants that do not hold."""
        signed = self.interest.problems()
        if self._work:
            return signed
        wanted: dict[str, int] = {}
        for _, interest in self._heeded():
            for subject in map(subject_of, interest.subjects):
                wanted[subject] = wanted.get(subject, 0) + 1
        found = signed
        if wanted.keys() != self._flows.subjects():
            found.append("subscriptions differ from what other domains want")
        if self._flows.wanted != sum(wanted.values()):
            found.append(f"{self._flows.wanted} wants in the flow table, {sum(wanted.values())} known")
        if self.classes.keys() != self.classes.counted_anew(self._heeded()):
            found.append("the contracts that are wanted were miscounted")
        return found

    def adopt(self, order: tuple[str, ...], gone: Collection[str]) -> list[Instruction]:
        """These are the domains from now on: what those that are `gone` wanted is given up."""
        instructions: list[Instruction] = []
        while self._work:
            self.refresh()
            instructions += self.work_off()
        remove: list[str] = []
        for name, known in [each for each in self.interest.domains() if each[0] in gone]:
            for subject, group in [parts(each) for each in known.subjects if self._tells(name, each)]:
                if self._flows.forget(name, subject, group):
                    remove.append(subject)
            self.classes.forget_domain(name)
            self.applied.pop(name, None)
        self.interest.adopt(members(order), gone)
        self._flows.adopt(order)
        if self._border is not None:
            self._border.adopt(order)
        if remove:
            in_force = self._flows.subjects()
            left = tuple(subject for subject in dict.fromkeys(remove) if subject not in in_force)
            instructions.append(ChangeSubscriptions((), left))
        return instructions

    def contracts_changed(self) -> None:
        """Other contracts hold."""
        self.classes.contracts_changed(self._flows.wants_of_domains())

    def border_changed(self, border: Border | None) -> None:
        """Other rules of access hold: what may go now that might not before is wanted here from now on, and
        what may not is given up."""
        for work in self._work:  # what is on its way was judged, or would have been, by the rules of before
            if not work.judged:
                work.added = deque(each for each in work.added if self._tells(work.domain, each))
                work.removed = deque(each for each in work.removed if self._tells(work.domain, each))
                work.judged = True
        before = {domain: list(heeded.subjects) for domain, heeded in self._heeded()}
        self._border = border
        for domain, heeded in self._heeded():
            old, new = dict.fromkeys(before.get(domain, ())), dict.fromkeys(heeded.subjects)
            added = [wanted for wanted in new if wanted not in old]
            removed = [wanted for wanted in old if wanted not in new]
            if added or removed:
                stamp = (heeded.epoch, heeded.version)
                self._work.append(_Work(InterestChange(domain, stamp, added, removed), judged=True))

    def _heeded(self) -> Iterator[tuple[str, DomainInterest]]:
        """What the other domains want, as far as it may go there."""
        for domain, known in self.interest.domains():
            if domain != self._domain:
                heeded = [wanted for wanted in known.subjects if self._tells(domain, wanted)]
                yield domain, DomainInterest(known.epoch, known.version, heeded)

    def stays_home(self, pattern: str) -> bool:
        """Whether nothing under a pattern can come from other domains, so that they need not know of it."""
        if self._rules.stays_home(pattern):
            return True
        return self._border is not None and not self._border.hears(pattern)

    def _tells(self, domain: str, wanted: str) -> bool:
        """Whether anything of what a domain wants may go there."""
        return self._border is None or self._border.tells(domain, subject_of(wanted))

    def change_local(self, added: Iterable[str], removed: Iterable[str]) -> InterestUpdate | None:
        """The own subscribers changed; the update to flood. What cannot come is not asked for."""
        return self.interest.change_local(
            (wanted for wanted in added if not self.stays_home(subject_of(wanted))), removed
        )

    def digest(self) -> Digest:
        """What is known here."""
        return self.interest.digest()

    def missing_from(self, digest: Digest) -> Iterator[Snapshot]:
        """What the sender of a digest lacks."""
        return map(self.interest.snapshot, self.interest.missing_from(digest))

    def receive(self, update: InterestUpdate, peer: str) -> tuple[bool, bool]:
        """Take in an update: whether it is news to pass on, and whether a gap showed."""
        change, gap = self.interest.receive(update, peer)
        if change is not None:
            self._work.append(_Work(change))
        return change is not None, gap

    def refresh(self) -> None:
        """The time has come to do another slice of work."""
        self._budget = SLICE_SUBJECTS

    def work_off(self) -> list[Instruction]:
        """Act upon what is known, as far as the present slice goes."""
        add: list[str] = []
        remove: list[str] = []
        changed: list[str] = []
        finished: dict[str, tuple[int, int]] = {}
        while self._work and self._budget > 0:
            work = self._work[0]
            taken = _take(work.added, self._budget)
            wanted = [parts(each) for each in taken if work.judged or self._tells(work.domain, each)]
            if len(wanted) < len(taken):
                self.ignored[MAY_NOT_LEAVE] += len(taken) - len(wanted)
            for subject, group in wanted:
                if self._flows.want(work.domain, subject, group):
                    add.append(subject)
                self.classes.want(work.domain, subject)
            gone = _take(work.removed, self._budget - len(taken))
            forgotten = [parts(each) for each in gone if work.judged or self._tells(work.domain, each)]
            for subject, group in forgotten:
                if self._flows.forget(work.domain, subject, group):
                    remove.append(subject)
                self.classes.forget(work.domain, subject)
            changed += [subject for subject, _ in wanted]
            changed += [subject for subject, _ in forgotten]
            self._budget -= max(1, len(taken) + len(gone))
            if not (work.added or work.removed):
                self.applied[work.domain] = finished[work.domain] = work.stamp
                self._work.popleft()
        instructions: list[Instruction] = []
        if changed:
            instructions.append(ForgetRoutes(tuple(changed)))
        if add or remove:
            # A subject may have come and gone in one slice: what holds is what is wanted now.
            in_force = self._flows.subjects()
            add = [subject for subject in dict.fromkeys(add) if subject in in_force]
            remove = [subject for subject in dict.fromkeys(remove) if subject not in in_force]
            instructions.append(ChangeSubscriptions(tuple(add), tuple(remove)))
        if finished:
            done = tuple((domain, *stamp) for domain, stamp in finished.items())
            instructions.append(ConfirmSubscriptions(done))
        return instructions


def _take(subjects: deque[str], most: int) -> list[str]:
    """Take the first ones out."""
    taken = list(islice(subjects, max(0, most)))
    for _ in taken:
        subjects.popleft()
    return taken
