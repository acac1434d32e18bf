"""The SDK's connection: publishes at the head broker, subscribes at edge brokers, goes where it is told."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from mangrove.broker.client_connection import (
    BrokerAwayError,
    ClientConnection,
    Denial,
    NoResponderError,
    NotAllowedError,
    Subscribed,
)
from mangrove.client.asks import Asks
from mangrove.client.broker_pool import BrokerPool
from mangrove.client.callbacks import Callbacks
from mangrove.client.contracts import Contracts
from mangrove.client.filtering.publish_filter import PublishFilter
from mangrove.client.gateway_questions import GatewayQuestions
from mangrove.client.legs import Legs
from mangrove.client.management.link import ManagementLink
from mangrove.client.management.terms_heard import TermsHeard
from mangrove.client.pending.gap import OnGap
from mangrove.client.pending.reading import Reading, reading_of
from mangrove.client.publisher import Publisher
from mangrove.client.publishing_connection import (
    Keeping,
    NotConnectedError,
    PublishingConnection,
    check_subject,
)
from mangrove.client.readiness import Readiness
from mangrove.client.selection import Selection, selection_of
from mangrove.client.subscription import Callback, Subscription
from mangrove.client.usefulness.user_function import UtilityFunction, UtilityThread
from mangrove.client.usefulness.votes import Votes
from mangrove.errors import InputError, MangroveError
from mangrove.model.agents.directions import DIRECTIONS_SUBJECT
from mangrove.model.agents.directory import DirectoryRecord
from mangrove.model.congestion.rate_limit import Limits
from mangrove.model.congestion.terms import TopicTerms
from mangrove.model.mirrors.modes import told_modes
from mangrove.model.questions.access_question import AccessAnswer, AccessRequest, gateway_access_subject
from mangrove.model.questions.session_quality import Quality, Role
from mangrove.model.questions.terms_question import TermsTold

if TYPE_CHECKING:  # it loads what makes keys, which only clients of a domain with a name need
    from mangrove.client.management.managed import Managed
    from mangrove.client.mirroring.mirroring import MirrorState
    from mangrove.model.congestion.word_vectors import WordVectors

log = logging.getLogger(__name__)

SUBSCRIBE_S = 10.0
MEETING_S = 3.0
"""Contracts that are not known so long after the first broker has come are not waited for."""
GATEWAY_S = 10.0
GATEWAY_TRIES = 50
"""A gateway that does not come back to a broker within about this time is not waited for."""


class Connection(PublishingConnection):
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
        keeping: Keeping | None = None,
        *,
        selects: bool = False,
    ) -> None:
        """`link` leads to the domain's management broker, if that is known; `managed` to its agent.

        `publishing` knows the limits that hold from the beginning, `terms` are those of all contracts. With
        `keeping`, what no broker takes at the moment is kept. `selects`: the gateway understands selectors.
        """
        super().__init__(publisher, publishing or PublishFilter(), link, managed, keeping)
        self._pool = pool
        pool.when_denied = self._denied
        self._subscriber = subscriber
        self._callbacks = Callbacks()
        self._utility_thread = UtilityThread()
        self._cut_off: set[asyncio.Task[None]] = set()
        """Ends of subscriptions that were too slow."""
        self._legs = Legs(self._respond)
        self._served: set[Subscription] = set()
        """Those that `subscribe` has handed over: what befalls them is told by themselves."""
        self.dropped: Counter[str] = Counter()
        """Messages that this client could not keep up with, by subject."""
        self._meeting: asyncio.Task[None] | None = None
        self._know(link, managed, terms, selects)
        if self._keeper is not None:
            pool.keeper = self._keeper
            self._keeper.begin(self)

    def _know(
        self, link: ManagementLink | None, managed: Managed | None, terms: Sequence[TopicTerms], selects: bool
    ) -> None:
        """What is known of the domain."""
        questions = None if link is None else GatewayQuestions(link)
        self._link = link
        self._questions = questions
        self._readiness = None if questions is None else Readiness(questions)
        self._asks = None if questions is None else Asks(questions)
        self._terms = terms
        self._selects = selects
        self._heard = None if link is None else TermsHeard(link, self._contracts_changed)
        if managed is not None:
            managed.begin(self._legs, self.published, self._route, self._filter, self._ids, self._respond)

    def _contracts_changed(self, told: TermsTold) -> None:
        """Other contracts hold, or are known to: for what is published and read from now on."""
        self._terms = told.terms
        self._filter.adopt(told.terms, told.client_limits)
        if self._keeper is not None:
            self._keeper.adopt(told.terms)
        for subscription in self._legs:
            subscription.contracts_changed(told.terms)

    @property
    def contracts_version(self) -> int:
        """The version of the federation document by which this connection acts; 0 if none is known yet."""
        return 0 if self._heard is None else self._heard.version

    @property
    def contracts(self) -> Contracts:
        """The contracts of the federation: to be shown, and changed by whom the rules allow to.

        MangroveError if the domain's management broker is not known.
        """
        if self._link is None:
            raise _unknown_gateway("knows of contracts")
        return Contracts(self._link)

    def meet(self, meeting: Coroutine[None, None, None]) -> None:
        """Find out about the domain, which could not be done at the beginning."""
        self._meeting = asyncio.get_running_loop().create_task(meeting, name="meet the domain")

    def met(
        self,
        link: ManagementLink,
        managed: Managed,
        terms: Sequence[TopicTerms],
        client_limits: Limits,
        *,
        selects: bool = False,
    ) -> None:
        """The domain is known from now on; what is subscribed to already stays where it is."""
        self._filter.adopt(terms, client_limits)
        self._manage(link, managed)
        self._know(link, managed, terms, selects)
        for subject in self.published():
            managed.published(subject)
        if self._silence is not None and self.published():
            self._silence.begin()
        if self._keeper is not None:
            self._keeper.adopt(terms)

    @property
    def directory(self) -> Mapping[str, DirectoryRecord]:
        """What this client knows of its domain's directory, by topic; nothing without an agent."""
        return {} if self._managed is None else self._managed.membership.directory

    @property
    def moves(self) -> Mapping[str, int]:
        """How often an agent asked this client to move something, by what became of it."""
        return {} if self._managed is None else self._managed.moved

    @property
    def mirrors(self) -> Mapping[str, MirrorState]:
        """How the topics of this connection whose contracts want a mirror are mirrored at the moment.

        A mirror that is `away` has no second copies: the primary is alone until it is back. Without an agent
        nothing is mirrored, and each `problem` says so.
        """
        if self._managed is not None:
            return self._managed.mirroring.states()
        from mangrove.client.mirroring.mirroring import unmirrored

        topics = [*self.published(), *(each.subject for each in self._legs if not each.queue)]
        return unmirrored(told_modes(self._terms), topics)

    @property
    def mirroring(self) -> Mapping[str, int]:
        """What was done for mirrored topics, and what could not be, by reason."""
        return {} if self._managed is None else self._managed.mirroring.counts

    async def mirrored(self, timeout: float = 5.0) -> None:
        """Wait until the mirrors that the directory names are connected to; TimeoutError if they are not.

        Nothing is waited for of topics that have no mirror, or of which no agent has said anything yet.
        """
        if self._managed is not None:
            async with asyncio.timeout(timeout):
                await self._managed.mirroring.ready()

    @property
    def ignored(self) -> Mapping[str, int]:
        """What was heard from the domain's agent and gateway and not believed, by reason."""
        ignored: Counter[str] = Counter()
        if self._silence is not None:
            ignored += self._silence.ignored
        if self._heard is not None:
            ignored += self._heard.ignored
        if self._managed is not None:
            ignored += self._managed.membership.ignored + self._managed.membership.directory.ignored
        return ignored

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
        check_subject(subject, wildcards=False)
        quality = Quality(deadline_ms=deadline_ms, paths=paths, resiliency=resiliency)
        return Publisher(subject, self.publish, await self._take(Role.PUBLISHER, subject, quality))

    async def subscribe(
        self,
        subject: str,
        *,
        queue: str = "",
        where: str | None = None,
        callback: Callback | None = None,
        deadline_ms: float | None = None,
        paths: int | None = None,
        resiliency: float | None = None,
        weight: float = 1.0,
        keywords: Iterable[str] | None = None,
        semantic: WordVectors | Path | str | None = None,
        utility: UtilityFunction | None = None,
        slow: str | None = None,
        max_pending: int | None = None,
        max_pending_bytes: int | None = None,
        on_gap: OnGap | None = None,
    ) -> Subscription:
        """Subscribe to a subject or pattern, alone or as a member of a queue group.

        With `where`, only to messages whose headers meet a condition (`severity >= 3 AND zone = 'north'`);
        what nobody in a domain wants is not sent there. SelectorError tells where it cannot be read.

        With a deadline, a number of paths or a resiliency all domains send here with more than the contract
        owes, within its `limits`, until the subscription ends. AskRefusedError names what is possible.
        NotAllowedError if the rules of the federation forbid it; if they come to do so, reading raises it.
        The deadline and the `weight` also tell an agent how urgent this subscription is among others.

        How useful messages are is said by `utility`, called in a thread of its own with some of them, or else
        by how far `keywords` of interest match theirs: when capacity is short, the useless are limited first.
        With `semantic`, the file of `mangrove pipeline semantics`, words that mean the same match too.

        At most `max_pending` messages, and `max_pending_bytes`, wait for the reader. What is left out beyond
        is decided by `slow` (see `Slow`), else by the contract, and told to `on_gap` before the next message.
        """
        check_subject(subject, wildcards=True)
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
            semantic=semantic,
            utility=utility,
            on_gap=on_gap,
        )
        # Second copies of mirrored topics come for everybody, so that nothing is gained by telling.
        told = where is not None and self._selects and not told_modes(self._terms).of(subject)
        selection = selection_of(where, queue, told=told)
        quality = Quality(deadline_ms=deadline_ms, paths=paths, resiliency=resiliency)
        end = await self._take(Role.SUBSCRIBER, subject, quality)
        try:
            return await self._subscribe(
                subject, queue, callback, end, deadline_ms, weight, reading, selection
            )
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
        selection: Selection | None,
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
            selection=selection,
        )
        subscription.spans = self._spans
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
            self._served.add(subscription)
        except (BrokerAwayError, TimeoutError) as error:
            await self._abandon(subscription)
            raise NotConnectedError(f"could not subscribe to {subject}: {error}") from None
        except BaseException:
            await self._abandon(subscription)
            raise
        return subscription

    def _denied(self, denial: Denial, subscribed: Subscribed | None) -> None:
        """A broker does not allow something: who asked for it is told."""
        self._denials.note(denial)
        if subscribed is not None:
            subscription = self._legs.served_by(subscribed)
            if subscription is not None and subscription in self._served:
                subscription.forbid(denial.error)

    async def _abandon(self, subscription: Subscription) -> None:
        subscription.finish()
        await self._leave(subscription)

    async def _leave(self, subscription: Subscription) -> None:
        """Serve a subscription no longer."""
        self._served.discard(subscription)
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
        check_subject(subject, wildcards=True)
        own = (each for each in self._legs if (each.subject, each.queue) == (subject, queue))
        await self._ready(subject, queue, timeout, next(own, None))

    async def refusals(self, subject: str) -> dict[str, str]:
        """The domains that may not have what is published on a subject, and why, by the access rules.

        What a client may not publish at all its broker refuses; this tells what stays behind at the gateway.
        """
        check_subject(subject, wildcards=False)
        if self._questions is None:
            raise _unknown_gateway("tells where messages may go")
        where = gateway_access_subject(self._questions.domain, self._questions.user)
        answer = await self._questions.ask(where, AccessRequest(subject=subject), AccessAnswer)
        if answer is None:
            raise TimeoutError(f"the gateway of {self._questions.domain} does not answer")
        if answer.problem:
            raise MangroveError(answer.problem)
        return answer.refused

    async def gateway_back(self, wire: ClientConnection) -> None:
        """See `Sender`."""
        if self._meeting is not None and not self._meeting.done():
            # Limits and deadlines are those of contracts, which it finds out about.
            await asyncio.wait([self._meeting], timeout=MEETING_S)
        elif self._link is not None:
            for _ in range(GATEWAY_TRIES):
                if await _answers(wire):
                    return
                await asyncio.sleep(GATEWAY_S / GATEWAY_TRIES)

    async def _ready(
        self, subject: str, queue: str, timeout: float, subscription: Subscription | None
    ) -> None:
        """Ask the gateway of the domain that serves the subscription, and another if it moves meanwhile."""
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout
        while not await self._ready_here(subject, queue, until - loop.time(), subscription):
            pass

    async def _ready_here(
        self, subject: str, queue: str, timeout: float, subscription: Subscription | None
    ) -> bool:
        """Over the connection that serves the subscription; False if another one does by now."""
        readiness = self._readiness
        leg = None if subscription is None else self._legs.of(subscription)
        domain = self._abroad(subscription)
        if self._managed is not None and domain:
            readiness = self._managed.readiness_in(domain)
        if readiness is None:
            raise _unknown_gateway("tells who is ready")
        wire = self._subscriber if leg is None else leg.wire
        group = queue if leg is None else leg.handle.queue

        async def ask(subject: str, timeout: float) -> None:
            await wire.request(subject, b"", timeout_s=timeout)

        def moved() -> bool:
            if subscription is None or leg is None:
                return False
            return self._legs.of(subscription) is not leg or self._abroad(subscription) != domain

        return await readiness.wait(subject, group, timeout, ask, moved)

    def _abroad(self, subscription: Subscription | None) -> str:
        """The other domain that serves a subscription; empty if its own does."""
        return "" if self._managed is None or subscription is None else self._managed.domain_of(subscription)

    async def close(self) -> None:
        """Send what is pending, then disconnect. What fails is raised when everything else is done."""
        async with contextlib.AsyncExitStack() as last_first:
            last_first.push_async_callback(self._pool.close)
            if self._meeting is not None:
                self._meeting.cancel()
                await asyncio.gather(self._meeting, return_exceptions=True)
            if self._link is not None:
                last_first.push_async_callback(self._link.close)
            last_first.callback(self._end_legs)
            for part in (self._managed, self._asks, self._heard, self._silence):
                if part is not None:
                    last_first.push_async_callback(part.close)
            last_first.push_async_callback(self._all_cut_off)
            last_first.callback(self._denials.close)
            last_first.callback(self._utility_thread.close)
            if self._spans is not None:
                last_first.push_async_callback(asyncio.to_thread, self._spans.close)
            if self._keeper is not None:
                last_first.push_async_callback(self._keeper.close)

    async def _all_cut_off(self) -> None:
        if self._cut_off:
            await asyncio.wait(self._cut_off)

    def _end_legs(self) -> None:
        for subscription in self._legs:
            subscription.finish()
            self._legs.end(subscription)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


async def _answers(wire: ClientConnection) -> bool:
    try:
        await wire.request(DIRECTIONS_SUBJECT, b"", timeout_s=1.0)
    except (BrokerAwayError, NoResponderError, NotAllowedError, TimeoutError):
        return False
    return True


async def _nothing() -> None:
    """Nothing was asked for."""


def _unknown_gateway(what: str) -> MangroveError:
    return MangroveError(
        f"this connection does not know its domain's management broker, which {what}",
        hint="connect to a broker of a domain whose gateway runs",
    )
