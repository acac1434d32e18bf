"""What a gateway declares in a RabbitMQ, and why nothing comes back to it that it published itself.

    federated exchange ──keys others want──► border (headers) ──marked as ours──► void (leads nowhere)
            │                                         │ all else
            │                                         ▼
            │                                 out (fanout) ──► the gateway's queue ──full──► overflow
            └──keys of groups──► home (headers) ──marked──► void
                                  │ all else
                                  ▼
                       mangrove.groups (topic) ──keys of clients──► queues of groups
                                                                        ▲
    gateway ──► serve (headers) ──to the groups that a message names────┘
                      └──everything──► federated exchange

A headers exchange cannot ask for what lacks a header, but its alternate exchange gets what it has nobody
for. The gateway's queue, with all on the way to it, is durable: what is published while the broker restarts,
or while the gateway does, waits there, within a bound; what goes beyond it the gateway counts when it is
there. What the domain's own publishers say reaches its members of queue groups by itself, and what comes from
elsewhere only those that are to serve it. The names say what belongs to one gateway.
"""

from __future__ import annotations

import logging

from pamqp import commands
from pamqp.common import FieldTable

from mangrove.broker.rabbitmq.address import GROUPS_EXCHANGE
from mangrove.broker.rabbitmq.messages.properties import VIA_HEADER
from mangrove.broker.rabbitmq.wire.connection import AmqpConnection, AmqpError

log = logging.getLogger(__name__)

EVENTS_EXCHANGE = "amq.rabbitmq.event"
BINDING_EVENTS = "binding.*"
HOME_EXCHANGE, VOID_EXCHANGE = "mangrove.home", "mangrove.void"
MAX_COUNTED, MAX_COUNTED_BYTES = 10_000, 64 << 20
"""What had no room while the gateway was away is kept to be counted, up to so much."""
OUT, EVENTS, REPLIES, OVERFLOW = b"out", b"events", b"replies", b"overflow"
"""Tags of the gateway's consumers."""
PREFETCH = 5_000
QUEUES = 2
"""The channel on which queues are declared that may be there already, otherwise made."""
NOT_FOUND, PRECONDITION_FAILED = 404, 406


class Topology:
    """The names of what one gateway declares, and how it is declared."""

    def __init__(self, gateway: str, exchange: str, max_waiting_bytes: int) -> None:
        """A gateway that is away must not fill the disk of its site: beyond the bound the oldest go."""
        self._gateway = gateway
        self._exchange = exchange
        self._max_waiting_bytes = max_waiting_bytes
        self.border = f"mangrove.{gateway}.border"
        self._out = f"mangrove.{gateway}.out"
        self.serving = f"mangrove.{gateway}.serve"
        self.queue = f"mangrove.{gateway}"
        self.overflow = f"mangrove.{gateway}.overflow"
        self._uncounted = f"{self.overflow}.uncounted"
        self.uncounted = False
        """Whether more had no room, before the gateway attached, than will be counted."""
        self.waiting = 0
        """Messages that were in the gateway's queue when it was declared."""
        self.replies = ""
        """Where answers to requests from other domains come; the broker names it."""

    async def declare(self, connection: AmqpConnection) -> None:
        """Have everything there; AmqpError if the broker does not allow it, or lacks a plugin."""
        call = connection.call
        await call(commands.Exchange.Declare(exchange=self._exchange, exchange_type="topic", passive=True))
        await self._exchange_of_ours(connection, VOID_EXCHANGE, "fanout")
        await self._exchange_of_ours(connection, self._out, "fanout")
        await self._exchange_of_ours(connection, self.border, "headers", alternate=self._out)
        await self._exchange_of_ours(connection, GROUPS_EXCHANGE, "topic", internal=False)
        await self._exchange_of_ours(connection, HOME_EXCHANGE, "headers", alternate=GROUPS_EXCHANGE)
        await self._exchange_of_ours(connection, self.serving, "headers", internal=False)
        marked: FieldTable = {"x-match": "all", VIA_HEADER: self._gateway}
        any_mark: FieldTable = {"x-match": "all", VIA_HEADER: None}
        for source, destination, key, arguments in (
            (self.border, VOID_EXCHANGE, "", marked),
            (HOME_EXCHANGE, VOID_EXCHANGE, "", any_mark),
            (self.serving, self._exchange, "", None),
        ):
            await call(
                commands.Exchange.Bind(
                    destination=destination, source=source, routing_key=key, arguments=arguments
                )
            )
        await self._exchange_of_ours(connection, self.overflow, "fanout")
        counted: FieldTable = {
            "x-max-length": MAX_COUNTED,
            "x-max-length-bytes": MAX_COUNTED_BYTES,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": self._uncounted,
        }
        self.uncounted = await self._durable_queue(connection, self._uncounted, {"x-max-length": 1}) > 0
        await call(commands.Queue.Purge(queue=self._uncounted))
        await self._durable_queue(connection, self.overflow, counted)
        await call(commands.Queue.Bind(queue=self.overflow, exchange=self.overflow))
        limit: FieldTable = {
            "x-max-length-bytes": self._max_waiting_bytes,
            "x-dead-letter-exchange": self.overflow,
        }
        self.waiting = await self._durable_queue(connection, self.queue, limit)
        await call(commands.Queue.Bind(queue=self.queue, exchange=self._out))
        self.replies = await self._own_queue(connection)
        await self._consume(connection, self.replies, REPLIES)
        await self._follow_events(connection)

    async def _exchange_of_ours(
        self, connection: AmqpConnection, name: str, kind: str, *, alternate: str = "", internal: bool = True
    ) -> None:
        arguments: FieldTable = {"alternate-exchange": alternate} if alternate else {}
        await connection.call(
            commands.Exchange.Declare(
                exchange=name, exchange_type=kind, arguments=arguments, durable=True, internal=internal
            )
        )

    async def _durable_queue(self, connection: AmqpConnection, name: str, arguments: FieldTable) -> int:
        """Have a durable queue there; how many messages are in it.

        One that was made otherwise is used as it is: what waits in it is worth more.
        """
        await connection.call(commands.Channel.Open(), QUEUES)
        try:
            made = commands.Queue.Declare(queue=name, durable=True, arguments=arguments)
            declared = await connection.call(made, QUEUES)
            await connection.call(commands.Channel.Close(200, "done", 0, 0), QUEUES)
        except AmqpError as error:
            if error.code != PRECONDITION_FAILED or connection.closed.is_set():
                raise
            log.warning("the queue %s stays as it is, with other bounds: %s", name, error.message)
            declared = await connection.call(commands.Queue.Declare(queue=name, passive=True))
        assert isinstance(declared, commands.Queue.DeclareOk)
        return declared.message_count or 0

    async def _follow_events(self, connection: AmqpConnection) -> None:
        queue = await self._own_queue(connection)
        bound = commands.Queue.Bind(queue=queue, exchange=EVENTS_EXCHANGE, routing_key=BINDING_EVENTS)
        try:
            await connection.call(bound)
        except AmqpError as error:
            if error.code == NOT_FOUND:
                raise AmqpError(NO_EVENTS, error.code) from None
            raise
        await self._consume(connection, queue, EVENTS)

    async def begin(self, connection: AmqpConnection) -> None:
        """Take what the domain's publishers have sent."""
        await connection.call(commands.Basic.Qos(0, PREFETCH))
        await self._consume(connection, self.queue, OUT, acknowledged=True)
        await self._consume(connection, self.overflow, OVERFLOW, acknowledged=True)

    def bind(self, connection: AmqpConnection, key: str) -> None:
        """Ask for what is published under a key."""
        connection.tell(
            commands.Exchange.Bind(
                destination=self.border, source=self._exchange, routing_key=key, nowait=True
            )
        )

    async def bind_home(self, connection: AmqpConnection, key: str) -> None:
        """Have what the domain's own publishers say under a key reach members of groups."""
        await connection.call(
            commands.Exchange.Bind(destination=HOME_EXCHANGE, source=self._exchange, routing_key=key)
        )

    def unbind_home(self, connection: AmqpConnection, key: str) -> None:
        """No member of a group wants it any more."""
        connection.tell(
            commands.Exchange.Unbind(
                destination=HOME_EXCHANGE, source=self._exchange, routing_key=key, nowait=True
            )
        )

    def unbind(self, connection: AmqpConnection, key: str) -> None:
        """Ask for it no more."""
        connection.tell(
            commands.Exchange.Unbind(
                destination=self.border, source=self._exchange, routing_key=key, nowait=True
            )
        )

    async def _own_queue(self, connection: AmqpConnection) -> str:
        """A queue of this connection alone, which ends with it."""
        declared = await connection.call(commands.Queue.Declare(exclusive=True, auto_delete=True))
        assert isinstance(declared, commands.Queue.DeclareOk)
        return declared.queue or ""

    async def _consume(
        self, connection: AmqpConnection, queue: str, tag: bytes, *, acknowledged: bool = False
    ) -> None:
        await connection.call(
            commands.Basic.Consume(queue=queue, consumer_tag=tag.decode(), no_ack=not acknowledged)
        )


NO_EVENTS = (
    "it does not tell of bindings that come and go: its plugin rabbitmq_event_exchange is not enabled in "
    "this virtual host; run `rabbitmq-plugins enable rabbitmq_event_exchange` there (another virtual host "
    "than / is named by event_exchange.vhost in its configuration)"
)
