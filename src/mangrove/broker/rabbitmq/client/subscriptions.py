"""The subscriptions of a client at a RabbitMQ: a queue for each, or one for all members of a queue group.

A queue and its bindings are made on a channel of their own: a broker that refuses a binding closes it, and no
other subscription is disturbed. Messages come by the first channel.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable
from typing import Any

from pamqp import commands
from pamqp.common import FieldTable

from mangrove.broker.client_connection import ConnectionCounts, Denial, Form, Sink
from mangrove.broker.rabbitmq.address import GROUPS_EXCHANGE
from mangrove.broker.rabbitmq.client.answers import reply_subject
from mangrove.broker.rabbitmq.exchange.patterns import key_of, patterns_of
from mangrove.broker.rabbitmq.messages.properties import Described, read_properties
from mangrove.broker.rabbitmq.wire.connection import AmqpConnection, AmqpError
from mangrove.broker.rabbitmq.wire.frames import Delivery
from mangrove.host.keys.login import INBOX_PREFIX
from mangrove.model.subjects import matches

log = logging.getLogger(__name__)

NOT_FOUND, RESOURCE_LOCKED = 404, 405
REFUSED = frozenset({403, 405, 406, 540})
"""A consumer that is not allowed, of a queue that somebody has alone, or of one that is read otherwise."""
EXPIRES_MS = 120_000
"""A group's queue ends with its last member; when the broker restarted, members have so long to return."""
ODD_PROPERTIES = "a message has properties that cannot be read"
ODD_ANSWER = "an answer does not repeat its correlation id"
NO_SUBJECT = "a message was sent to the queue of a group, and on no subject of it"


class QueueSubscription:
    """One subscription; it outlives brokers."""

    def __init__(self, sid: int, subject: str, group: str, names: str, sink: Sink, form: Form, origin: Any):
        self.sid = sid
        self.subject = subject
        self.queue = group
        """The queue group."""
        self._queues = (f"{names}.{sid}.{count}" for count in itertools.count(1))
        self.place = group or f"{names}.{sid}"
        """The queue at the broker."""
        self.sink, self.form, self.origin = sink, form, origin
        self.denial: Denial | None = None
        self.tag = str(sid)
        self.key = key_of(subject)
        self.filters = patterns_of(self.key) != (subject,)
        """Whether more may come than was asked for."""

    def move(self) -> None:
        """Have another queue of its own."""
        self.place = next(self._queues)

    @property
    def bound(self) -> bool:
        """Whether messages come by what is published; answers come to the queue itself."""
        return not self.subject.startswith(f"{INBOX_PREFIX}.")


class Subscriptions:
    """All of one connection, told to a broker one after the other."""

    def __init__(
        self, channel: int, counts: ConnectionCounts, denied: Callable[[Denial, QueueSubscription], None]
    ):
        self._channel = channel
        self._counts = counts
        self._denied = denied
        self._all: dict[int, QueueSubscription] = {}
        self._by_tag: dict[bytes, QueueSubscription] = {}
        self._pending: dict[int, QueueSubscription] = {}
        """Those that the present broker has not been told of, the oldest first."""
        self._fatal: set[int] = set()
        """Those for whose consumers a broker ended a connection: the next ones do without them, until one of
        them serves all others. Were they asked for earlier, two of them would end connections for ever."""
        self._gone: list[str] = []
        self._work = asyncio.Event()
        self._settled = asyncio.Event()

    def add(self, subscription: QueueSubscription) -> None:
        """Serve it from now on."""
        self._all[subscription.sid] = self._pending[subscription.sid] = subscription
        self._by_tag[subscription.tag.encode()] = subscription
        self._work.set()

    def remove(self, subscription: QueueSubscription) -> None:
        """Serve it no longer."""
        if self._all.pop(subscription.sid, None) is not None:
            self._fatal.discard(subscription.sid)
            del self._by_tag[subscription.tag.encode()]
            if subscription.sid in self._pending:
                del self._pending[subscription.sid]
                self._settled.set()
            elif subscription.denial is None:
                self._gone.append(subscription.tag)
                self._work.set()

    def clear(self) -> None:
        """Serve nobody any more."""
        self._all.clear()
        self._pending.clear()
        self._by_tag.clear()
        self._fatal.clear()

    def answering(self, reply: str) -> QueueSubscription | None:
        """Whose queue answers on a subject come to."""
        return next(
            (each for each in self._all.values() if not each.queue and matches(each.subject, reply)), None
        )

    # -- telling the broker -------------------------------------------------------------------------------

    def attach(self) -> None:
        """A broker is there, which knows of nobody."""
        self._gone.clear()
        self._pending = {sid: each for sid, each in self._all.items() if sid not in self._fatal}
        for subscription in self._pending.values():
            subscription.denial = None
        self._work.set()

    async def serve(self, connection: AmqpConnection) -> None:
        """Tell a broker what is new, until the connection ends.

        Who was refused is asked for again by the connection after one that served all others: somebody may
        have left the queue by then.
        """
        try:
            while True:
                self._work.clear()
                while self._gone:
                    connection.tell(commands.Basic.Cancel(self._gone.pop(), nowait=True))
                while self._pending:
                    await self._settle(connection, next(iter(self._pending.values())))
                self._fatal.clear()
                await self._work.wait()
        except AmqpError as error:
            connection.abort(error.message, error.code)

    async def settled(self, up_to: int) -> None:
        """Wait until all subscriptions of before are served, or not allowed."""
        while next(iter(self._pending), up_to + 1) <= up_to:
            self._settled.clear()
            await self._settled.wait()

    async def _settle(self, connection: AmqpConnection, subscription: QueueSubscription) -> None:
        try:
            await self._have_queue(connection, subscription)
            if subscription.bound:
                exchange = GROUPS_EXCHANGE if subscription.queue else connection.exchange
                bind = commands.Queue.Bind(
                    queue=subscription.place, exchange=exchange, routing_key=subscription.key
                )
                await connection.call(bind, self._channel)
        except AmqpError as error:
            if connection.closed.is_set():
                raise
            await self._open(connection)
            self._refused(subscription, error)
        else:
            consume = commands.Basic.Consume(
                queue=subscription.place, consumer_tag=subscription.tag, no_ack=True
            )
            try:
                await connection.call(consume)
            except AmqpError as error:
                if error.code in REFUSED:
                    self._fatal.add(subscription.sid)
                    self._refused(subscription, error)
                raise
            if subscription.sid not in self._all:  # it has ended meanwhile
                self._gone.append(subscription.tag)
                self._work.set()
        self._pending.pop(subscription.sid, None)
        self._settled.set()

    async def _have_queue(self, connection: AmqpConnection, subscription: QueueSubscription) -> None:
        """A queue of its own, or that of the group: one that is there may be of any sort."""
        place = subscription.place
        if not subscription.queue:
            try:
                await self._own_queue(connection, place)
            except AmqpError as error:
                if error.code != RESOURCE_LOCKED or connection.closed.is_set():
                    raise
                # The broker has not noticed yet that our last connection, to which that one belongs, is gone.
                await self._open(connection)
                subscription.move()
                await self._own_queue(connection, subscription.place)
            return
        try:
            await connection.call(commands.Queue.Declare(queue=place, passive=True), self._channel)
        except AmqpError as error:
            if error.code != NOT_FOUND or connection.closed.is_set():
                raise
            await self._open(connection)
            arguments: FieldTable = {"x-expires": EXPIRES_MS}
            shared = commands.Queue.Declare(queue=place, durable=True, auto_delete=True, arguments=arguments)
            await connection.call(shared, self._channel)

    async def _own_queue(self, connection: AmqpConnection, place: str) -> None:
        declare = commands.Queue.Declare(queue=place, exclusive=True, auto_delete=True)
        await connection.call(declare, self._channel)

    async def _open(self, connection: AmqpConnection) -> None:
        await connection.call(commands.Channel.Open(), self._channel)

    def _refused(self, subscription: QueueSubscription, error: AmqpError) -> None:
        self._counts.errors[error.message[:60]] += 1
        log.warning("the broker does not serve %s: %s", subscription.subject, error.message)
        denial = Denial(publishing=False, subject=subscription.subject, queue=subscription.queue)
        subscription.denial = denial
        self._denied(denial, subscription)

    # -- messages -----------------------------------------------------------------------------------------

    def delivered(self, deliveries: list[Delivery]) -> None:
        """Hand over what one buffer held."""
        for_each: dict[QueueSubscription, list[Any]] = {}
        sizes: dict[QueueSubscription, int] = {}
        for delivery in deliveries:
            subscription = self._by_tag.get(delivery.consumer)
            described = None if subscription is None else self._describe(delivery.properties)
            if subscription is None or described is None:
                continue
            subject = delivery.key.decode(errors="replace")
            reply = ""
            if subject == subscription.place and not subscription.queue:
                subject = described.correlation_id
                if not matches(subscription.subject, subject):
                    self._counts.errors[ODD_ANSWER] += 1
                    continue
            elif subject == subscription.place and not matches(subscription.subject, subject):
                self._counts.errors[NO_SUBJECT] += 1  # the queue of a group may also have a subject's name
                continue
            elif subscription.filters and not matches(subscription.subject, subject):
                continue
            if described.reply_to:
                reply = reply_subject(described.reply_to, described.correlation_id)
            message = subscription.form(subject, delivery.body, described.head, reply, subscription.origin)
            for_each.setdefault(subscription, []).append(message)
            size_bytes = len(delivery.body) + len(described.head) + len(subject)
            sizes[subscription] = sizes.get(subscription, 0) + size_bytes
        for subscription, messages in for_each.items():
            self._counts.received_messages += len(messages)
            subscription.sink(messages, sizes[subscription])

    def _describe(self, properties: bytes) -> Described | None:
        try:
            return read_properties(properties)
        except ValueError:
            self._counts.errors[ODD_PROPERTIES] += 1
            return None
