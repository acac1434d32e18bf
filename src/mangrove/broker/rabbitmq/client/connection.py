"""A client's connection to a RabbitMQ; it comes back by itself, for ever."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Container, Iterable, Sequence
from typing import Any

from pamqp import commands

from mangrove.broker.client_connection import (
    BrokerAwayError,
    ClientConnectionOwner,
    ConnectionCounts,
    Denial,
    Form,
    LoginRefusedError,
    NotCarriedError,
    OnDenied,
    RawMessage,
    Sink,
    Subscribed,
)
from mangrove.broker.rabbitmq.address import RabbitAddress, parse_address
from mangrove.broker.rabbitmq.client.answers import way_of
from mangrove.broker.rabbitmq.client.said import ACCESS_REFUSED, SaidMessages
from mangrove.broker.rabbitmq.client.subscriptions import QueueSubscription, Subscriptions
from mangrove.broker.rabbitmq.exchange.patterns import MAX_KEY_BYTES
from mangrove.broker.rabbitmq.logging_in import logged_in
from mangrove.broker.rabbitmq.messages.properties import PropertyWriter
from mangrove.broker.rabbitmq.wire import frames
from mangrove.broker.rabbitmq.wire.connection import FRAME_MAX, HEARTBEAT_S, AmqpConnection, AmqpError
from mangrove.broker.requests import Requests
from mangrove.errors import InputError, MangroveError
from mangrove.host.keys.login import INBOX_PREFIX, LoginSource

log = logging.getLogger(__name__)

BINDING, PUBLISHING = 2, 3
"""Channels for what a broker may refuse."""
RECONNECT_S = 0.25
CLOSE_S = 2.0
MIN_REFUSALS = 2
"""A login that is refused so often is not tried again: the broker may be reading new keys."""
MAX_DENIALS = 1_000
NO_PASSWORD = "`mangrove keys rotate` gives a client that was issued long ago a password for a RabbitMQ"


class RabbitClientConnection:
    """See `mangrove.broker.client_connection.ClientConnection`."""

    def __init__(
        self,
        urls: Sequence[str],
        name: str,
        owner: ClientConnectionOwner | None = None,
        *,
        login: LoginSource | None = None,
        marker_prefix: str = "",
    ) -> None:
        """A RabbitMQ is alone in its domain, so nothing is ever moved, and `marker_prefix` not needed."""
        try:
            self._addresses = [parse_address(url) for url in urls]
        except ValueError as error:
            raise InputError(f"cannot connect to {', '.join(urls)}: {error}") from None
        self._name = name
        self._owner = owner
        self._login = login
        self._next = 0
        self._url = ""
        self._connection: AmqpConnection | None = None
        self._closed = False
        self._there = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._leaving: set[asyncio.Task[None]] = set()
        self._counts = ConnectionCounts()
        self._received_before = 0
        self._told_denials: OnDenied | None = None
        self._said = SaidMessages(PUBLISHING, self._counts)
        self._subscriptions = Subscriptions(BINDING, self._counts, self._subscription_denied)
        self._queues = f"sdk.{secrets.token_hex(8)}"
        self._next_sid = 1
        self._writer = PropertyWriter("")
        self._frame_max = FRAME_MAX
        """Of the broker that is, or was last, connected."""
        self._requests = Requests(self, INBOX_PREFIX if login is None else login().inbox)

    # -- what it is ---------------------------------------------------------------------------------------

    @property
    def connected(self) -> bool:
        """Whether a broker is there."""
        return self._there.is_set() and not self._closed

    @property
    def closed(self) -> bool:
        """Whether it was ended for good."""
        return self._closed

    @property
    def url(self) -> str:
        """The broker that is, or was last, connected."""
        return self._url

    @property
    def max_payload(self) -> int:
        """The largest message that the broker takes; it tells only of one that was larger."""
        return self._said.max_payload

    @property
    def client_id(self) -> int:
        """A RabbitMQ does not say."""
        return 0

    @property
    def server_id(self) -> str:
        """What the broker calls itself."""
        return "" if self._connection is None else self._connection.server

    @property
    def full(self) -> bool:
        """Whether publishers should wait for `drained`."""
        return self._said.full

    @property
    def counts(self) -> ConnectionCounts:
        """What happened so far."""
        present = 0 if self._connection is None else self._connection.received_bytes
        self._counts.received_bytes = self._received_before + present
        return self._counts

    # -- life ---------------------------------------------------------------------------------------------

    async def connect(self, timeout_s: float) -> None:
        """Connect to the first broker that takes us; all are tried again until the time is over."""
        failed = BrokerAwayError("no answer")
        refusals = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not self.connected:
                    failed = await self._try_next() or failed
                    refusals = refusals + 1 if isinstance(failed, LoginRefusedError) else 0
                    if self.connected or refusals >= max(len(self._addresses), MIN_REFUSALS):
                        break
                    await asyncio.sleep(RECONNECT_S)
        if not self.connected:
            tried = ", ".join(map(_url, self._addresses))
            raise type(failed)(f"cannot connect to {tried}: {failed.message}", hint=failed.hint) from None
        self._begin()

    def begin(self) -> None:
        """Look for a broker from now on."""
        self._begin()

    def _begin(self) -> None:
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._run(), name="stay at a RabbitMQ")

    def go_on_at(self, urls: Iterable[str]) -> None:
        """Try these, too, when the broker is lost."""
        for address in map(parse_address, urls):
            if all((address.host, address.port) != (each.host, each.port) for each in self._addresses):
                self._addresses.append(address)

    async def close(self) -> None:
        """Send what waits, disconnect, and end everything."""
        if self._closed:
            return
        if self.connected:
            try:
                await self.flush(CLOSE_S)
            except (TimeoutError, BrokerAwayError) as error:
                log.warning("messages may be unsent: %s", str(error) or "the broker does not answer")
        self._closed = True
        if self._running is not None:
            self._running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._running
        self._said.close()
        self._requests.close()
        self._subscriptions.clear()
        self._there.set()
        if self._connection is not None:
            await self._connection.close()

    async def _try_next(self) -> BrokerAwayError | None:
        """One attempt at the next broker; why it failed, if it did."""
        address = self._addresses[self._next % len(self._addresses)]
        self._next += 1
        connection: AmqpConnection | None = None
        try:
            login = None if self._login is None else self._login()
            shown = address if login is None else logged_in(address, login)
            connection = AmqpConnection(shown, self._name)
            connection.on_deliveries = self._subscriptions.delivered
            connection.on_channel_closed = self._channel_closed
            await connection.open(None if login is None else login.tls)
            await connection.call(commands.Channel.Open(), BINDING)
            self._subscriptions.attach()
            await self._open_publishing(connection)
        except MangroveError as error:
            if connection is not None:
                await connection.close()
            log.debug("%s: %s", address.place, error.message)
            if getattr(error, "code", 0) == ACCESS_REFUSED:
                return LoginRefusedError(f"{address.place}: {error.message}", hint=NO_PASSWORD)
            return BrokerAwayError(error.message, hint=error.hint)
        except BaseException:
            if connection is not None:
                connection.abort("given up")
            raise
        self._connection = connection
        self._url = _url(address)
        self._counts.connects += 1
        self._there.set()
        return None

    async def _open_publishing(self, connection: AmqpConnection) -> None:
        await connection.call(commands.Channel.Open(), PUBLISHING)
        await connection.call(commands.Confirm.Select(), PUBLISHING)
        self._said.attach(connection)

    async def _run(self) -> None:
        """Serve the present broker, and look for the next one when it is lost."""
        returning = not self.connected
        while not self._closed:
            while not self.connected:
                failed = await self._try_next()
                if failed is not None:
                    await asyncio.sleep(RECONNECT_S)
            connection = self._connection
            assert connection is not None, "it is connected"
            if returning:
                log.info("connected to %s", self.url)
                if self._owner is not None:
                    self._owner.back(self.url)
            await self._serve(connection)
            self._lost(connection)
            returning = True

    async def _serve(self, connection: AmqpConnection) -> None:
        telling = asyncio.get_running_loop().create_task(self._subscriptions.serve(connection))
        try:
            while not connection.closed.is_set():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(HEARTBEAT_S / 2):
                        await connection.closed.wait()
                connection.beat()
        finally:
            telling.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await telling

    def _lost(self, connection: AmqpConnection) -> None:
        reason = str(connection.error or "the broker closed the connection")
        self._received_before += connection.received_bytes
        self._connection = None
        self._there.clear()
        self._said.detach()
        self._counts.lost[reason[:60]] += 1
        log.info("lost %s: %s", self.url, reason)
        if self._owner is not None:
            self._owner.lost(self.url, reason)

    # -- what is not allowed ------------------------------------------------------------------------------

    def _channel_closed(self, channel: int, why: AmqpError) -> None:
        connection = self._connection
        if channel != PUBLISHING or connection is None:
            return
        denial = self._said.refused(why)
        self._said.detach()
        task = asyncio.get_running_loop().create_task(self._publish_again(connection), name="publish again")
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)
        if denial is not None:
            self._tell_denial(denial, None)
        else:
            log.warning("the broker %s complains: %s", self.url, why.message)

    async def _publish_again(self, connection: AmqpConnection) -> None:
        with contextlib.suppress(AmqpError):  # then it is lost, and told so elsewhere
            await self._open_publishing(connection)

    def _subscription_denied(self, denial: Denial, subscription: QueueSubscription) -> None:
        self._tell_denial(denial, subscription)

    def _tell_denial(self, denial: Denial, subscription: QueueSubscription | None) -> None:
        denied = self._counts.denied
        key = str(denial)
        denied[key if key in denied or len(denied) < MAX_DENIALS else "other"] += 1
        self._requests.denied(denial)
        if self._told_denials is not None:
            self._told_denials(denial, subscription)

    def denial(self, subscribed: Subscribed) -> Denial | None:
        """Why the broker does not serve a subscription, if it does not."""
        assert isinstance(subscribed, QueueSubscription), "a subscription of this connection"
        return subscribed.denial

    def when_denied(self, told: OnDenied | None) -> None:
        """Whom to tell."""
        self._told_denials = told

    # -- publishing ---------------------------------------------------------------------------------------

    def publish(self, subject: str, payload: bytes, *, reply: str = "", head: bytes = b"") -> None:
        """Publish, persistently; it leaves at the end of the event loop's turn."""
        exchange, key, reply_to, number = self._address.exchange, subject, "", ""
        answered = way_of(subject)
        if answered is not None:
            exchange, (key, number) = "", answered
        elif reply:
            reply_to, number = self._way_back(reply)
        if max(len(key.encode()), len(number.encode())) > MAX_KEY_BYTES:
            raise NotCarriedError(
                f"the subject {subject[:40]}… or its way back has more than {MAX_KEY_BYTES} bytes",
                hint="AMQP carries no longer ones, and this broker is a RabbitMQ: choose shorter ones",
            )
        properties = self._writer.properties(head, reply_to=reply_to, correlation_id=number)
        if self._connection is not None:
            self._frame_max = self._connection.frame_max
        content_head = frames.content_head(PUBLISHING, len(payload), properties)
        if len(content_head) > self._frame_max:
            raise NotCarriedError(
                f"the headers of a message on {subject[:40]} have more than {self._frame_max} bytes",
                hint="they are one frame of AMQP, and this broker is a RabbitMQ: say less in them",
            )
        self._said.add(subject, frames.publish_head(PUBLISHING, exchange, key), content_head, bytes(payload))

    def _way_back(self, reply: str) -> tuple[str, str]:
        """Queue and number by which an answer to a subject comes to who subscribes to it."""
        named = way_of(reply)
        if named is not None:
            return named
        subscription = self._subscriptions.answering(reply)
        if subscription is None:
            raise NotCarriedError(
                f"nobody could answer to {reply}: at a RabbitMQ answers come to a queue",
                hint="subscribe to the subject of answers by this connection first, or use request()",
            )
        return subscription.place, reply

    def recall(self, subjects: Container[bytes]) -> None:
        """Forget what waits for the next broker of these subjects."""
        self._said.recall(subjects)

    def outlet(self, subject: str, head_form: bytes) -> RabbitOutlet:
        """A way to publish on a subject."""
        return RabbitOutlet(self, subject, head_form)

    async def drained(self) -> None:
        """Wait until there is room."""
        await self._said.drained()

    @property
    def _address(self) -> RabbitAddress:
        return self._addresses[0]

    # -- subscribing --------------------------------------------------------------------------------------

    def subscribe(
        self, subject: str, sink: Sink, *, queue: str = "", form: Form = RawMessage, origin: Any = None
    ) -> QueueSubscription:
        """Ask for the messages of a subject or pattern."""
        if self._closed:
            raise BrokerAwayError("the connection is closed")
        if len(queue.encode()) > MAX_KEY_BYTES:
            raise NotCarriedError(
                f"the queue group {queue[:40]}… has more than {MAX_KEY_BYTES} bytes",
                hint="AMQP carries no longer names, and this broker is a RabbitMQ: choose a shorter one",
            )
        made = QueueSubscription(self._next_sid, subject, queue, self._queues, sink, form, origin)
        self._next_sid += 1
        self._subscriptions.add(made)
        return made

    def redirect(
        self, subscribed: Subscribed, sink: Sink, *, form: Form = RawMessage, origin: Any = None
    ) -> None:
        """Hand what comes from the next buffer on to another sink."""
        assert isinstance(subscribed, QueueSubscription), "a subscription of this connection"
        subscribed.sink, subscribed.form, subscribed.origin = sink, form, origin

    def unsubscribe(self, subscribed: Subscribed) -> None:
        """End a subscription."""
        assert isinstance(subscribed, QueueSubscription), "a subscription of this connection"
        self._subscriptions.remove(subscribed)

    # -- asking -------------------------------------------------------------------------------------------

    async def flush(self, timeout_s: float) -> None:
        """Wait until the broker serves all subscriptions and has confirmed all that was published so far."""
        up_to, said = self._next_sid - 1, self._said.last
        try:
            async with asyncio.timeout(timeout_s):
                await self._there.wait()
                if self._closed or self._connection is None:
                    raise BrokerAwayError("the connection is closed")
                await self._while_there(self._connection, up_to, said)
        except TimeoutError:
            raise TimeoutError(f"the broker {self.url} did not confirm within {timeout_s:g} s") from None

    async def _while_there(self, connection: AmqpConnection, up_to: int, said: int) -> None:
        async def taken() -> None:
            await self._subscriptions.settled(up_to)
            self._said.write()
            while not self._said.taken(said):
                await self._said.changed()

        tasks = [asyncio.ensure_future(taken()), asyncio.ensure_future(connection.closed.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if not tasks[0].done():
                raise BrokerAwayError(f"the broker {self.url} is lost")
        finally:
            for task in tasks:
                task.cancel()

    def probe(self) -> None:
        """Have the broker say something, if it is there."""
        if self._connection is not None:
            self._connection.ask(commands.Basic.Qos(0, 0), lambda _: None)

    def abandon(self, reason: str) -> None:
        """Take the broker for dead and look for the next one.

        One that said itself that it takes nothing for now, short of memory or disk, lives: heartbeats tell.
        """
        if self._connection is not None and not self._connection.blocked:
            self._connection.abort(reason)

    async def request(
        self,
        subject: str,
        payload: bytes,
        *,
        timeout_s: float,
        head: bytes = b"",
        form: Form = RawMessage,
        origin: Any = None,
    ) -> Any:
        """The first answer; a RabbitMQ does not say that nobody listens, so TimeoutError then."""
        async with asyncio.timeout(timeout_s):
            # The queue for answers must be there before anybody can answer.
            self._requests.listen()
            await self._subscriptions.settled(self._next_sid - 1)
            return await self._requests.ask(subject, payload, head, timeout_s, form, origin)


class RabbitOutlet:
    """Publishes on one subject."""

    def __init__(self, connection: RabbitClientConnection, subject: str, head_form: bytes) -> None:
        self._connection = connection
        self._subject = subject
        self._head = head_form
        self.messages = 0
        self.size_bytes = 0

    def publish(self, payload: bytes, first: int, second: int) -> None:
        """Publish with these numbers in the head."""
        self._connection.publish(self._subject, payload, head=self._head % (first, second))
        self.messages += 1
        self.size_bytes += len(payload)


def _url(address: RabbitAddress) -> str:
    return f"{'amqps' if address.encrypted else 'amqp'}://{address.place}"
