"""What a gateway declares in a RabbitMQ, and why nothing comes back to it that it published itself.

    federated exchange ──keys others want──► border (headers) ──marked as ours──► a queue that keeps nothing
                                                      │ all else
                                                      ▼
                                              out (fanout) ──► the gateway's queue

A headers exchange cannot ask for what lacks a header, but its alternate exchange gets what it has no queue
for. The gateway's queue, with all on the way to it, is durable: what is published while the broker restarts,
or while the gateway does, waits there. Everything is named after the gateway, and belongs to it alone.
"""

from __future__ import annotations

from pamqp import commands
from pamqp.common import FieldTable

from mangrove.broker.rabbitmq.messages.properties import VIA_HEADER
from mangrove.broker.rabbitmq.wire.connection import AmqpConnection, AmqpError

EVENTS_EXCHANGE = "amq.rabbitmq.event"
BINDING_EVENTS = "binding.*"
MAX_WAITING_BYTES = 1 << 30
"""A gateway that is away for long must not fill the disk of the site: then the oldest go."""
OUT, EVENTS, REPLIES = b"out", b"events", b"replies"
"""Tags of the gateway's consumers."""
PREFETCH = 5_000
NOT_FOUND = 404


class Topology:
    """The names of what one gateway declares, and how it is declared."""

    def __init__(self, gateway: str, exchange: str) -> None:
        self._gateway = gateway
        self._exchange = exchange
        self.border = f"mangrove.{gateway}.border"
        self._out = f"mangrove.{gateway}.out"
        self.queue = f"mangrove.{gateway}"
        self.waiting = 0
        """Messages that were in the gateway's queue when it was declared."""
        self.replies = ""
        """Where answers to requests from other domains come; the broker names it."""

    async def declare(self, connection: AmqpConnection) -> None:
        """Have everything there; AmqpError if the broker does not allow it, or lacks a plugin."""
        call = connection.call
        await call(commands.Exchange.Declare(exchange=self._exchange, exchange_type="topic", passive=True))
        await call(
            commands.Exchange.Declare(exchange=self._out, exchange_type="fanout", durable=True, internal=True)
        )
        await call(
            commands.Exchange.Declare(
                exchange=self.border,
                exchange_type="headers",
                arguments={"alternate-exchange": self._out},
                durable=True,
                internal=True,
            )
        )
        limit: FieldTable = {"x-max-length-bytes": MAX_WAITING_BYTES}
        declared = await call(commands.Queue.Declare(queue=self.queue, durable=True, arguments=limit))
        assert isinstance(declared, commands.Queue.DeclareOk)
        self.waiting = declared.message_count or 0
        await call(commands.Queue.Bind(queue=self.queue, exchange=self._out))
        ours = await self._own_queue(connection, {"x-max-length": 0})
        marked: FieldTable = {"x-match": "all", VIA_HEADER: self._gateway}
        await call(commands.Queue.Bind(queue=ours, exchange=self.border, arguments=marked))
        self.replies = await self._own_queue(connection)
        await self._consume(connection, self.replies, REPLIES)
        await self._follow_events(connection)

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

    def bind(self, connection: AmqpConnection, key: str) -> None:
        """Ask for what is published under a key."""
        connection.tell(
            commands.Exchange.Bind(
                destination=self.border, source=self._exchange, routing_key=key, nowait=True
            )
        )

    def unbind(self, connection: AmqpConnection, key: str) -> None:
        """Ask for it no more."""
        connection.tell(
            commands.Exchange.Unbind(
                destination=self.border, source=self._exchange, routing_key=key, nowait=True
            )
        )

    async def _own_queue(self, connection: AmqpConnection, arguments: FieldTable | None = None) -> str:
        """A queue of this connection alone, which ends with it."""
        declared = await connection.call(
            commands.Queue.Declare(exclusive=True, auto_delete=True, arguments=arguments)
        )
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
