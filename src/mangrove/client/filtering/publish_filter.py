"""All gates of one connection: what is in force on each subject, and what was withheld."""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from mangrove.broker.client_connection import Outlet
from mangrove.client.filtering.gate import PURSE_SHARE, Gate, seconds
from mangrove.client.publishing import LimitedError, Outcome, WhenLimited, Withheld
from mangrove.errors import InputError
from mangrove.model.congestion.rate_limit import LimitCause, Limits, RateLimit, is_rate, strictest
from mangrove.model.congestion.terms import TopicTerms
from mangrove.model.congestion.token_bucket import TokenBucket
from mangrove.model.patterns.trie import SubjectTrie
from mangrove.model.subjects import is_internal

log = logging.getLogger(__name__)

ALL = ">"
"""What the client's own limit, over all subjects, is called among the limits of subjects."""
MAX_WAIT_S = 60.0

OnLimit = Callable[[str, RateLimit | None], object]
"""Told a subject and its limit, or None when it has none any more."""


class PublishFilter:
    """Subjects that nothing holds back are in `outlets` alone: for them the filter costs nothing."""

    def __init__(
        self,
        terms: Iterable[TopicTerms] = (),
        client: Limits | None = None,
        on_limit: OnLimit | None = None,
        when_limited: WhenLimited = WhenLimited.DROP,
    ) -> None:
        self.outlets: dict[str, Outlet] = {}
        """Of subjects that are sent at once."""
        self.gates: dict[str, Gate] = {}
        """Of all others."""
        self.withheld: dict[str, Withheld] = {}
        """By subject; under `ALL`, subjects beyond those that are counted one by one."""
        self.limits: dict[str, RateLimit] = {}
        """In force, by subject."""
        self._on_limit = on_limit
        self._when_limited = when_limited
        self._ordered: Mapping[str, RateLimit] = {}
        self._changed = asyncio.Event()
        self._client: TokenBucket | None = None
        self._client_limits: Limits | None = None
        self.adopt(terms, client)

    def adopt(self, terms: Iterable[TopicTerms], client: Limits | None) -> None:
        """Contracts, and what all subjects of the client may have together, as they have become known."""
        self._terms = _telling(tuple(terms))
        self._positions: SubjectTrie[int] = SubjectTrie()
        for position, each in enumerate(self._terms):
            self._positions.add(each.match, position)
        if client != self._client_limits:
            self._client_limits, self._client = client, None
            self.limits.pop(ALL, None)
        if client and self._client is None and is_rate(client.rate_msg_s) and is_rate(client.rate_bytes_s):
            self._client = TokenBucket(client.rate_msg_s, client.rate_bytes_s, seconds())
            self.limits[ALL] = RateLimit(
                msg_s=client.rate_msg_s, bytes_s=client.rate_bytes_s, cause=LimitCause.CLIENT
            )
        for gate in self.gates.values():
            gate.settle()
            gate.client = self._client
        for subject in self.all_outlets():
            self._apply(subject)

    @property
    def waits(self) -> bool:
        """Whether who is beyond a limit waits."""
        return self._when_limited is WhenLimited.WAIT

    def always_sent(self, subject: str) -> bool:
        """Whether the contract wants it sent even if nobody listens."""
        terms = self._terms_of(subject)
        return terms is not None and terms.always_send

    def limited(self, subject: str) -> bool:
        """Whether a subject has a limit of its own, also if it was not published on yet."""
        return subject in self._ordered or self._contracted(subject) is not None

    # -- subjects and their ways ----------------------------------------------------------------------------

    def add(self, subject: str, outlet: Outlet) -> None:
        """A subject is published on for the first time."""
        self.outlets[subject] = outlet
        self._apply(subject)

    def outlet(self, subject: str) -> Outlet | None:
        """The way of a subject, held back or not."""
        gate = self.gates.get(subject)
        return self.outlets.get(subject) if gate is None else gate.outlet

    def all_outlets(self) -> dict[str, Outlet]:
        """The ways of all subjects."""
        return {**self.outlets, **{subject: gate.outlet for subject, gate in self.gates.items()}}

    def replace(self, subject: str, outlet: Outlet) -> None:
        """A subject goes another way."""
        gate = self.gates.get(subject)
        if gate is None:
            self.outlets[subject] = outlet
        else:
            gate.outlet = outlet

    # -- messages -------------------------------------------------------------------------------------------

    def judge(self, subject: str, size_bytes: int, *, awaited: bool, counted: bool = True) -> Outcome:
        """Whether a message may be sent; if not, that is not counted yet. See `Gate.judge`.

        Of subjects that nothing is kept of, because there are too many, only the client's own limit holds.
        """
        gate = self.gates.get(subject)
        if gate is not None:
            share = PURSE_SHARE if gate.client is None else PURSE_SHARE / len(self.gates)
            outcome = gate.judge(size_bytes, share, awaited=awaited, counted=counted)
            if outcome and not gate.needed:
                self.speak(subject)
            return outcome
        if self._client is not None and subject not in self.outlets and not is_internal(subject):
            if not self._client.open(seconds()):
                return Outcome.LIMITED
            self._client.spend(size_bytes)
        return Outcome.SENT

    def charge(self, subject: str, share: float, size_bytes: int) -> None:
        """Have a message that may be sent cost so much more than itself."""
        gate = self.gates.get(subject)
        if gate is not None:
            gate.charge(share, size_bytes)

    def withhold(self, subject: str, outcome: Outcome, size_bytes: int) -> Outcome:
        """Count what is not sent; LimitedError if that is wished. What is kept will be sent."""
        if outcome is Outcome.KEPT:
            return outcome
        self._counts(subject).add(outcome, size_bytes)
        if outcome is Outcome.LIMITED and self._when_limited is WhenLimited.RAISE:
            raise self.error(subject)
        return outcome

    def delay(self, subject: str, size_bytes: int) -> None:
        """Count what has to wait; it tells the agent that more would be said."""
        self._counts(subject).delayed.add(size_bytes)

    def _counts(self, subject: str) -> Withheld:
        gate = self.gates.get(subject)
        return gate.withheld if gate is not None else self.withheld.setdefault(ALL, Withheld())

    def error(self, subject: str) -> LimitedError:
        """What is raised for a subject that is at its limit."""
        gate = self.gates.get(subject)
        own = gate is not None and gate.bucket is not None and not gate.bucket.open(seconds())
        return LimitedError(subject, (not own and self.limits.get(ALL)) or self.limits.get(subject))

    async def room(self, subject: str) -> None:
        """Wait until a message may pass, or limits have changed; others may have come first then."""
        try:
            async with asyncio.timeout(min(self.wait_s(subject), MAX_WAIT_S)):
                await self._changed.wait()
        except TimeoutError:
            return

    def wait_s(self, subject: str) -> float:
        """How long until a message may pass, as far as limits go."""
        gate = self.gates.get(subject)
        if gate is not None:
            return gate.wait_s()
        return 0.0 if self._client is None else self._client.wait_s(seconds())

    # -- limits ---------------------------------------------------------------------------------------------

    def order(self, limits: Mapping[str, RateLimit]) -> None:
        """The agent's limits: these, and no others."""
        before, self._ordered = self._ordered, limits
        for subject in {*before, *limits}:
            if before.get(subject) != limits.get(subject):
                self._apply(subject)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _apply(self, subject: str) -> None:
        """Put what is in force on a subject that is published on into effect."""
        outlet = self.outlet(subject)
        if outlet is None:
            return
        limit = strictest(self._contracted(subject), self._ordered.get(subject))
        if limit is not None and limit.msg_s is None and limit.bytes_s is None:
            limit = None
        gate = self.gates.get(subject)
        if limit is None and self._client is None and gate is None:
            return
        gate = gate or self._gate(subject, outlet)
        gate.settle()
        now = seconds()
        if limit is None:
            gate.bucket = None
        elif gate.bucket is None:
            gate.bucket = TokenBucket(limit.msg_s, limit.bytes_s, now)
        else:
            gate.bucket.change(limit.msg_s, limit.bytes_s, now)
        if limit != self.limits.get(subject):
            if limit is None:
                del self.limits[subject]
            else:
                self.limits[subject] = limit
            self._tell(subject, limit)
        self._open_if_free(subject, gate)

    def _contracted(self, subject: str) -> RateLimit | None:
        terms = self._terms_of(subject)
        if terms is None or terms.rate_msg_s is terms.rate_bytes_s is None:
            return None
        if not (is_rate(terms.rate_msg_s) and is_rate(terms.rate_bytes_s)):
            return None  # the gateway that told it is out of its mind
        return RateLimit(
            msg_s=terms.rate_msg_s,
            bytes_s=terms.rate_bytes_s,
            cause=LimitCause.CONTRACT,
            reason=f"the contract of {terms.match}",
        )

    def _terms_of(self, subject: str) -> TopicTerms | None:
        position = min(self._positions.match(subject), default=None)
        return None if position is None else self._terms[position]

    def _tell(self, subject: str, limit: RateLimit | None) -> None:
        if self._on_limit is not None:
            asyncio.get_running_loop().call_soon(partial(_call, self._on_limit, subject, limit))

    # -- silence --------------------------------------------------------------------------------------------

    def silence(self, subject: str, until_s: float) -> None:
        """Nobody listens, and until then we shall be told if somebody does."""
        outlet = self.outlet(subject)
        if outlet is not None:
            gate = self.gates.get(subject) or self._gate(subject, outlet)
            gate.settle()
            gate.silent_until_s = until_s

    def speak(self, subject: str) -> None:
        """Somebody may listen."""
        gate = self.gates.get(subject)
        if gate is not None:
            gate.silent_until_s = -math.inf
            self._open_if_free(subject, gate)

    def _gate(self, subject: str, outlet: Outlet) -> Gate:
        withheld = self.withheld.setdefault(subject, Withheld())
        self.outlets.pop(subject, None)
        gate = self.gates[subject] = Gate(outlet, withheld, self._client)
        return gate

    def _open_if_free(self, subject: str, gate: Gate) -> None:
        if not gate.needed:
            del self.gates[subject]
            self.outlets[subject] = gate.outlet


def _telling(terms: tuple[TopicTerms, ...]) -> tuple[TopicTerms, ...]:
    """Without those at the end that say nothing of publishing."""
    while terms and terms[-1].rate_msg_s is terms[-1].rate_bytes_s is None and not terms[-1].always_send:
        terms = terms[:-1]
    return terms


def checked_callback(on_limit: OnLimit | None) -> OnLimit | None:
    """It is called in the event loop, and nobody would await it."""
    if on_limit is not None and (not callable(on_limit) or inspect.iscoroutinefunction(on_limit)):
        raise InputError("on_limit must be a plain function of a subject and its limit")
    return on_limit


def chosen_way(when_limited: str) -> WhenLimited:
    """What the user wants done with messages beyond a limit."""
    try:
        return WhenLimited(when_limited)
    except ValueError:
        known = ", ".join(each.value for each in WhenLimited)
        raise InputError(f"when_limited is {when_limited!r}", hint=f"choose one of: {known}") from None


def _call(on_limit: OnLimit, subject: str, limit: RateLimit | None) -> None:
    try:
        on_limit(subject, limit)
    except Exception:  # the user's code may raise anything; the limit holds all the same
        log.exception("on_limit failed for %s", subject)
