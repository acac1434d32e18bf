"""A gateway's attachment to a RabbitMQ: two AMQP connections, made again whenever one breaks.

One connection publishes, the other listens: a broker that is short of memory or disk stops reading from who
publishes, and must still get the acknowledgements of who listens.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterable, Sequence
from time import monotonic

from pamqp import commands

from mangrove.broker.attachment import AttachmentOwner
from mangrove.broker.rabbitmq.address import GROUPS_EXCHANGE, parse_address
from mangrove.broker.rabbitmq.exchange.bindings import CREATED, Binding, BindingBook, event_binding
from mangrove.broker.rabbitmq.exchange.group_queues import GroupQueues
from mangrove.broker.rabbitmq.exchange.management import PageError, listed_bindings
from mangrove.broker.rabbitmq.exchange.patterns import MAX_KEY_BYTES, key_of
from mangrove.broker.rabbitmq.exchange.topology import (
    EVENTS,
    HOME_EXCHANGE,
    OUT,
    OVERFLOW,
    PREFETCH,
    REPLIES,
    Topology,
)
from mangrove.broker.rabbitmq.logging_in import logged_in
from mangrove.broker.rabbitmq.messages.inbound import Inbound
from mangrove.broker.rabbitmq.messages.outlets import CHANNEL, HeadOutlet, NowhereOutlet, PlainOutlet
from mangrove.broker.rabbitmq.messages.properties import PropertyWriter, read_table
from mangrove.broker.rabbitmq.messages.publisher import Publisher
from mangrove.broker.rabbitmq.messages.replies import ReplyTokens
from mangrove.broker.rabbitmq.wire import frames
from mangrove.broker.rabbitmq.wire.connection import (
    HEARTBEAT_S,
    AmqpConnection,
    AmqpError,
    first_error,
    was_refused,
)
from mangrove.broker.rabbitmq.wire.frames import Delivery
from mangrove.errors import InputError
from mangrove.host.keys.login import LoginSource
from mangrove.model.subjects import WAY_BACK_PREFIX
from mangrove.overlay.protocol.bodies import Flow, Message, WireError

log = logging.getLogger(__name__)

RECONNECT_S = 0.2
SETTLED_S = 10.0
"""By then, what other domains want is known, and what is bound besides is unbound."""
HEARD_S, LOOK_S = 1.0, 0.1
"""When the first has been heard, others are waited for so long."""
TOO_LONG = f"a subject, or a way back, of more than {MAX_KEY_BYTES} bytes, which AMQP cannot carry"
NOBODY_ASKED = "an answer to nobody who asked"
NO_ROOM = "the gateway's queue at the RabbitMQ was full"
NO_ROOM_FOR_MANY = f"{NO_ROOM}, for more messages than are counted while the gateway is away"
NO_SUBJECT = "binding that no subject can match"
ODD_EVENT = "binding whose event cannot be read"


class RabbitAttachment:
    """Keeps a gateway attached; its owner is told of everything but the reconnecting."""

    def __init__(self, name: str, url: str, owner: AttachmentOwner, login: LoginSource | None = None) -> None:
        self._name = name
        self._address = parse_address(url)
        self._owner = owner
        self._login = login
        self._topology = Topology(name, self._address.exchange, self._address.waiting_bytes)
        self._publisher = Publisher(owner.writable, owner.undelivered)
        self._writer = PropertyWriter(name)
        self._tokens = ReplyTokens()
        self._inbound = Inbound(owner.sorter, owner.ignored, self._tokens)
        self._book = BindingBook(self._told, lambda: owner.ignored(NO_SUBJECT))
        self._groups = GroupQueues(self._book, self._topology, owner.ignored)
        self._keys: dict[str, set[str]] = {}
        """What was asked for under each key."""
        self._stale: set[str] = set()
        """Keys that the broker has from before and nobody has asked for yet."""
        self._early: list[tuple[bool, Binding]] | None = None
        """Changes that came before all that is bound was listed; None: it was."""
        self._after_interest: list[Callable[[], None]] | None = []
        self._listening: AmqpConnection | None = None
        self._attached_at = 0.0
        self._confirming = False
        """Whether other domains have asked for something."""
        self._was_attached = False
        """Whether the broker was there before: then it has the bindings of durable queues at once."""
        self._frame_max = frames.FRAME_EXTRA + 4096

    # -- life ---------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Attach, and attach again whenever the broker goes away, until cancelled."""
        warned = ""
        while True:
            began_at = monotonic()
            problem = await self._serve()
            if problem and problem != warned:
                log.warning("head broker %s: %s; trying again", self._address.place, problem)
            warned = problem
            if monotonic() - began_at < RECONNECT_S:
                await asyncio.sleep(RECONNECT_S)

    async def _serve(self) -> str:
        """Stay attached until it is over; why it could not be, or an empty string if it was."""
        try:
            login = None if self._login is None else self._login()
        except InputError as error:  # a key file that cannot be read now may be whole in a moment
            return error.message
        address, tls = self._address, None
        if login is not None:
            address = logged_in(address, login)
            tls = login.tls
        both = AmqpConnection(address, f"{self._name} listens"), AmqpConnection(address, f"{self._name} says")
        listening, publishing = both
        listening.on_deliveries = self._delivered
        self._early = []
        attached = letting_go = False
        try:
            for connection in both:
                await connection.open(tls)
            await self._topology.declare(listening)
            await publishing.call(commands.Confirm.Select())
            listed = await listed_bindings(address, address.exchange, tls)
            home = [each.key for each in listed if each.to == "exchange" and each.name == HOME_EXCHANGE]
            listed += await self._groups.begin(address, tls, listening, home, self._owner.buffer_done)
            first_time = not self._was_attached
            self._attached(listening, publishing, listed)
            attached = True
            if first_time and self._topology.waiting:
                await self._others_heard(both)
            await self._topology.begin(listening)
            await self._watch(both)
        except (AmqpError, PageError) as error:
            if not attached:
                return error.message
        except asyncio.CancelledError:
            letting_go = True
            raise
        finally:
            self._listening = None
            self._groups.end()
            self._publisher.lost(refused=was_refused(publishing))
            for connection in both:
                await connection.close()
            if attached and not letting_go:
                reason = first_error(both)
                log.warning("lost the head broker %s: %s", address.place, reason)
                self._owner.lost(reason)
        return ""

    async def _others_heard(self, both: Sequence[AmqpConnection]) -> None:
        """Wait for what other domains want, before messages are taken that waited for this gateway.

        A gateway that has just started knows of nobody, and would throw them away.
        """
        until = monotonic() + SETTLED_S
        while not self._confirming and monotonic() < until:
            await self._watch(both, LOOK_S)
        await self._watch(both, HEARD_S)

    async def _watch(self, both: Sequence[AmqpConnection], seconds: float = math.inf) -> None:
        """Give signs of life for so long, or until one of the connections ends."""
        until = monotonic() + seconds
        ends = [asyncio.ensure_future(each.closed.wait()) for each in both]
        try:
            while not any(end.done() for end in ends) and monotonic() < until:
                pause = min(HEARTBEAT_S / 2, until - monotonic())
                await asyncio.wait(ends, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
                if monotonic() - self._attached_at > SETTLED_S:
                    self._unbind_stale()
                for connection in both:
                    connection.beat()
        finally:
            for end in ends:
                end.cancel()

    def _unbind_stale(self) -> None:
        """Nobody asks any more for what a former life of this gateway, or of the broker, was asked for."""
        if self._listening is not None:
            for key in self._stale:
                self._topology.unbind(self._listening, key)
            self._stale.clear()

    def _attached(self, listening: AmqpConnection, publishing: AmqpConnection, listed: list[Binding]) -> None:
        self._stale = {each.key for each in listed if each.name == self._topology.border}
        self._keys.clear()
        self._listening = listening
        self._attached_at = monotonic()
        self._frame_max = publishing.frame_max
        self._publisher.attached(publishing)
        log.info("attached to head broker %s at %s", listening.server, self._address.place)
        self._after_interest = []
        self._owner.attached(self._address.place, elsewhere=self._was_attached)
        self._was_attached = True
        self._book.begin(each for each in listed if not self._is_ours(each))
        early, self._early = self._early or [], None
        for created, binding in early:
            self._changed(created, binding)
        self._owner.buffer_done()
        waiting, self._after_interest = self._after_interest, None
        for done in waiting:
            done()

    # -- what the gateway asks for ------------------------------------------------------------------------

    def subscribe(self, subjects: Iterable[str]) -> None:
        """Ask for what the domain's publishers send on these subjects."""
        if self._listening is None:
            return
        for subject in subjects:
            key = key_of(subject)
            asked = self._keys.setdefault(key, set())
            if not asked:
                if key in self._stale:
                    self._stale.discard(key)
                else:
                    self._topology.bind(self._listening, key)
            asked.add(subject)

    def unsubscribe(self, subjects: Iterable[str]) -> None:
        """Ask for them no more."""
        if self._listening is None:
            return
        for subject in subjects:
            key = key_of(subject)
            asked = self._keys.get(key)
            if asked is None:
                continue
            asked.discard(subject)
            if not asked:
                del self._keys[key]
                self._topology.unbind(self._listening, key)

    def confirm(self, done: Callable[[], None]) -> None:
        """Call `done` when the broker has bound all that was asked for."""
        if self._listening is None:
            return
        self._confirming = True
        self._listening.ask(commands.Basic.Qos(0, PREFETCH), lambda _: done())

    def after_interest(self, done: Callable[[], None]) -> None:
        """Call `done` when the owner was told of all bindings that there were."""
        if self._after_interest is None:
            done()
        else:
            self._after_interest.append(done)

    # -- inward -------------------------------------------------------------------------------------------

    def outlet(self, line: bytes, message: Message, groups: tuple[str, ...]) -> Flow:
        """A flow for messages with this line: all queues get them whose bindings match, and these groups."""
        exchange, key, reply, number = self._address.exchange, message.subject, message.reply, ""
        if key.startswith(WAY_BACK_PREFIX):
            asked = self._tokens.queue_of(key)
            if asked is None:
                return NowhereOutlet(line, message, NOBODY_ASKED, self._owner.undelivered)
            exchange, (key, number) = "", asked
        else:
            number = reply
            if groups:
                exchange = self._topology.serving
        if max(len(key.encode()), len(number.encode())) > MAX_KEY_BYTES:
            return NowhereOutlet(line, message, TOO_LONG, self._owner.undelivered)
        method = frames.publish_head(CHANNEL, exchange, key)
        if message.header_bytes < 0 and not number:
            properties = self._writer.properties(groups=groups)
            before = method + frames.content_head(CHANNEL, message.size_bytes, properties)
            return PlainOutlet(self._publisher, line, message, before, self._frame_max)
        return HeadOutlet(
            self._publisher,
            self._writer,
            line,
            message,
            method,
            self._frame_max,
            self._owner.undelivered,
            reply_to=self._topology.replies if reply else "",
            correlation_id=number,
            groups=groups,
        )

    # -- outward ------------------------------------------------------------------------------------------

    def _delivered(self, deliveries: list[Delivery]) -> None:
        """Everything that one buffer held: messages for other domains, answers, changes of interest."""
        last = 0
        inbound = self._inbound
        for delivery in deliveries:
            if delivery.consumer == OUT:
                last = delivery.tag
                inbound.published(delivery)
            elif delivery.consumer == OVERFLOW:
                last = delivery.tag
                self._overflown(delivery)
            elif delivery.consumer == REPLIES:
                inbound.answered(delivery)
            elif delivery.consumer == EVENTS:
                self._event(delivery)
        try:
            inbound.hand_over()
        except WireError:  # made here, so it is well formed
            log.exception("a message of the head broker was not understood")
        if self._listening is None:
            return
        self._owner.buffer_done()
        if last:
            self._listening.write(frames.ack(CHANNEL, last))

    def _overflown(self, delivery: Delivery) -> None:
        """The oldest of what waited for this gateway had to go."""
        reason = NO_ROOM_FOR_MANY if self._topology.uncounted else NO_ROOM
        self._owner.undelivered(reason, 1, delivery.key.decode(errors="replace"))

    def _event(self, delivery: Delivery) -> None:
        try:
            event = read_table(delivery.properties)
        except ValueError:
            self._owner.ignored(ODD_EVENT)
            return
        binding = event_binding(event, self._address.exchange, GROUPS_EXCHANGE, self._address.vhost)
        if binding is None or self._is_ours(binding):
            return
        created = delivery.key == CREATED
        if self._early is not None:
            self._early.append((created, binding))
        else:
            self._changed(created, binding)

    def _changed(self, created: bool, binding: Binding) -> None:
        book = self._groups if binding.group else self._book
        if created:
            book.created(binding)
        else:
            book.deleted(binding)

    def _is_ours(self, binding: Binding) -> bool:
        """Whether a gateway bound it, and no client."""
        return binding.to == "exchange" and binding.name in (self._topology.border, HOME_EXCHANGE)

    def _told(self, pattern: str, group: str, wanted: bool) -> None:
        self._owner.interest(pattern, group, wanted)
