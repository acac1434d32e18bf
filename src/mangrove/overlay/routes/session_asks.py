"""Leases of publishers and subscribers of this domain that ask for more than a contract.

What publishers ask for holds for all that this domain sends; what subscribers ask for is told to the other
domains, with the link state, and holds for what is sent here. Only the strictest ask of each contract
matters, so what is told stays small however many ask.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from mangrove.errors import MangroveError
from mangrove.model.questions.session_quality import LEASE_S, AskRequest, Quality, Role, allowed, strictest
from mangrove.model.subjects import covers
from mangrove.model.topics import Contract, Scope, SessionLimits, overlaps
from mangrove.model.versions.rules_in_force import Rules

MAX_ASKS = 10_000


class AskRefusedError(MangroveError):
    """Nothing of the kind can be asked for; the hint tells what can."""


class Lease(msgspec.Struct, frozen=True):
    """Who asks for what, under which contract, until when."""

    role: Role
    topic_class: int
    quality: Quality
    until: float

    @property
    def asked(self) -> tuple[Role, int, Quality]:
        """All but the time."""
        return self.role, self.topic_class, self.quality


class SessionAsks:
    """The asks of this domain's own sessions. Bounded; a renewal costs the same however many there are."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._leases: dict[str, Lease] = {}
        """By session, those that run out first at the front."""
        self._asked: dict[tuple[Role, int], Counter[Quality]] = {}

    def ask(self, request: AskRequest, now: float) -> bool:
        """Take or renew a lease, or end one; True if what is in force may have changed."""
        if request.end:
            return self._forget(request.session)
        topic_class = self._governed(request)
        if len(self._leases) >= MAX_ASKS and request.session not in self._leases:
            raise AskRefusedError(f"{MAX_ASKS} sessions ask already, which is the most")
        lease = Lease(request.role, topic_class, request.quality, now + LEASE_S)
        before = self._leases.pop(request.session, None)
        self._leases[request.session] = lease
        if before is not None:
            if before.asked == lease.asked:
                return False
            self._count(before, -1)
        self._count(lease, 1)
        return True

    def _forget(self, session: str) -> bool:
        lease = self._leases.pop(session, None)
        if lease is not None:
            self._count(lease, -1)
        return lease is not None

    def _count(self, lease: Lease, change: int) -> None:
        counts = self._asked.setdefault((lease.role, lease.topic_class), Counter())
        counts[lease.quality] += change
        if not counts[lease.quality]:
            del counts[lease.quality]
        if not counts:
            del self._asked[lease.role, lease.topic_class]

    def expire(self, now: float) -> bool:
        """Forget leases that nobody renewed; True if there were any."""
        ended = []
        for session, lease in self._leases.items():
            if lease.until > now:
                break
            ended.append(session)
        for session in ended:
            self._forget(session)
        return bool(ended)

    def contracts_changed(self) -> bool:
        """Other contracts hold: who asked under one that does not hold any more asks again; True if any."""
        current = {topic_class for topic_class, _ in self._rules.numbered()}
        gone = [session for session, lease in self._leases.items() if lease.topic_class not in current]
        for session in gone:
            self._forget(session)
        return bool(gone)

    def timer(self) -> float:
        """When the next lease runs out."""
        first = next(iter(self._leases.values()), None)
        return float("inf") if first is None else first.until

    def in_force(self) -> list[tuple[Role, int, Quality, int]]:
        """By role and contract: the strictest of what is asked for, and how many ask."""
        return [
            (role, topic_class, strictest(counts), counts.total())
            for (role, topic_class), counts in sorted(self._asked.items())
        ]

    def of(self, role: Role) -> dict[int, Quality]:
        """The strictest ask of publishers, or of subscribers, by contract."""
        if not self._asked:
            return {}
        return {where: quality for who, where, quality, _ in self.in_force() if who is role}

    def _governed(self, request: AskRequest) -> int:
        """The contract that an ask is about, or AskRefusedError."""
        topic_class = governing(self._rules, request.subject)
        contract = self._rules.contract_at(topic_class)
        if topic_class == self._rules.unmatched:
            raise AskRefusedError(
                f"no contract governs {request.subject}, so that nothing can be asked for",
                hint="write one, with `limits`, into the federation file",
            )
        if contract.scope is Scope.DOMAIN:
            raise AskRefusedError(f"{request.subject} stays in its domain: there are no routes to ask for")
        _check_limits(contract, request.quality)
        return topic_class

    def problems(self) -> list[str]:
        """Invariants that do not hold."""
        found = []
        for (_, topic_class), counts in self._asked.items():
            limits = self._rules.contract_at(topic_class).limits
            if any(allowed(quality, limits) != quality for quality in counts):
                found.append(f"asks beyond the limits of contract {topic_class} are in force")
        if sum(counts.total() for counts in self._asked.values()) != len(self._leases):
            found.append("the asks in force are not those of the leases")
        times = [lease.until for lease in self._leases.values()]
        if times != sorted(times):
            found.append("leases do not run out in their order")
        return found


def governing(rules: Rules, pattern: str) -> int:
    """Class of the one contract that governs all of a subject or pattern, or AskRefusedError."""
    found = [each for each in rules.numbered() if overlaps(each[1].match, pattern)]
    if not found:
        return rules.unmatched
    if not covers(found[0][1].match, pattern):
        matches = ", ".join(contract.match for _, contract in found)
        raise AskRefusedError(f"{pattern} is wider than one contract", hint=f"ask within one of: {matches}")
    return found[0][0]


def _check_limits(contract: Contract, quality: Quality) -> None:
    if not quality:
        raise AskRefusedError("nothing is asked for", hint=_possible(contract))
    within = allowed(quality, contract.limits)
    beyond = [
        f"{key}: {value:g}"
        for key, value in msgspec.structs.asdict(quality).items()
        if value is not None and getattr(within, key) != value
    ]
    if beyond:
        raise AskRefusedError(
            f"{', '.join(beyond)} is beyond what the contract of {contract.match} allows to ask for",
            hint=_possible(contract),
        )


def _possible(contract: Contract) -> str:
    limits = contract.limits
    if limits == SessionLimits():
        return "nothing more can be asked for: its contract has no `limits`"
    parts = []
    if limits.deadline_ms is not None:
        parts.append(f"deadline_ms of {limits.deadline_ms:g} or more")
    if limits.paths is not None:
        parts.append(f"up to {limits.paths} paths")
    if limits.resiliency is not None:
        parts.append(f"resiliency up to {limits.resiliency:g}")
    return f"possible are: {', '.join(parts)}"
