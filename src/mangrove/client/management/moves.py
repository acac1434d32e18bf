"""Carries out orders to move subscriptions: one at a time for each, the latest last."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial

import msgspec

from mangrove.broker.client_connection import ClientConnection
from mangrove.client.broker_pool import BrokerPool, round_trip_ms, same_broker
from mangrove.client.gateway_questions import ANSWER_S, Answer, GatewayQuestions
from mangrove.client.legs import Legs
from mangrove.client.management.link import ManagementLink
from mangrove.client.migration.hand_over import Stage
from mangrove.client.migration.subscription_move import SubscriptionMove
from mangrove.client.readiness import Readiness
from mangrove.client.subscription import Subscription
from mangrove.errors import MangroveError
from mangrove.host.keys.login import LoginSource, at_home_in
from mangrove.model.agents.registration import Migrated, Order
from mangrove.model.shared_names import SDK_NAME

log = logging.getLogger(__name__)

READY_S = 10.0
MAX_AT_A_TIME = 8
"""Moves of one connection: each sends markers, and an overloaded broker is not to be loaded more."""
OVERTAKEN = "a later order came"


class FartherAwayError(MangroveError):
    """A client is not where its agent thought it might be: it stays, which is no failure."""


Moved = Callable[[Subscription, Callable[[str, int], Migrated], str], None]


class SubscriptionMoves:
    """All moves of one connection's subscriptions."""

    def __init__(
        self,
        home: ManagementLink,
        legs: Legs,
        pool: BrokerPool,
        head: ClientConnection,
        name_of: Callable[[ClientConnection], str],
        moved: Moved,
    ) -> None:
        """`moved` is called at the end of each order, with what is to be told to the agent."""
        self._home = home
        self._legs = legs
        self._pool = pool
        self._head = head
        self._name_of = name_of
        self._moved = moved
        self._running: dict[Subscription, asyncio.Task[None]] = {}
        self._present: dict[Subscription, SubscriptionMove] = {}
        self._orders: dict[Subscription, tuple[Order, str]] = {}
        self._carried_out: dict[Subscription, Order] = {}
        """Orders under way."""
        self._few = asyncio.Semaphore(MAX_AT_A_TIME)
        self._foreign: dict[str, ForeignQuestions] = {}
        self._abroad: dict[Subscription, Order] = {}
        """Subscriptions that other domains serve, and the orders that brought them there."""

    def order(self, subscription: Subscription, order: Order, url: str) -> None:
        """Move a subscription; what is under way comes to its end first. Said again, it changes nothing."""
        if self._carried_out.get(subscription) == order:
            return
        overtaken = self._orders.get(subscription)
        if overtaken is not None and overtaken[0].session != order.session:
            told = partial(migrated, overtaken[0], self._broker_of(subscription), OVERTAKEN, 0.0, 0)
            self._moved(subscription, told, OVERTAKEN)
        self._orders[subscription] = order, url
        if subscription not in self._running:
            task = asyncio.get_running_loop().create_task(self._run(subscription), name="move")
            self._running[subscription] = task

    def targets(self) -> list[ClientConnection]:
        """Connections that moves lead to or come from."""
        return [move.target for move in self._present.values()]

    def lost(self, wire: ClientConnection) -> None:
        """A connection has lost its broker."""
        for move in list(self._present.values()):
            move.lost(wire)

    def back(self, wire: ClientConnection) -> None:
        """A connection has a broker again; if that is one at home, so are its subscriptions."""
        for subscription in self._legs.at(wire):
            order = self._abroad.get(subscription)
            if order is not None and not same_broker(order.to.url, wire.url):
                del self._abroad[subscription]

    def domain_of(self, subscription: Subscription) -> str:
        """The other domain that serves a subscription; empty if its own does."""
        order = self._abroad.get(subscription)
        move, leg = self._present.get(subscription), self._legs.of(subscription)
        if move is not None and leg is not None and leg.wire is move.target:
            # It has arrived, and OLD is still being left.
            arrived = self._carried_out[subscription]
            order = None if arrived.domain in ("", self._home.domain) else arrived
        return "" if order is None else order.domain

    def readiness_in(self, domain: str) -> Readiness:
        """Who tells whether a subscription is in force that this other domain serves."""
        return Readiness(self._foreign[domain])

    async def end(self, subscription: Subscription) -> None:
        """A subscription ends."""
        self._orders.pop(subscription, None)
        self._abroad.pop(subscription, None)
        task = self._running.get(subscription)
        if task is not None and task is not asyncio.current_task():
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def close(self) -> None:
        """End all moves where they are."""
        for subscription in list(self._running):
            await self.end(subscription)
        for questions in self._foreign.values():
            await questions.close()

    async def _run(self, subscription: Subscription) -> None:
        try:
            while (waiting := self._orders.pop(subscription, None)) is not None:
                self._carried_out[subscription] = waiting[0]
                async with self._few:
                    await self._carry_out(subscription, *waiting)
        finally:
            self._carried_out.pop(subscription, None)
            self._running.pop(subscription, None)

    async def _carry_out(self, subscription: Subscription, order: Order, url: str) -> None:
        problem, held_ms, repeated = "", 0.0, 0
        try:
            leg = self._legs.of(subscription)
            if leg is None:
                return
            if not (leg.wire.connected and same_broker(leg.wire.url, url)):
                target = await self._pool.at(url)
                if order.slack_ms is not None:
                    await _near_enough(leg.wire, target, order.slack_ms)
                away = order.domain not in ("", self._home.domain)
                crossing = away or subscription in self._abroad
                # Whether another domain understands selectors is not known.
                group = "" if away else subscription.new_group()
                in_force = self._in_force(subscription, group, order, target) if crossing else None
                move = SubscriptionMove(
                    subscription, self._legs, self._head, target, in_force=in_force, group=group
                )
                self._present[subscription] = move
                try:
                    await move.run()
                finally:
                    del self._present[subscription]
                hand_over = move.hand_over
                problem = hand_over.problem if hand_over.stage is Stage.STAYED else ""
                held_ms, repeated = hand_over.held_ms, hand_over.repeated
                if not problem and away:
                    self._abroad[subscription] = order
                elif not problem:
                    self._abroad.pop(subscription, None)
        except (TimeoutError, MangroveError) as error:
            problem = str(error)
        if problem:
            log.info("%s stays where it is: %s", subscription.subject, problem)
        broker = self._broker_of(subscription)
        told = partial(migrated, order, broker if problem else order.to.broker, problem, held_ms, repeated)
        self._moved(subscription, told, problem)

    def _broker_of(self, subscription: Subscription) -> str:
        leg = self._legs.of(subscription)
        return "" if leg is None else self._name_of(leg.wire)

    def _in_force(
        self, subscription: Subscription, group: str, order: Order, target: ClientConnection
    ) -> Callable[[], Awaitable[float]]:
        """Waits until the gateway of the target's domain says that everybody sends there."""
        before = self._abroad.get(subscription)
        pause_s = order.pause_s if before is None else max(order.pause_s, before.pause_s)
        at_home = order.domain in ("", self._home.domain)
        readiness = Readiness(GatewayQuestions(self._home) if at_home else self._questions(order))

        async def ask(subject: str, timeout: float) -> None:
            await target.request(subject, b"", timeout_s=timeout)

        async def wait() -> float:
            await readiness.wait(subscription.subject, group, READY_S, ask)
            return pause_s

        return wait

    def _questions(self, order: Order) -> ForeignQuestions:
        questions = self._foreign.get(order.domain)
        if questions is None:
            login = self._home.login
            guest = None if login is None else at_home_in(login, self._home.domain)
            questions = ForeignQuestions(order.domain, order.management_url, guest)
            self._foreign[order.domain] = questions
        questions.lead_to(order.management_url)
        return questions


class ForeignQuestions(GatewayQuestions):
    """Asks the gateway of another domain, on the management broker that the latest order named."""

    def __init__(self, domain: str, url: str, login: LoginSource | None) -> None:
        self._url = url
        self._login = login
        self._asking: Counter[ManagementLink] = Counter()
        self._closing: set[asyncio.Task[None]] = set()
        super().__init__(self._new_link(domain))

    def _new_link(self, domain: str) -> ManagementLink:
        return ManagementLink(domain, [self._url], SDK_NAME, self._login)

    def lead_to(self, url: str) -> None:
        """Ask there from now on; what is being asked elsewhere may still be answered."""
        if url != self._url:
            self._url = url
            before, self._link = self._link, self._new_link(self.domain)
            self._let_go(before)

    async def ask(
        self, subject: str, question: msgspec.Struct, answer: type[Answer], timeout_s: float = ANSWER_S
    ) -> Answer | None:
        """See `GatewayQuestions`."""
        link = self._link
        self._asking[link] += 1
        try:
            return await super().ask(subject, question, answer, timeout_s)
        finally:
            self._asking[link] -= 1
            if link is not self._link:
                self._let_go(link)

    def _let_go(self, link: ManagementLink) -> None:
        """Close a link, unless somebody still waits for an answer: a link that is asked connects anew."""
        if not self._asking[link]:
            del self._asking[link]
            task = asyncio.get_running_loop().create_task(link.close(), name="let go of a management broker")
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Ask nobody any more."""
        await asyncio.gather(self._link.close(), *self._closing)


async def _near_enough(present: ClientConnection, target: ClientConnection, slack_ms: float) -> None:
    """FartherAwayError if the way to the target is longer than to the present broker by more than this."""
    here_ms, there_ms = await round_trip_ms(present), await round_trip_ms(target)
    if there_ms > here_ms + slack_ms:
        raise FartherAwayError(
            f"a round trip takes {there_ms:.3g} ms there and {here_ms:.3g} ms here, "
            f"more than {slack_ms:.3g} ms longer"
        )


def migrated(
    order: Order, broker: str, problem: str, held_ms: float, repeated: int, client: str, sequence: int
) -> Migrated:
    """What is told of an order, once it is known who tells it and in which place."""
    return Migrated(
        client=client,
        sequence=sequence,
        session=order.session,
        key=order.key,
        broker=broker,
        problem=problem,
        held_ms=held_ms,
        repeated=repeated,
    )
