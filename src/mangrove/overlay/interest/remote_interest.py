"""What the other domains want, turned into action: subscriptions at the head broker, flows of messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from mangrove.model.federation import Federation
from mangrove.model.topics import overlaps
from mangrove.overlay.forwarding.flows import FlowTable
from mangrove.overlay.instructions import ChangeSubscriptions
from mangrove.overlay.interest.interest_database import InterestChange, InterestDatabase
from mangrove.overlay.interest.wants import parts, subject_of
from mangrove.overlay.protocol.control_messages import Digest, InterestUpdate


class RemoteInterest:
    """The interest of all domains, and what this gateway does because of it."""

    def __init__(self, domain: str, federation: Federation, epoch: int, flows: FlowTable) -> None:
        self._domain = domain
        self._rules = federation.topics
        self._flows = flows
        self._subscribed: Counter[str] = Counter()
        self.interest = InterestDatabase(domain, federation.domain_order, epoch)

    def __len__(self) -> int:
        """How many subjects other domains want."""
        return len(self._subscribed)

    @property
    def subscribed(self) -> list[str]:
        """Everything that other domains want, and so this gateway subscribes to at its head broker."""
        return sorted(self._subscribed)

    def problems(self) -> list[str]:
        """Invariants that do not hold."""
        wanted = Counter(
            subject_of(wanted)
            for domain, interest in self.interest.domains()
            if domain != self._domain
            for wanted in interest.subjects
        )
        found = [] if wanted == self._subscribed else ["subscriptions differ from what other domains want"]
        if self._flows.wanted != wanted.total():
            found.append(f"{self._flows.wanted} wants in the flow table, {wanted.total()} known")
        return found

    def change_local(self, added: Iterable[str], removed: Iterable[str]) -> InterestUpdate | None:
        """The own subscribers changed; the update to flood. Topics that stay home are not told."""
        return self.interest.change_local(
            (wanted for wanted in added if not self._rules.stays_home(subject_of(wanted))), removed
        )

    def digest(self) -> Digest:
        """What is known here."""
        return self.interest.digest()

    def missing_from(self, digest: Digest) -> list[InterestUpdate]:
        """What the sender of a digest lacks."""
        return self.interest.missing_from(digest)

    def receive(self, update: InterestUpdate) -> tuple[bool, bool, ChangeSubscriptions | None]:
        """Take in an update: whether it is news, whether a gap showed, and what to subscribe to."""
        change, gap = self.interest.receive(update)
        if change is None:
            return False, gap, None
        return True, False, self._apply(change) if change else None

    def _apply(self, change: InterestChange) -> ChangeSubscriptions:
        """Sent even when empty: destination sets changed, so what was derived from them is out of date."""
        add: list[str] = []
        remove: list[str] = []
        for subject, group in map(parts, sorted(change.added)):
            self._flows.want(change.domain, subject, group)
            self._subscribed[subject] += 1
            if self._subscribed[subject] == 1:
                add.append(subject)
        for subject, group in map(parts, sorted(change.removed)):
            self._flows.forget(change.domain, subject, group)
            self._subscribed[subject] -= 1
            if not self._subscribed[subject]:
                del self._subscribed[subject]
                remove.append(subject)
        return ChangeSubscriptions(tuple(add), tuple(remove))

    def classes_wanted(self) -> Iterator[tuple[int, str]]:
        """Contracts, by position, with the domains that have subscribers for them."""
        for domain, interest in self.interest.domains():
            if domain == self._domain:
                continue
            for position, contract in enumerate(self._rules.contracts):
                if any(overlaps(contract.match, subject_of(wanted)) for wanted in interest.subjects):
                    yield position, domain
