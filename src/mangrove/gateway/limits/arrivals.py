"""What may enter the domain: limits that its agent sets while capacity is short, by subject and publisher.

Messages beyond a limit are dropped before the head broker gets them. The overlay has delivered them: its
order, its acknowledgements and its counts know nothing of limits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from math import isfinite

import msgspec

from mangrove.broker.message_ids import PREFIX_BYTES
from mangrove.gateway.ledger import Ledger
from mangrove.gateway.limits.fair_limit import FairLimit, PublisherRoom
from mangrove.gateway.limits.limited_flow import LimitedFlow
from mangrove.model.agents.usefulness import (
    LIMITS_VALID_S,
    OTHER_ORIGINS,
    PLAIN_ORIGIN,
    GatewayLimited,
    GatewayLimits,
)
from mangrove.model.congestion.parameters import Congestion
from mangrove.model.congestion.rate_limit import RateLimit
from mangrove.model.subjects import is_internal, subject_problem
from mangrove.model.topics import Scope
from mangrove.model.versions.rules_in_force import Rules
from mangrove.overlay.protocol.bodies import Flow, Message

CONGESTION = "congestion"
MAX_LIMITS = 100_000
MAX_COUNTED = 10_000
"""Publishers whose messages are told apart in answers, on all subjects together."""
MAX_SHARES = 100_000
MAX_ANSWER_BYTES = 512 << 10
MAX_NUMBER = 1 << 62
"""Terms and epochs beyond this are nobody's: nothing could be newer."""

OLD = "limits of an agent that are older than those in force"
IMPOSSIBLE = "limits of an agent with impossible figures or names"
UNTOUCHABLE = "limits of an agent on topics that are never limited"
TOO_MANY = "limits of an agent beyond those that are kept"


_Counts = dict[str, dict[str, tuple[int, int]]]


class _Arrival:
    """The gate of one subject."""

    def __init__(self, subject: str, owner: ArrivalLimits) -> None:
        self._subject = subject
        self._owner = owner
        self._limits: dict[bytes, FairLimit] = {}
        self._counted: dict[bytes, list[int]] = {}
        """Messages and bytes offered, and withheld, by origin."""

    def __len__(self) -> int:
        return len(self._limits)

    def end(self) -> None:
        """It is not limited any more."""
        for limit in self._limits.values():
            limit.release()

    def set(self, limits: dict[bytes, RateLimit], now: float) -> None:
        """These limits are in force, and no others; who had one before keeps what it has saved or owes."""
        kept = self._limits
        self._limits = {}
        for origin, limit in limits.items():
            before = kept.get(origin)
            if before is not None:
                before.change(limit.msg_s, limit.bytes_s, now)
            self._limits[origin] = before or FairLimit(limit.msg_s, limit.bytes_s, now, self._owner.room)
        for origin in kept.keys() - limits.keys():
            kept[origin].release()

    def admit(self, origin: bytes, messages: int, size_bytes: int, now: float) -> int:
        """Whoever is named has its own limit, all others have one together."""
        found = self._limits.get(origin) or self._limits.get(b"*")
        passing = messages
        if found is not None and now < self._owner.valid_until:
            passing = found.admit(origin, messages, size_bytes, now)
        counts = self._counted.get(origin) or self._owner.count(self._counted, origin)
        counts[0] += messages
        counts[1] += messages * size_bytes
        if passing < messages:
            counts[2] += messages - passing
            counts[3] += (messages - passing) * size_bytes
            self._owner.withheld(self._subject, messages - passing)
        return passing

    def take_counts(self) -> dict[bytes, list[int]]:
        """What was counted since the last call."""
        counted = self._counted
        self._counted = {}
        return counted


class ArrivalLimits:
    """All limits on what enters, and what they kept out."""

    def __init__(
        self,
        rules: Rules,
        congestion: Congestion,
        ledger: Ledger,
        changed: Callable[[tuple[str, ...]], None],
    ) -> None:
        """`changed` is told which subjects are limited now that were not before, or the reverse."""
        self._rules = rules
        self._congestion = congestion
        self._ledger = ledger
        self._changed = changed
        self._gates: dict[str, _Arrival] = {}
        self._term = -1
        self._epoch = -1
        self._counted = 0
        self.room = PublisherRoom(MAX_SHARES)
        self.valid_until = float("-inf")

    def __bool__(self) -> bool:
        return bool(self._gates)

    @property
    def in_force(self) -> int:
        """How many limits there are."""
        return sum(map(len, self._gates.values()))

    def terms_changed(self, congestion: Congestion) -> None:
        """Other contracts hold, and perhaps other terms of congestion control: for what agents say next."""
        self._congestion = congestion

    # -- the agent ----------------------------------------------------------------------------------------

    def order(self, limits: GatewayLimits, now: float) -> GatewayLimited:
        """Take what an agent says, unless it is out of date, and tell what came since it asked last."""
        offered, withheld = self._take_counts()
        stamp = (limits.term, limits.epoch)
        if not all(0 <= number < MAX_NUMBER for number in stamp):
            self._ledger.ignore(IMPOSSIBLE)
        elif stamp < (self._term, self._epoch):
            self._ledger.ignore(OLD)
        else:
            self._term, self._epoch = stamp
            self._put(limits.limits, now)
        return GatewayLimited(
            term=self._term, epoch=self._epoch, limits=self.in_force, offered=offered, withheld=withheld
        )

    def expire(self, now: float) -> None:
        """Limits that were not said again for long are lifted, and whoever said them is forgotten."""
        if self._term >= 0 and now >= self.valid_until:
            self._term = self._epoch = -1
            self._put({}, now)

    def _put(self, wanted: dict[str, dict[str, RateLimit]], now: float) -> None:
        self.valid_until = now + LIMITS_VALID_S
        before = self._gates
        self._gates = {}
        left = MAX_LIMITS
        for subject, limits in wanted.items():
            if (acceptable := self._acceptable(subject, limits, left)) is None:
                continue
            left -= len(acceptable)
            gate = self._gates[subject] = before.get(subject) or _Arrival(subject, self)
            gate.set(acceptable, now)
        for subject in before.keys() - self._gates.keys():
            before[subject].end()
        changed = tuple(before.keys() ^ self._gates.keys())
        if changed:
            self._changed(changed)

    def _acceptable(
        self, subject: str, limits: dict[str, RateLimit], left: int
    ) -> dict[bytes, RateLimit] | None:
        """Limits with possible figures, by origin; None if the subject has none, or may have none."""
        if is_internal(subject) or subject_problem(subject, wildcards=False):
            self._ledger.ignore(IMPOSSIBLE)
            return None
        contract = self._rules.contract_of(subject)
        protected = self._congestion.protects(contract.protected, contract.deadline_ms)
        if protected or contract.scope is Scope.DOMAIN:
            self._ledger.ignore(UNTOUCHABLE)
            return None
        found: dict[bytes, RateLimit] = {}
        for origin, limit in limits.items():
            if not (_is_origin(origin) and _possible(limit.msg_s) and _possible(limit.bytes_s)):
                self._ledger.ignore(IMPOSSIBLE)
            elif len(found) >= left:
                self._ledger.ignore(TOO_MANY)
            else:
                found[origin.encode()] = limit
        return found or None

    def _take_counts(self) -> tuple[_Counts, _Counts]:
        """What was offered and withheld since the last call: the busiest, as many as an answer takes."""
        rows = [
            (subject, origin, counts)
            for subject, gate in self._gates.items()
            for origin, counts in gate.take_counts().items()
        ]
        self._counted = 0
        rows.sort(key=lambda row: row[2][0], reverse=True)
        offered: _Counts = {}
        withheld: _Counts = {}
        for subject, origin, counts in _fitting(rows):
            name = origin.decode(errors="replace")
            offered.setdefault(subject, {})[name] = (counts[0], counts[1])
            if counts[2]:
                withheld.setdefault(subject, {})[name] = (counts[2], counts[3])
        return offered, withheld

    # -- messages -----------------------------------------------------------------------------------------

    def outlet(self, line: bytes, message: Message, outlet: Flow, *, request: bool) -> LimitedFlow | None:
        """The flow of a line on a subject that is limited, which books its messages; None if it is not."""
        gate = self._gates.get(message.subject)
        if gate is None:
            return None
        passed = self._request_passed if request else partial(self._passed, message.subject)
        return LimitedFlow(line, message, outlet, gate, passed)

    def count(self, counted: dict[bytes, list[int]], origin: bytes) -> list[int]:
        """Where to count somebody's messages: there is a bound to those who are told apart."""
        if self._counted >= MAX_COUNTED:
            origin = OTHER_ORIGINS.encode()
            if origin in counted:
                return counted[origin]
        self._counted += 1
        return counted.setdefault(origin, [0, 0, 0, 0])

    def withheld(self, subject: str, count: int) -> None:
        """Messages were dropped."""
        self._ledger.drop(subject, CONGESTION, count)

    def _passed(self, subject: str, count: int) -> None:
        self._ledger.delivered.add(subject, count)

    def _request_passed(self, count: int) -> None:
        self._ledger.delivered.requests += count


def _is_origin(text: str) -> bool:
    if text in (PLAIN_ORIGIN, OTHER_ORIGINS):
        return True
    return len(text) == PREFIX_BYTES and text.isascii() and text.isprintable()


def _possible(rate: float | None) -> bool:
    return rate is None or (isfinite(rate) and rate >= 0)


def _fitting(rows: Iterable[tuple[str, bytes, list[int]]]) -> Iterator[tuple[str, bytes, list[int]]]:
    left = MAX_ANSWER_BYTES
    for row in rows:
        left -= 2 * (len(msgspec.json.encode(row[0])) + 64)
        if left < 0:
            return
        yield row
