"""The SDK's connection: publishes at the head broker, subscribes at edge brokers, goes where it is told."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self

from mangrove.broker.client_connection import (
    BrokerAwayError,
    ClientConnection,
    NoResponderError,
)
from mangrove.broker.message_heads import encode_head
from mangrove.client.asks import Asks
from mangrove.client.broker_pool import BrokerPool
from mangrove.client.callbacks import Callbacks
from mangrove.client.filtering.publish_filter import PublishFilter
from mangrove.client.filtering.silence import Silence
from mangrove.client.gateway_questions import GatewayQuestions
from mangrove.client.legs import Legs
from mangrove.client.management.link import ManagementLink
from mangrove.client.message import HEAD_BYTES, Message, MessageIds, stamped
from mangrove.client.migration.paused_wire import PublishingWire
from mangrove.client.pending.gap import OnGap
from mangrove.client.pending.reading import Reading, reading_of
from mangrove.client.publisher import Publisher
from mangrove.client.publishing import Outcome, Published, Withheld
from mangrove.client.readiness import Readiness
from mangrove.client.subscription import Callback, Subscription
from mangrove.client.usefulness.headers import usefulness_headers
from mangrove.client.usefulness.user_function import UtilityFunction, UtilityThread
from mangrove.client.usefulness.votes import Votes
from mangrove.errors import InputError, MangroveError
from mangrove.model.agents.directory import DirectoryRecord
from mangrove.model.congestion.rate_limit import RateLimit
from mangrove.model.congestion.terms import TopicTerms
from mangrove.model.questions.session_quality import Quality, Role
from mangrove.model.subjects import is_internal, subject_problem

if TYPE_CHECKING:  # it loads what makes keys, which only clients of a domain with a name need
    from mangrove.client.management.managed import Managed

log = logging.getLogger(__name__)

SUBSCRIBE_S = 10.0
MAX_OUTLETS = 1 << 14
"""Subjects whose lines are kept, and that are counted one by one."""
WITHHELD_A_TURN = 256
"""Who publishes in vain so often in a row lets others have their turn."""
SENT = Outcome.SENT


class NotConnectedError(MangroveError):
    """No broker could be reached."""


class MessageTooLargeError(MangroveError):
    """A message above the federation's limit; it was not sent."""

    def __init__(self, subject: str, size_bytes: int, limit_bytes: int) -> None:
        self.subject = subject
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes
        super().__init__(
            f"the message of {size_bytes} bytes on {subject} is larger than the limit of {limit_bytes} bytes",
            hint="send less, or raise max_message_bytes in the federation file",
        )


class Connection:
    """Publish and subscribe in one domain of a federation. Made by `mangrove.connect`."""

    def __init__(
        self,
        pool: BrokerPool,
        publisher: ClientConnection,
        subscriber: ClientConnection,
        link: ManagementLink | None = None,
        managed: Managed | None = None,
        publishing: PublishFilter | None = None,
        terms: Sequence[TopicTerms] = (),
    ) -> None:
        """`link` leads to the domain's management broker, if that is known; `managed` to its agent.

        `publishing` knows the limits that hold from the beginning, `terms` are those of all contracts.
        """
        questions = None if link is None else GatewayQuestions(link)
        self._link = link
        self._readiness = None if questions is None else Readiness(questions)
        self._asks = None if questions is None else Asks(questions)
        self._pool = pool
        self._publisher = publisher
        self._subscriber = subscriber
        self._elsewhere: dict[str, PublishingWire] = {}
        """Of subjects that are not published at the head."""
        self._ids = MessageIds()
        self._filter = publishing or PublishFilter()
        self._outlets = self._filter.outlets
        self._gates = self._filter.gates
        self._silence = None if link is None else Silence(link, self._filter)
        self._in_vain = 0
        self._terms = terms
        self._callbacks = Callbacks()
        self._utility_thread = UtilityThread()
        self._cut_off: set[asyncio.Task[None]] = set()
        """Ends of subscriptions that were too slow."""
        self._legs = Legs(self._respond)
        self.dropped: Counter[str] = Counter()
        """Messages that this client could not keep up with, by subject."""
        self.refused: Counter[str] = Counter()
        """Messages that were too large to be sent, by subject."""
        self.published_elsewhere = Published()
        """What was published on subjects that are not counted one by one: replies, and beyond a limit."""
        self._managed = managed
        if managed is not None:
            managed.begin(self._legs, self.published, self._route, self._filter, self._ids.prefix)

    async def publish(
        self,
        subject: str,
        data: bytes = b"",
        *,
        headers: Mapping[str, str] | None = None,
        reply: str = "",
        keywords: Iterable[str] | None = None,
        utility: float | None = None,
    ) -> Outcome:
        """Publish a message with a unique id and the present time in its headers, unless it is held back.

        `Outcome.LIMITED` says that a limit is reached, `Outcome.UNWANTED` that nobody in the federation
        subscribes; only `Outcome.SENT` is true. `connect(when_limited=…)` makes it wait or raise instead.

        `keywords` say what the message is about, `utility` how useful it is to anybody, from 0 to 1: by them
        subscribers judge it whose own function does not.

        Waits while the broker takes no more. What is published while the broker is away waits for its return,
        up to a limit; then NotConnectedError.
        """
        if keywords is not None or utility is not None:
            headers = usefulness_headers(headers, keywords, utility)
        wire = self._elsewhere.get(subject, self._publisher) if self._elsewhere else self._publisher
        while wire.full:
            await wire.drained()
            wire = self._elsewhere.get(subject, self._publisher)
        if not headers and not reply and len(data) <= wire.max_payload - HEAD_BYTES:
            # As in publish_nowait, without the way there: most messages go here.
            outlet = self._outlets.get(subject)
            if outlet is None:
                gate = self._gates.get(subject)
                if gate is not None and gate.outlet.messages < gate.until and len(data) <= gate.most_bytes:
                    outlet = gate.outlet
            if outlet is not None:
                try:
                    outlet.publish(data, self._ids.count(), time.time_ns())
                except BrokerAwayError as error:
                    raise NotConnectedError(f"could not publish on {subject}: {error.message}") from None
                return SENT
        return await self._publish_or_withhold(subject, data, headers, reply, awaited=bool(reply))

    async def _publish_or_withhold(
        self, subject: str, data: bytes, headers: Mapping[str, str] | None, reply: str, *, awaited: bool
    ) -> Outcome:
        while (outcome := self._publish(subject, data, headers, reply, awaited=awaited)) is Outcome.LIMITED:
            if not self._filter.waits:
                break
            await self._filter.room(subject)
        if outcome is SENT:
            return SENT
        self._in_vain += 1
        if not self._in_vain % WITHHELD_A_TURN:
            await asyncio.sleep(0)
        return self._filter.withhold(subject, outcome, len(data))

    def publish_nowait(
        self,
        subject: str,
        data: bytes = b"",
        *,
        headers: Mapping[str, str] | None = None,
        reply: str = "",
        keywords: Iterable[str] | None = None,
        utility: float | None = None,
    ) -> Outcome:
        """Publish from code that cannot wait: NotConnectedError if the broker takes no more for now."""
        if keywords is not None or utility is not None:
            headers = usefulness_headers(headers, keywords, utility)
        outcome = self._publish(subject, data, headers, reply, awaited=bool(reply))
        return SENT if outcome is SENT else self._filter.withhold(subject, outcome, len(data))

    def _publish(
        self, subject: str, data: bytes, headers: Mapping[str, str] | None, reply: str, *, awaited: bool
    ) -> Outcome:
        """Publish, if nothing holds it back; what somebody waits for, or answers, is never unwanted."""
        bare = not headers and not reply
        outlet = self._outlets.get(subject)
        if outlet is None and subject not in self._gates:
            self._new_outlet(subject)
            outlet = self._outlets.get(subject)
        self._check_size(subject, len(data) + HEAD_BYTES if bare else len(data))
        if outlet is None:
            outcome = self._filter.judge(subject, len(data), awaited=awaited)
            if outcome is not SENT:
                return outcome
            outlet = self._filter.outlet(subject)
        try:
            if outlet is not None and bare:
                outlet.publish(data, self._ids.count(), time.time_ns())
                return SENT
            head = encode_head(stamped(headers, self._ids))
            self._check_size(subject, len(head) + len(data))
            self._elsewhere.get(subject, self._publisher).publish(subject, data, reply=reply, head=head)
        except BrokerAwayError as error:
            raise NotConnectedError(f"could not publish on {subject}: {error.message}") from None
        counted = outlet or self.published_elsewhere
        counted.messages += 1
        counted.size_bytes += len(data)
        return SENT

    def _new_outlet(self, subject: str) -> None:
        """An outlet for a subject that is published on for the first time, if it is worth one."""
        _check(subject, wildcards=False)
        if is_internal(subject) or len(self._outlets) + len(self._gates) >= MAX_OUTLETS:
            return
        self._filter.add(subject, self._publisher.outlet(subject, self._ids.head_form))
        if self._managed is not None:
            self._managed.published(subject)
        if self._silence is not None:
            self._silence.begin()

    def _route(self, subject: str, wire: PublishingWire) -> None:
        """Publish a subject at another connection from now on."""
        if wire is self._publisher:
            self._elsewhere.pop(subject, None)
        else:
            self._elsewhere[subject] = wire
        before = self._filter.outlet(subject)
        if before is not None:
            outlet = wire.outlet(subject, self._ids.head_form)
            outlet.messages, outlet.size_bytes = before.messages, before.size_bytes
            self._filter.replace(subject, outlet)

    @property
    def origin(self) -> str:
        """How the ids of this connection's messages begin; subscribers tell publishers apart by it."""
        return self._ids.prefix

    @property
    def limits(self) -> Mapping[str, RateLimit]:
        """Limits in force on subjects that were published on; `>` is what all may have together."""
        return dict(self._filter.limits)

    @property
    def withheld(self) -> Mapping[str, Withheld]:
        """What was not sent because of a limit, or because nobody subscribed, by subject."""
        return {
            subject: counts
            for subject, counts in self._filter.withheld.items()
            if counts.limited.messages or counts.unwanted.messages
        }

    @property
    def directory(self) -> Mapping[str, DirectoryRecord]:
        """What this client knows of its domain's directory, by topic; nothing without an agent."""
        return {} if self._managed is None else self._managed.membership.directory

    @property
    def moves(self) -> Mapping[str, int]:
        """How often an agent asked this client to move something, by what became of it."""
        return {} if self._managed is None else self._managed.moved

    def published(self) -> dict[str, Published]:
        """What was published so far, by subject."""
        return {
            subject: Published(outlet.messages, outlet.size_bytes)
            for subject, outlet in self._filter.all_outlets().items()
        }

    async def publisher(
        self,
        subject: str,
        *,
        deadline_ms: float | None = None,
        paths: int | None = None,
        resiliency: float | None = None,
    ) -> Publisher:
        """A publisher of one subject for whom its domain sends with more than the contract owes.

        Within the `limits` of the contract, and for as long as the publisher is open. AskRefusedError names
        what is possible.
        """
        _check(subject, wildcards=False)
        quality = Quality(deadline_ms=deadline_ms, paths=paths, resiliency=resiliency)
        return Publisher(subject, self.publish, await self._take(Role.PUBLISHER, subject, quality))

    async def subscribe(
        self,
        subject: str,
        *,
        queue: str = "",
        callback: Callback | None = None,
        deadline_ms: float | None = None,
        paths: int | None = None,
        resiliency: float | None = None,
        weight: float = 1.0,
        keywords: Iterable[str] | None = None,
        utility: UtilityFunction | None = None,
        slow: str | None = None,
        max_pending: int | None = None,
        max_pending_bytes: int | None = None,
        on_gap: OnGap | None = None,
    ) -> Subscription:
        """Subscribe to a subject or pattern, alone or as a member of a queue group.

        With a deadline, a number of paths or a resiliency all domains send here with more than the contract
        owes, within its `limits`, until the subscription ends. AskRefusedError names what is possible.
        The deadline and the `weight` also tell an agent how urgent this subscription is among others.

        How useful messages are is said by `utility`, called in a thread of its own with some of them, or else
        by how far `keywords` of interest match theirs: when capacity is short, the useless are limited first.

        At most `max_pending` messages, and `max_pending_bytes`, wait for the reader. What is left out beyond
        is decided by `slow` (see `Slow`), else by the contract, and told to `on_gap` before the next message.
        """
        _check(subject, wildcards=True)
        if not (math.isfinite(weight) and weight > 0):
            raise InputError(f"a weight must be above 0, not {weight:g}")
        reading = reading_of(
            subject,
            self._utility_thread,
            self._terms,
            slow=slow,
            max_pending=max_pending,
            max_pending_bytes=max_pending_bytes,
            keywords=keywords,
            utility=utility,
            on_gap=on_gap,
        )
        quality = Quality(deadline_ms=deadline_ms, paths=paths, resiliency=resiliency)
        end = await self._take(Role.SUBSCRIBER, subject, quality)
        try:
            return await self._subscribe(subject, queue, callback, end, deadline_ms, weight, reading)
        except BaseException:
            await end()
            raise

    async def _take(self, role: Role, subject: str, quality: Quality) -> Callable[[], Awaitable[None]]:
        """Ask the gateway, if there is anything to ask for; what ends it."""
        if not quality:
            return _nothing
        if self._asks is None:
            raise _unknown_gateway("grants more than a contract")
        return partial(self._asks.end, await self._asks.take(role, subject, quality))

    async def _subscribe(
        self,
        subject: str,
        queue: str,
        callback: Callback | None,
        end: Callable[[], Awaitable[None]],
        deadline_ms: float | None,
        weight: float,
        reading: Reading,
    ) -> Subscription:
        async def ended(subscription: Subscription) -> None:
            await self._leave(subscription)
            await end()

        async def ready(timeout: float) -> None:
            await self._ready(subject, queue, timeout, subscription)

        def cut_off(subscription: Subscription) -> None:
            task = asyncio.get_running_loop().create_task(ended(subscription), name="cut off")
            self._cut_off.add(task)
            task.add_done_callback(self._cut_off.discard)

        subscription = Subscription(
            subject,
            queue,
            callback,
            self._callbacks,
            self.dropped,
            ready,
            ended,
            reading,
            cut_off=cut_off,
            votes=None if self._managed is None else Votes(reading.judge),
        )
        if self._silence is not None:
            self._silence.subscribed(subject, subscription)
        try:
            wire = self._subscriber
            if self._managed is not None:
                wire = await self._managed.place(subscription, deadline_ms, weight)
            leg = self._legs.serve(subscription, wire)
            if self._managed is not None:
                self._managed.placed(subscription)
            await leg.in_force(SUBSCRIBE_S)
        except (BrokerAwayError, TimeoutError) as error:
            await self._abandon(subscription)
            raise NotConnectedError(f"could not subscribe to {subject}: {error}") from None
        except BaseException:
            await self._abandon(subscription)
            raise
        return subscription

    async def _abandon(self, subscription: Subscription) -> None:
        subscription.finish()
        await self._leave(subscription)

    async def _leave(self, subscription: Subscription) -> None:
        """Serve a subscription no longer."""
        self._legs.end(subscription)
        if self._silence is not None:
            self._silence.unsubscribed(subscription.subject, subscription)
        if self._managed is not None:
            await self._managed.ended(subscription)
            self._managed.tidy()

    async def ready(self, subject: str, *, queue: str = "", timeout: float = 10.0) -> None:
        """Wait until a subject that somebody in this domain wants is known wherever it may be published.

        What is published afterwards, in any domain that can be reached, will be sent here. Raises
        TimeoutError with the names of the domains that did not confirm.
        """
        _check(subject, wildcards=True)
        own = (each for each in self._legs if (each.subject, each.queue) == (subject, queue))
        await self._ready(subject, queue, timeout, next(own, None))

    async def _ready(
        self, subject: str, queue: str, timeout: float, subscription: Subscription | None
    ) -> None:
        """Ask the gateway of the domain that serves the subscription, over the same connection."""
        readiness = self._readiness
        leg = None if subscription is None else self._legs.of(subscription)
        if self._managed is not None and subscription is not None:
            readiness = self._managed.readiness_abroad(subscription) or readiness
        if readiness is None:
            raise _unknown_gateway("tells who is ready")
        wire = self._subscriber if leg is None else leg.wire

        async def ask(subject: str, timeout: float) -> None:
            await wire.request(subject, b"", timeout_s=timeout)

        await readiness.wait(subject, queue, timeout, ask)

    async def request(
        self,
        subject: str,
        data: bytes = b"",
        *,
        timeout: float = 2.0,
        headers: Mapping[str, str] | None = None,
    ) -> Message:
        """Send a request and wait for the first answer, from whichever domain.

        It counts as a message of its subject: beyond a limit LimitedError is raised, or it waits if
        `connect(when_limited="wait")` says so. Its `timeout` begins when it is sent.
        """
        _check(subject, wildcards=False)
        await self._admit(subject, len(data))
        head = encode_head(stamped(headers, self._ids))
        self._check_size(subject, len(head) + len(data))
        wire = self._publisher
        while wire.full:
            await wire.drained()
        try:
            answer: Message = await wire.request(
                subject, data, timeout_s=timeout, head=head, form=Message, origin=self._respond
            )
        except NoResponderError:
            raise MangroveError(
                f"nobody in the federation answers on {subject}", hint="start the service, or wait for it"
            ) from None
        except TimeoutError:
            raise TimeoutError(f"no answer on {subject} within {timeout:g} s") from None
        except BrokerAwayError as error:
            raise NotConnectedError(f"could not send a request on {subject}: {error.message}") from None
        return answer

    async def _admit(self, subject: str, size_bytes: int) -> None:
        """Hold a request back while it is beyond a limit."""
        if self._filter.outlet(subject) is None and self._filter.limited(subject):
            self._new_outlet(subject)
        while not self._filter.judge(subject, size_bytes, awaited=True, counted=False):
            if not self._filter.waits:
                self._filter.withhold(subject, Outcome.LIMITED, size_bytes)
                raise self._filter.error(subject)
            await self._filter.room(subject)

    async def flush(self, timeout: float = 5) -> None:
        """Wait until the broker has taken everything that was published."""
        try:
            for wire in {self._publisher, *self._elsewhere.values()}:
                await wire.flush(timeout)
        except (BrokerAwayError, TimeoutError) as error:
            raise NotConnectedError(f"the broker did not confirm: {error}") from None

    async def close(self) -> None:
        """Send what is pending, then disconnect."""
        self._utility_thread.close()
        if self._cut_off:
            await asyncio.wait(self._cut_off)
        if self._silence is not None:
            await self._silence.close()
        if self._asks is not None:
            await self._asks.close()
        if self._managed is not None:
            await self._managed.close()
        for subscription in self._legs:
            subscription.finish()
            self._legs.end(subscription)
        if self._link is not None:
            await self._link.close()
        await self._pool.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _respond(self, reply: str, data: bytes, headers: Mapping[str, str] | None) -> Outcome:
        wire = self._elsewhere.get(reply, self._publisher)
        while wire.full:
            await wire.drained()
        return await self._publish_or_withhold(reply, data, headers, "", awaited=True)

    def _check_size(self, subject: str, size_bytes: int) -> None:
        if size_bytes > self._publisher.max_payload:
            self.refused[subject] += 1
            error = MessageTooLargeError(subject, size_bytes, self._publisher.max_payload)
            log.error("%s", error.message)
            raise error


async def _nothing() -> None:
    """Nothing was asked for."""


def _unknown_gateway(what: str) -> MangroveError:
    return MangroveError(
        f"this connection does not know its domain's management broker, which {what}",
        hint="connect to a broker of a domain whose gateway runs",
    )


def _check(subject: str, *, wildcards: bool) -> None:
    problem = subject_problem(subject, wildcards=wildcards)
    if problem:
        raise InputError(f"{subject!r} is not a valid subject: {problem}")
