"""What may leave the domain: the rates of contracts and of clients, also for those who use no SDK.

The SDK keeps to the same rates at the source. Here it is known by the ids of its messages; all publishers
that use no SDK count as one on each subject. What stays inside the domain does not come here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from time import monotonic

from mangrove.gateway.ledger import Ledger
from mangrove.gateway.limits.fair_limit import FairLimit, PublisherRoom
from mangrove.gateway.limits.limited_flow import LimitedFlow
from mangrove.model.congestion.rate_limit import Limits
from mangrove.model.versions.rules_in_force import Rules
from mangrove.overlay.protocol.bodies import Entry, Flow, Message

RATE_LIMITED = "rate limited"
CLIENT_LIMITED = "rate limited: more than one client may publish"
MAX_SUBJECTS = 4096
"""Subjects with limits of their own at a time; those of one contract beyond that share one."""
MAX_CLIENTS = 10_000
MAX_SHARES = 100_000
IDLE_S = 10.0
LOOK_EVERY_S = 1.0


class _Limits:
    """Limits by name, in bounded number: those that nobody uses, and that owe nothing, make room."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: dict[bytes, FairLimit] = {}
        self._looked_at = float("-inf")

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, name: bytes) -> bool:
        return name in self._kept

    def forget(self, names: Iterable[bytes]) -> None:
        """Give up the limits of these names."""
        for name in list(names):
            if name in self._kept:
                self._kept.pop(name).release()

    def find(self, name: bytes, make: Callable[[], FairLimit], now: float) -> tuple[FairLimit | None, bool]:
        """The limit of a name, or None if there is no room; and whether others were given up for it."""
        limit = self._kept.get(name)
        if limit is not None:
            return limit, False
        freed = False
        if len(self._kept) >= self._most and now - self._looked_at >= LOOK_EVERY_S:
            self._looked_at = now
            for each in [name for name, kept in self._kept.items() if kept.idle(now, IDLE_S)]:
                self._kept.pop(each).release()
                freed = True
        if len(self._kept) >= self._most:
            return None, freed
        limit = self._kept[name] = make()
        return limit, freed


class _Departure:
    """The gate of one subject."""

    __slots__ = ("_client", "_ledger", "_limit", "_subject")

    def __init__(
        self,
        subject: str,
        limit: FairLimit | None,
        client: Callable[[str, bytes, float], FairLimit] | None,
        ledger: Ledger,
    ) -> None:
        self._subject = subject
        self._limit = limit
        self._client = client
        self._ledger = ledger

    def admit(self, origin: bytes, messages: int, size_bytes: int, now: float) -> int:
        """First what a client may say in all, then what may be said on the subject."""
        passing = messages
        if self._client is not None:
            passing = self._client(self._subject, origin, now).admit(origin, messages, size_bytes, now)
            if passing < messages:
                self._ledger.drop(self._subject, CLIENT_LIMITED, messages - passing)
        if self._limit is not None and passing:
            offered, passing = passing, self._limit.admit(origin, passing, size_bytes, now)
            if passing < offered:
                self._ledger.drop(self._subject, RATE_LIMITED, offered - passing)
        return passing


class DepartureLimits:
    """Finds the limit of a subject, and keeps those in use."""

    def __init__(
        self, rules: Rules, client: Limits, ledger: Ledger, forget_lines: Callable[[], None]
    ) -> None:
        """`forget_lines` is called when flows that were given out earlier have to be asked for again."""
        self._rules = rules
        self._client = client
        self._ledger = ledger
        self._forget_lines = forget_lines
        self._any = self._anything()
        self._subjects = _Limits(MAX_SUBJECTS)
        self._clients = _Limits(MAX_CLIENTS)
        self._classes: dict[bytes, int] = {}
        """Under which class each subject has its limit."""
        self._shared: dict[int, FairLimit] = {}
        """For subjects that found no room, by contract."""
        self._crowd: FairLimit | None = None
        """For clients that found no room."""
        self._room = PublisherRoom(MAX_SHARES)

    def _anything(self) -> bool:
        return bool(self._client) or any(
            contract.rate_msg_s is not None or contract.rate_bytes_s is not None
            for contract in self._rules.contracts
        )

    def contracts_changed(self, client: Limits) -> None:
        """Other contracts hold: limits are made anew where they are other ones than before.

        So are those of clients, if these may publish more or less than before.
        """
        if client != self._client:
            self._client, self._clients, self._crowd = client, _Limits(MAX_CLIENTS), None
        self._any = self._anything()
        self._subjects.forget(
            name for name, was in self._classes.items() if self._rules.class_of(name.decode()) != was
        )
        self._classes = {name: was for name, was in self._classes.items() if name in self._subjects}
        known = self._rules.known()
        self._shared = {each: limit for each, limit in self._shared.items() if each in known}

    def __len__(self) -> int:
        return len(self._subjects) + len(self._shared)

    @property
    def clients(self) -> int:
        """How many clients have limits of their own at present."""
        return len(self._clients)

    def entry(
        self, line: bytes, message: Message, flow: Flow, *, request: bool, booked_behind: bool = False
    ) -> Entry:
        """What a line on a topic means that leads to a flow; who sends a request must keep to limits too.

        With `booked_behind` the flow itself books what leaves the domain.
        """
        subject = message.subject
        gate = self._gate(subject) if self._any else None
        if gate is None and booked_behind:
            return Entry(message.skip, flow, once=request, booked=False)
        if gate is None:
            return Entry(message.skip, flow, once=True) if request else Entry(message.skip, flow, subject)
        passed = self._request_passed if request else partial(self._passed, subject)
        if booked_behind:
            passed = _nothing
        limited = LimitedFlow(line, message, flow, gate, passed)
        return Entry(message.skip, limited, once=request, booked=False)

    def _gate(self, subject: str) -> _Departure | None:
        topic_class = self._rules.class_of(subject)
        contract = self._rules.contract_at(topic_class)
        limit = None
        if contract.rate_msg_s is not None or contract.rate_bytes_s is not None:
            now = monotonic()
            make = partial(FairLimit, contract.rate_msg_s, contract.rate_bytes_s, now, self._room)
            limit, freed = self._subjects.find(subject.encode(), make, now)
            if limit is not None:
                self._classes[subject.encode()] = topic_class
            if freed:
                self._classes = {name: at for name, at in self._classes.items() if name in self._subjects}
                self._forget_lines()
            if limit is None:
                limit = self._shared.get(topic_class) or self._shared.setdefault(topic_class, make())
        elif not self._client:
            return None
        return _Departure(subject, limit, self._of_client if self._client else None, self._ledger)

    def _of_client(self, subject: str, origin: bytes, now: float) -> FairLimit:
        """The limit of one client for all that it says; of those without the SDK, for what all say here."""
        make = partial(FairLimit, self._client.rate_msg_s, self._client.rate_bytes_s, now)
        limit, _ = self._clients.find(origin or b" " + subject.encode(), make, now)
        if limit is None:
            limit = self._crowd = self._crowd or make()
        return limit

    def _passed(self, subject: str, count: int) -> None:
        self._ledger.sent.add(subject, count)

    def _request_passed(self, count: int) -> None:
        self._ledger.sent.requests += count


def _nothing(count: int) -> None:
    """They are booked elsewhere."""
