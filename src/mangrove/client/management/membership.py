"""Registers a client with its domain's agent, keeps its lease and hears what it is told.

Nothing waits for an agent: without one the client is served as if there were none, and asks again later.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import random
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Protocol

import msgspec

from mangrove.broker.client_connection import BrokerAwayError, NoResponderError
from mangrove.client.management.directory_view import DirectoryView
from mangrove.client.management.identity import Identity
from mangrove.client.management.link import ManagementLink
from mangrove.client.management.reporting import Carrier, Reporting
from mangrove.model.agents.directory import DirectoryChanges, DirectoryRecord
from mangrove.model.agents.names import (
    announcement_subject,
    client_subject,
    directory_changes_subject,
    register_subject,
)
from mangrove.model.agents.registration import (
    MAX_WISHES,
    AgentStarted,
    Assignment,
    BrokerSuspected,
    ClientOrder,
    ClientRole,
    Leave,
    Migrated,
    Order,
    RegisterAgain,
    Registered,
    Registration,
    Wish,
)
from mangrove.model.agents.usefulness import LimitsOrdered
from mangrove.model.patterns.cover import has_wildcard
from mangrove.model.subjects import matches
from mangrove.model.unreadable import UNREADABLE

log = logging.getLogger(__name__)

ANSWER_S = 2.0
PLACE_S = 0.5
"""A new subscription waits so long for its place."""
WISHES_A_MESSAGE = 2_000
RETRY_S = 2.0
MAX_RETRY_S = 30.0
MAX_SPREAD_S = 60.0
AGAIN_S = 1.0
"""A client registers from scratch at most so often, whoever asks for it."""

_order: msgspec.json.Decoder[ClientOrder] = msgspec.json.Decoder(ClientOrder)
_changes = msgspec.json.Decoder(DirectoryChanges)
_started = msgspec.json.Decoder(AgentStarted)


class Member(Carrier, Protocol):
    """The client that is registered."""

    def broker_of(self, key: str) -> str:
        """The name of the broker that serves a wish at the moment; empty if there is none."""

    @property
    def origin(self) -> str:
        """How the ids of its messages begin."""

    def ordered(self, order: Order) -> None:
        """The agent wants a wish moved."""

    def limited(self, order: LimitsOrdered) -> str:
        """The agent sets limits; why they are not obeyed, or an empty string."""

    def directory_changed(self, records: list[DirectoryRecord]) -> None:
        """The directory says something new."""

    def rtt_ms(self) -> dict[str, float]:
        """Measured round trips to the domain's brokers, by name, where they matter."""


class Membership:
    """One client's registration with the agent of one domain."""

    def __init__(self, link: ManagementLink, identity: Identity, name: str, member: Member) -> None:
        self._link = link
        self._domain = link.domain
        self._identity = identity
        self._name = name
        self._member = member
        self._reporting = Reporting(link, identity, member)
        self.directory = DirectoryView(link.domain, self._concerns)
        self.term = 0
        """Of the agent that this client is registered with; 0 if it is not."""
        self.ignored: Counter[str] = Counter()
        """What was heard and not believed, by reason."""
        self.refused: dict[str, str] = {}
        """Why wishes are not managed, by key."""
        self._wishes: dict[str, Wish] = {}
        self._subjects: Counter[str] = Counter()
        """How many wishes there are of each."""
        self._published: set[str] = set()
        """Of them, those that are published on."""
        self._unsaid: dict[str, None] = {}
        self._ended: dict[str, None] = {}
        self._complete = True
        """Whether everything is to be said from scratch."""
        self._asking: dict[str, asyncio.Future[Assignment | None]] = {}
        self._due = asyncio.Event()
        self._not_before = 0.0
        self._retry_s = RETRY_S
        self._last_complete = -math.inf
        self._tasks: list[asyncio.Task[None]] = []

    def open(self) -> None:
        """Begin, in the background."""
        loop = asyncio.get_running_loop()
        self._link.listen(client_subject(self._domain, self._identity.client, self._link.user), self._told)
        self._link.listen(directory_changes_subject(self._domain), self._pushed)
        self._link.listen(announcement_subject(self._domain), self._announced)
        self._link.open(self.again)
        self._tasks = [
            loop.create_task(self._register(), name="register"),
            loop.create_task(self._reporting.run(), name="report"),
        ]

    async def close(self) -> None:
        """Leave."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._tasks.clear()
        for future in self._asking.values():
            if not future.done():
                future.set_result(None)
        self._reporting.say(Leave(client=self._identity.client, sequence=self._identity.next_sequence()))

    # -- wishes -------------------------------------------------------------------------------------------

    def add(self, wish: Wish) -> bool:
        """Have a wish managed, soon; whether there is room for it."""
        if len(self._wishes) >= MAX_WISHES:
            self.refused[wish.key] = "too many wishes"
            return False
        self._wishes[wish.key] = wish
        self._subjects[wish.subject] += 1
        if wish.role is ClientRole.PUBLISHER:
            self._published.add(wish.subject)
        self._unsaid[wish.key] = None
        self._due.set()
        return True

    async def place(self, wish: Wish) -> Assignment | None:
        """Have a wish managed; where it is to be served, if an agent says so soon enough."""
        if (
            not self.add(wish)
            or not self._link.connected
            or asyncio.get_running_loop().time() < self._not_before
        ):
            return None
        future: asyncio.Future[Assignment | None] = asyncio.get_running_loop().create_future()
        self._asking[wish.key] = future
        try:
            async with asyncio.timeout(PLACE_S):
                return await future
        except TimeoutError:
            return None
        finally:
            self._asking.pop(wish.key, None)

    def end(self, key: str) -> None:
        """Give a wish up."""
        wish = self._wishes.pop(key, None)
        if wish is not None:
            self._subjects[wish.subject] -= 1
            if not self._subjects[wish.subject]:
                del self._subjects[wish.subject]
                self._published.discard(wish.subject)
            self._unsaid.pop(key, None)
            self._ended[key] = None
            self._due.set()
        self.refused.pop(key, None)

    def say_again(self, keys: Iterable[str]) -> None:
        """These wishes are served elsewhere now."""
        for key in keys:
            if key in self._wishes:
                self._unsaid[key] = None
        self._due.set()

    def again(self) -> None:
        """Say everything from scratch."""
        self._complete = True
        self._not_before = 0.0
        self._due.set()

    def migrated(self, told: Callable[[str, int], Migrated]) -> None:
        """Tell what became of an order; `told` is given this client's id and the next number."""
        self._reporting.say(told(self._identity.client, self._identity.next_sequence()))

    def suspect(self, broker: str, evidence: str) -> None:
        """Tell that a broker is taken for dead."""
        identity = self._identity
        self._reporting.say(
            BrokerSuspected(
                client=identity.client, sequence=identity.next_sequence(), broker=broker, evidence=evidence
            )
        )

    # -- registering --------------------------------------------------------------------------------------

    async def _register(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._due.wait()
            self._due.clear()
            while (wait := self._not_before - loop.time()) > 0:
                with contextlib.suppress(TimeoutError):  # it may become due sooner meanwhile
                    async with asyncio.timeout(wait):
                        await self._due.wait()
                        self._due.clear()
            if not (self._complete or self._unsaid or self._ended):
                continue
            if self._complete and not self._wishes:
                continue  # nothing to manage yet
            if self._complete and (wait := self._last_complete + AGAIN_S - loop.time()) > 0:
                await asyncio.sleep(wait)
            if await self._ask():
                self._retry_s = RETRY_S
                if self._unsaid or self._ended or self._complete:
                    self._due.set()
            else:
                self._later(self._retry_s * random.uniform(0.5, 1.0))
                self._retry_s = min(self._retry_s * 2, MAX_RETRY_S)

    def _later(self, delay_s: float) -> None:
        self._not_before = asyncio.get_running_loop().time() + delay_s
        for future in self._asking.values():
            if not future.done():
                future.set_result(None)
        self._due.set()

    async def _ask(self) -> bool:
        """Say what is unsaid, as far as it fits; whether it was taken in."""
        complete = self._complete
        keys = list(self._wishes if complete else self._unsaid)[:WISHES_A_MESSAGE]
        ended = [] if complete else list(self._ended)[:WISHES_A_MESSAGE]
        wishes = tuple(
            msgspec.structs.replace(self._wishes[key], broker=self._member.broker_of(key)) for key in keys
        )
        identity = self._identity
        registration = Registration(
            client=identity.client,
            sequence=identity.next_sequence(),
            public_key=identity.public_key,
            exchange_key=identity.exchange_key,
            domain=self._domain,
            name=self._name,
            origin=self._member.origin,
            complete=complete,
            wishes=wishes,
            ended=tuple(ended),
            rtt_ms=self._member.rtt_ms(),
        )
        if complete:
            self._complete = False
            self._last_complete = asyncio.get_running_loop().time()
            self._ended.clear()  # what ends from here on is news to whoever hears this
        try:
            signed = identity.signed(registration)
            where = register_subject(self._domain, self._link.user)
            answer = await self._link.ask(where, signed, Registered, ANSWER_S)
            if answer.problem:
                raise ValueError(answer.problem)
            self._reporting.key = identity.lease_key(answer.exchange_key, self._domain)
        except (BrokerAwayError, NoResponderError, TimeoutError, ValueError, *UNREADABLE) as error:
            log.debug("not registered: %s", error)
            self._complete = self._complete or complete
            return False
        if complete:
            self._unsaid.update(dict.fromkeys(list(self._wishes)[WISHES_A_MESSAGE:]))
        self._taken_in(answer, wishes, ended)
        return True

    def _taken_in(self, answer: Registered, wishes: tuple[Wish, ...], ended: list[str]) -> None:
        if answer.term > self.term:
            self.term = answer.term
        for wish in wishes:
            key = wish.key
            self._unsaid.pop(key, None)
            if key in answer.refused:
                self.refused[key] = answer.refused[key]
            assignment = answer.assignments.get(key)
            future = self._asking.get(key)
            if future is not None and not future.done():
                future.set_result(assignment)
            elif not wish.broker and self._member.broker_of(key):
                self._unsaid[key] = None  # the answer came too late: it is served elsewhere
        for key in ended:
            self._ended.pop(key, None)
        self._take_records(answer.records, asked=True)

    # -- hearing ------------------------------------------------------------------------------------------

    def _told(self, data: bytes) -> None:
        try:
            order = _order.decode(data)
        except UNREADABLE:
            self.ignored["unreadable"] += 1
            return
        if isinstance(order, RegisterAgain):
            if order.term >= self.term:
                self.again()
            else:
                self.ignored["older term"] += 1
        elif order.term != self.term or not self.term:
            self.ignored["other term"] += 1
        elif isinstance(order, LimitsOrdered):
            problem = self._member.limited(order)
            if problem:
                self.ignored[problem] += 1
        elif not math.isfinite(order.pause_s) or not 0 <= order.pause_s <= MAX_SPREAD_S:
            self.ignored["impossible figures"] += 1
        else:
            self._member.ordered(order)

    def _pushed(self, data: bytes) -> None:
        try:
            changes = _changes.decode(data)
        except UNREADABLE:
            self.ignored["unreadable"] += 1
            return
        if changes.term < self.term:
            self.ignored["older term"] += 1
            return
        self._take_records(changes.records)

    def _take_records(self, records: Iterable[DirectoryRecord], *, asked: bool = False) -> None:
        taken = self.directory.take(records, asked=asked)
        if taken:
            self._member.directory_changed(taken)

    def _concerns(self, topic: str) -> bool:
        """Whether a record of the directory says something of a subject or pattern of this client."""
        return topic in self._subjects or (
            has_wildcard(topic) and any(matches(topic, subject) for subject in self._published)
        )

    def _announced(self, data: bytes) -> None:
        try:
            started = _started.decode(data)
        except UNREADABLE:
            self.ignored["unreadable"] += 1
            return
        if started.term <= self.term or not math.isfinite(started.spread_s):
            self.ignored["older term"] += 1
            return
        self._complete = True
        self._later(random.uniform(0, min(max(started.spread_s, 0.0), MAX_SPREAD_S)))
