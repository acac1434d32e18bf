"""One AMQP connection over one socket, a whole buffer at a time.

Methods that come seldom are written and read by `pamqp`. The broker answers the questions of a channel in
their order, so whoever asks stands in a line. Messages come by the first channel alone; further ones are for
what a broker may refuse, for it closes the channel then.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from time import monotonic
from typing import cast

from pamqp import commands, frame
from pamqp.base import Frame
from pamqp.common import FieldTable
from pamqp.exceptions import PAMQPException

from mangrove.broker.rabbitmq.address import RabbitAddress
from mangrove.broker.rabbitmq.wire import frames
from mangrove.broker.rabbitmq.wire.frames import Delivery
from mangrove.errors import MangroveError
from mangrove.host.sockets import prepare

log = logging.getLogger(__name__)

CHANNEL = 1
MAX_CHANNELS = 8
CONNECT_S = 3.0
GOODBYE_S = 0.5
FORCED = 320
"""The code by which a broker that stops closes its connections."""
HEARTBEAT_S = 5
"""A broker that says nothing for twice as long is taken for dead."""
FRAME_MAX = 131_072
WRITE_HIGH_WATER_BYTES = 1 << 20
MAX_FRAME_BYTES = FRAME_MAX + frames.FRAME_EXTRA
_GREETING = b"AMQP\x00\x00\x09\x01"
_CAPABILITIES: FieldTable = dict.fromkeys(
    (
        "basic.nack",
        "publisher_confirms",
        "consumer_cancel_notify",
        "connection.blocked",
        "authentication_failure_close",
        "exchange_exchange_bindings",
    ),
    True,
)

Answered = Callable[[Frame], None]


class AmqpError(MangroveError):
    """The broker refused something, or is none; `code` is AMQP's reply code, or 0."""

    def __init__(self, reason: str, code: int = 0) -> None:
        super().__init__(reason)
        self.code = code


class AmqpConnection(asyncio.Protocol):
    """Connects, opens a channel, and hands over what comes. `closed` is set when it has ended."""

    def __init__(self, address: RabbitAddress, name: str) -> None:
        self._address = address
        self._name = name
        self._transport: asyncio.Transport | None = None
        self._held = b""
        self._asked: defaultdict[int, deque[Answered]] = defaultdict(deque)
        self._calls: defaultdict[int, list[asyncio.Future[Frame]]] = defaultdict(list)
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._greeted = False
        self._open = False
        self._incoming: tuple[bytes, int, bool, bytes] | None = None
        self._expected = 0
        self._properties = b""
        self._parts: list[bytes] = []
        self._gathered = 0
        self._delivered: list[Delivery] = []
        self.error: AmqpError | None = None
        self.heard_at = monotonic()
        self.received_bytes = 0
        self.frame_max = FRAME_MAX
        self.server = ""
        """What the broker calls itself, once it has said so."""
        self.blocked = False
        """Whether the broker has said that it takes nothing for now: it lives, and confirms nothing."""
        self._socket_full = False
        self.closed = asyncio.Event()
        self.on_deliveries: Callable[[list[Delivery]], None] = lambda _: None
        self.on_confirm: Callable[[int, bool, bool], None] = lambda _tag, _multiple, _taken: None
        self.on_writable: Callable[[bool], None] = lambda _: None
        self.on_channel_closed: Callable[[int, AmqpError], None] = lambda _channel, _why: None
        """Told of channels besides the first, without which there is no connection."""

    @property
    def exchange(self) -> str:
        """The exchange that is federated."""
        return self._address.exchange

    # -- life ---------------------------------------------------------------------------------------------

    async def open(self, tls: ssl.SSLContext | None = None, timeout_s: float = CONNECT_S) -> None:
        """Connect, log in, and open the channel; AmqpError tells why it could not be."""
        address = self._address
        encryption = (tls or ssl.create_default_context()) if address.encrypted else None
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.get_running_loop().create_connection(
                    lambda: self, address.host, address.port, ssl=encryption
                )
                await self._opened
        except TimeoutError:
            self.abort(f"{address.place} does not answer within {timeout_s:g} s as an AMQP broker")
        except (OSError, ssl.SSLError) as error:
            self.abort(f"{address.place} cannot be reached: {error}")
        except asyncio.CancelledError:
            self.abort("given up")
            raise
        if self.error is not None:
            raise self.error

    async def close(self) -> None:
        """Say goodbye, and end it whatever the broker answers."""
        if self._transport is not None and self._open:
            self._send(0, commands.Connection.Close(200, "the gateway stops", 0, 0))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GOODBYE_S):
                    await self.closed.wait()
        self.abort("closed")

    def abort(self, reason: str, code: int = 0) -> None:
        """End it at once."""
        self.error = self.error or AmqpError(reason, code)
        if self._transport is not None:
            self._transport.abort()
        self._ended()

    def _ended(self) -> None:
        self._open = False
        for channel in list(self._calls):
            self._forget_asked(channel, self.error or AmqpError("the connection has ended"))
        if not self._opened.done():
            self._opened.set_result(None)
        self.closed.set()

    def _forget_asked(self, channel: int, why: AmqpError) -> None:
        """Nobody answers any more what was asked on a channel."""
        self._asked[channel].clear()
        for call in self._calls[channel]:
            if not call.done():
                call.set_exception(AmqpError(why.message, why.code))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet the broker."""
        self._transport = prepare(transport, high_water_bytes=WRITE_HIGH_WATER_BYTES)
        self._transport.write(_GREETING)

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._transport = None
        self.error = self.error or AmqpError(str(exc or "the broker closed the connection"))
        self._ended()

    def pause_writing(self) -> None:
        """The socket is full."""
        self._socket_full = True
        self.on_writable(False)

    def resume_writing(self) -> None:
        """The socket drained."""
        self._socket_full = False
        self.on_writable(not self.blocked)

    # -- asking -------------------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Send whole frames."""
        if self._transport is not None:
            self._transport.write(data)

    def tell(self, command: Frame, channel: int = CHANNEL) -> None:
        """Send a method that is not answered."""
        self._send(channel, command)

    def ask(self, command: Frame, answered: Answered, channel: int = CHANNEL) -> None:
        """Send a method; `answered` is called with the answer, or never if the channel ends."""
        self._asked[channel].append(answered)
        self._send(channel, command)

    async def call(self, command: Frame, channel: int = CHANNEL) -> Frame:
        """Send a method and wait for its answer; AmqpError if it was refused."""
        answer: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()

        def take(answered: Frame) -> None:
            if not answer.done():
                answer.set_result(answered)

        self._calls[channel].append(answer)
        try:
            if self.closed.is_set():
                raise self.error or AmqpError("the connection has ended")
            self.ask(command, take, channel)
            return await answer
        finally:
            self._calls[channel].remove(answer)

    def beat(self) -> None:
        """Give a sign of life, and give up a broker that gave none for too long."""
        if self._open and monotonic() - self.heard_at > 2 * HEARTBEAT_S:
            self.abort("it has fallen silent")
        elif self._open:
            self.write(frames.HEARTBEAT_FRAME)

    def _send(self, channel: int, command: Frame) -> None:
        self.write(frame.marshal(command, channel))

    # -- receiving ----------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Read the whole frames of a buffer, and hand over all their messages together."""
        self.heard_at = monotonic()
        self.received_bytes += len(data)
        if self._held:
            data = self._held + data
        try:
            rest = self._read(data)
        except (PAMQPException, IndexError, ValueError, AmqpError) as error:
            self.abort(str(error) if self._greeted else self._no_broker(data))
            return
        self._held = data[rest:]
        if self._delivered:
            delivered, self._delivered = self._delivered, []
            self.on_deliveries(delivered)

    def _no_broker(self, data: bytes) -> str:
        said = f"it says {data[:24]!r}"
        return f"{self._address.place} answers, but not as an AMQP 0-9-1 broker: {said}"

    def _read(self, data: bytes) -> int:
        position, end = 0, len(data)
        while end - position >= frames.FRAME_EXTRA:
            kind, channel, size = frames.FRAME_HEAD.unpack_from(data, position)
            if size > MAX_FRAME_BYTES or kind not in (1, 2, 3, 8):
                raise AmqpError("it does not speak AMQP 0-9-1")
            start, following = position + 7, position + frames.FRAME_EXTRA + size
            if following > end:
                break
            if data[following - 1] != frames.END_BYTE:
                raise AmqpError("a frame does not end where its size says")
            if kind == frames.METHOD:
                self._method(data, position, start, following, channel)
            elif kind == frames.HEADER:
                self._expected, self._properties = frames.read_content_head(data, start, following - 1)
                if not self._expected:
                    self._message_done(b"")
            elif kind == frames.BODY:
                self._body(data[start : following - 1])
            position = following
        return position

    def _body(self, part: bytes) -> None:
        if len(part) == self._expected and not self._parts:
            self._message_done(part)
            return
        self._parts.append(part)
        self._gathered += len(part)
        if self._gathered >= self._expected:
            whole = b"".join(self._parts)
            self._parts, self._gathered = [], 0
            self._message_done(whole)

    def _message_done(self, body: bytes) -> None:
        if self._incoming is not None:
            self._delivered.append(Delivery(*self._incoming, self._properties, body))
            self._incoming = None

    def _method(self, data: bytes, position: int, start: int, following: int, channel: int) -> None:
        name = data[start : start + 4]
        if name == frames.DELIVER:
            self._incoming = frames.read_deliver(data, start + 4)
        elif name == frames.ACK or name == frames.NACK:
            tag, multiple = frames.read_confirm(data, start + 4)
            self.on_confirm(tag, multiple, name == frames.ACK)
        else:
            command = cast("Frame", frame.unmarshal(data[position:following])[2])
            self._control(command, channel)

    def _control(self, command: Frame, channel: int) -> None:
        match command:
            case commands.Connection.Start():
                self._greeted = True
                self._log_in(command)
            case commands.Connection.Tune():
                self.frame_max = min(command.frame_max or FRAME_MAX, FRAME_MAX)
                heartbeat = min(command.heartbeat or HEARTBEAT_S, HEARTBEAT_S)
                self._send(0, commands.Connection.TuneOk(MAX_CHANNELS, self.frame_max, heartbeat))
                self._send(0, commands.Connection.Open(self._address.vhost))
            case commands.Connection.OpenOk():
                self._send(CHANNEL, commands.Channel.Open())
            case commands.Channel.OpenOk() if channel == CHANNEL:
                self._open = True
                if not self._opened.done():
                    self._opened.set_result(None)
            case commands.Connection.CloseOk():
                self._refused("closed", 0)
            case commands.Connection.Close():
                self._send(0, commands.Connection.CloseOk())
                self._refused(command.reply_text, command.reply_code or 0)
            case commands.Channel.Close():
                self._send(channel, commands.Channel.CloseOk())
                if channel == CHANNEL:
                    self._refused(command.reply_text, command.reply_code or 0)
                else:
                    why = AmqpError(command.reply_text, command.reply_code or 0)
                    self._forget_asked(channel, why)
                    self.on_channel_closed(channel, why)
            case commands.Basic.Cancel():
                self._refused(f"the queue of {command.consumer_tag} is gone", 0)
            case commands.Connection.Blocked():
                log.warning("the head broker takes nothing for now: %s", command.reason)
                self.blocked = True
                self.on_writable(False)
            case commands.Connection.Unblocked():
                self.blocked = False
                self.on_writable(not self._socket_full)
            case _:
                if self._asked[channel]:
                    self._asked[channel].popleft()(command)

    def _refused(self, reason: str, code: int) -> None:
        self.error = self.error or AmqpError(reason, code)
        if self._transport is not None:
            self._transport.close()

    def _log_in(self, start: commands.Connection.Start) -> None:
        told = start.server_properties or {}
        self.server = " ".join(str(told[name]) for name in ("product", "version") if name in told)
        address = self._address
        properties: FieldTable = {
            "product": "mangrove",
            "connection_name": self._name,
            "capabilities": _CAPABILITIES,
        }
        answer = f"\0{address.user}\0{address.password}"
        self._send(0, commands.Connection.StartOk(properties, "PLAIN", answer, "en_US"))


def first_error(connections: Sequence[AmqpConnection]) -> str:
    """Why connections that belong together have ended."""
    return next((str(each.error) for each in connections if each.error is not None), "they were closed")


def was_refused(connection: AmqpConnection) -> bool:
    """Whether the broker ended it because of what was said, and not because it ends itself."""
    return connection.error is not None and connection.error.code not in (0, FORCED)
