"""One socket to a nats-server, as one of its clients."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from typing import Protocol

from mangrove import __version__
from mangrove.broker.client_connection import BrokerAwayError, LoginRefusedError
from mangrove.broker.nats.client.greeting import ServerAddress, ServerInfo, connect_lines, parse_info
from mangrove.broker.nats.client.outgoing import Outgoing
from mangrove.broker.nats.client.scanner import Gate, Inlet, Scanner
from mangrove.host.keys.login import BrokerLogin
from mangrove.host.sockets import expect_answers, prepare
from mangrove.overlay.protocol.bodies import WireError

WRITE_HIGH_WATER_BYTES = 1 << 18
PING_S = 20.0
MAX_UNANSWERED_PINGS = 2
HOST_GONE_S = 3.0
"""A broker whose machine acknowledges nothing for so long is left for another."""

CHECK_CA = "is it a broker of this federation? the authority that is believed is in ca.pem"
GIVE_CREDENTIALS = "give a client's folder as credentials, or in MANGROVE_CREDENTIALS"


class ProtocolOwner(Protocol):
    """What the owner of a socket is told."""

    def socket_lost(self, protocol: ClientProtocol, reason: str, why: str) -> None:
        """It ended after it had been accepted; `reason` is one of few, `why` the whole story."""

    def complained(self, what: str) -> None:
        """The server said -ERR."""

    def informed(self, info: ServerInfo) -> None:
        """The server has said something new of itself."""


class ClientProtocol(asyncio.Protocol):
    """Speaks with one server from its INFO to the end of the socket. Made by `open_socket`."""

    def __init__(self, inlets: dict[int, Inlet], outgoing: Outgoing, owner: ProtocolOwner) -> None:
        loop = asyncio.get_running_loop()
        self._owner = owner
        self._outgoing = outgoing
        self._scanner = Scanner(inlets, self._control)
        self._transport: asyncio.Transport | None = None
        self._greeted: asyncio.Future[ServerInfo] = loop.create_future()
        self._accepted: asyncio.Future[None] = loop.create_future()
        self._closed: asyncio.Future[None] = loop.create_future()
        self._pongs: deque[asyncio.Future[None] | None] = deque()
        self._alive: asyncio.TimerHandle | None = None
        self._unanswered = 0
        self._serving = False
        self._end = ("", "")
        self._user = ""
        self.info = ServerInfo()
        self.received_bytes = 0

    @property
    def received_messages(self) -> int:
        """Messages that came over this socket."""
        return self._scanner.messages

    @property
    def gate(self) -> Gate | None:
        """Who takes what comes before the sinks do, if somebody does."""
        return self._scanner.gate

    @gate.setter
    def gate(self, gate: Gate | None) -> None:
        self._scanner.gate = gate

    # -- beginning ----------------------------------------------------------------------------------------

    async def introduce(
        self, name: str, address: ServerAddress, login: BrokerLogin | None, tls: ssl.SSLContext | None
    ) -> None:
        """Wait for INFO, encrypt if need be, say who we are, and wait until we are accepted.

        Who logs in over TLS tells nothing to a server that offers none: it may be somebody else.
        """
        self.info = await self._greeted
        if not self.info.headers:
            raise BrokerAwayError(f"the broker {self.info.version} at {address} does not support headers")
        login = None if address.credentials else login
        if login is not None and login.tls is not None:
            if not (self.info.tls_required or self.info.tls_available):
                raise LoginRefusedError(
                    f"whoever answers at {address} offers no TLS; nothing is said there in the clear",
                    hint="is it a broker of this federation, and secured?",
                )
            await self._encrypt(address, login.tls, CHECK_CA)
        elif address.tls or self.info.tls_required:
            await self._encrypt(address, tls or ssl.create_default_context(), GIVE_CREDENTIALS)
        self._user = "" if login is None else login.user
        self._pongs.append(self._accepted)
        self._write(connect_lines(name, address, __version__, login, self.info.nonce))
        await self._accepted

    async def _encrypt(self, address: ServerAddress, context: ssl.SSLContext, hint: str) -> None:
        if self._transport is None:
            raise BrokerAwayError(f"{address} ended the connection")
        try:
            stream = await asyncio.get_running_loop().start_tls(
                self._transport, self, context, server_hostname=address.host
            )
        except ssl.SSLCertVerificationError as error:
            raise LoginRefusedError(
                f"the certificate of the broker at {address} is not believed: {error.verify_message}",
                hint=hint,
            ) from None
        if stream is None:
            raise BrokerAwayError(f"{address} ended the connection")
        self._transport = prepare(stream, high_water_bytes=WRITE_HIGH_WATER_BYTES)

    def serve(self, first: bytes) -> None:
        """From now on the outgoing buffer is this socket's; `first` goes before it."""
        if self._transport is None or self._closed.done():
            raise BrokerAwayError("the broker ended the connection")
        self._serving = True
        self._outgoing.attach(self._transport, first)
        self._keep_alive()

    # -- asyncio ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for INFO."""
        self._transport = prepare(transport, high_water_bytes=WRITE_HIGH_WATER_BYTES)
        expect_answers(transport, HOST_GONE_S)

    def data_received(self, data: bytes) -> None:
        """Scan a buffer; bytes that are not the protocol end the connection."""
        self.received_bytes += len(data)
        self._unanswered = 0  # who speaks is there
        try:
            self._scanner.feed(data)
        except WireError as error:
            self.end("malformed bytes from the broker", error.message)

    def pause_writing(self) -> None:
        """The socket is full."""
        if self._serving:
            self._outgoing.pause()

    def resume_writing(self) -> None:
        """The socket drained."""
        if self._serving:
            self._outgoing.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell all who wait, and the owner."""
        self._transport = None
        if self._alive is not None:
            self._alive.cancel()
        reason, why = self._end
        reason = reason or "the broker closed the connection"
        why = why or str(exc or reason)
        for future in (self._greeted, self._accepted, *self._pongs):
            if future is not None and not future.done():
                future.set_exception(BrokerAwayError(why))
                future.exception()  # whether anybody waits for it or not
        self._pongs.clear()
        if not self._closed.done():
            self._closed.set_result(None)
        if self._serving:
            self._serving = False
            self._owner.socket_lost(self, reason, why)

    # -- talking ------------------------------------------------------------------------------------------

    def ping(self) -> asyncio.Future[None]:
        """Done when the server has taken all that was said so far."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pongs.append(future)
        self._outgoing.say(b"PING\r\n")
        return future

    def probe(self) -> None:
        """Have the server say something; nobody waits for it."""
        self._pongs.append(None)
        self._outgoing.say(b"PING\r\n")

    def say_directly(self, lines: bytes) -> asyncio.Future[None]:
        """Say something before all that waits; done when the server has taken it."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._transport is None:
            future.set_exception(BrokerAwayError("the broker ended the connection"))
        else:
            self._pongs.append(future)
            self._transport.write(lines + b"PING\r\n")
        return future

    def retire(self) -> None:
        """Another socket takes its place: its end is nobody's loss."""
        self._serving = False
        if self._alive is not None:
            self._alive.cancel()

    def end(self, reason: str, why: str = "") -> None:
        """Close the socket at once."""
        self._end = self._end if self._end[0] else (reason, why or reason)
        if self._transport is not None:
            self._transport.abort()

    async def close(self) -> None:
        """Close the socket after what was written, and wait for its end."""
        self._serving = False
        if self._transport is not None:
            self._transport.close()
            await asyncio.wait([self._closed], timeout=1.0)
        self.end("closed")

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def _keep_alive(self) -> None:
        """Ask now and then whether the server is there; a frozen one does not close its sockets."""
        if self._unanswered >= MAX_UNANSWERED_PINGS:
            self.end("the broker does not answer", f"no answer to {self._unanswered} pings")
            return
        self._unanswered += 1
        self._pongs.append(None)
        self._outgoing.say(b"PING\r\n")
        self._alive = asyncio.get_running_loop().call_later(PING_S, self._keep_alive)

    def _control(self, line: bytes) -> None:
        verb, _, rest = line.partition(b" ")
        match verb.upper():
            case b"PING":
                self._write(b"PONG\r\n")
            case b"PONG":
                future = self._pongs.popleft() if self._pongs else None
                if future is not None and not future.done():
                    future.set_result(None)
            case b"INFO":
                self._inform(parse_info(rest))
            case b"-ERR":
                self._complain(rest.decode(errors="replace").strip().strip("'"))
            case b"+OK":
                pass
            case _:
                raise WireError(f"a nats-server does not say {line[:80]!r}")

    def _inform(self, info: ServerInfo) -> None:
        if not self._greeted.done():
            self._greeted.set_result(info)
        else:
            self.info = info
            if self._serving:
                self._owner.informed(info)

    def _complain(self, what: str) -> None:
        """Whether an error ends the connection is the server's to decide, and it does so itself."""
        if self._serving:
            self._owner.complained(what)
        if what.lower() in _ENDS and not self._end[0]:
            self._end = (_ENDS[what.lower()], what)
        if not self._accepted.done():
            self._accepted.set_exception(self._refusal(what))
            self._accepted.exception()  # whether anybody waits for it or not

    def _refusal(self, what: str) -> BrokerAwayError:
        if _ENDS.get(what.lower()) != NOT_LET_IN:
            return BrokerAwayError(what)
        if self._user:
            return LoginRefusedError(
                f"the broker does not let the user {self._user!r} in",
                hint="its key may be revoked or of another federation; ask who runs it for another",
            )
        return LoginRefusedError(
            f"the broker lets nobody in without credentials that it knows ({what})",
            hint=GIVE_CREDENTIALS,
        )


NOT_LET_IN = "the broker does not allow this user"

_ENDS = {
    "stale connection": "the broker got no answer to its pings",
    "slow consumer": "the broker found this client too slow",
    "maximum payload violation": "a message was too large for the broker",
    "authorization violation": NOT_LET_IN,
    "user authentication expired": NOT_LET_IN,
    "user authentication revoked": NOT_LET_IN,
    "server shutdown": "the broker shuts down",
}


async def open_socket(
    address: ServerAddress,
    name: str,
    inlets: dict[int, Inlet],
    outgoing: Outgoing,
    owner: ProtocolOwner,
    timeout_s: float,
    *,
    login: BrokerLogin | None = None,
    tls: ssl.SSLContext | None = None,
) -> ClientProtocol:
    """A socket that a server has accepted, or OSError or BrokerAwayError."""
    protocol = ClientProtocol(inlets, outgoing, owner)
    try:
        async with asyncio.timeout(timeout_s):
            loop = asyncio.get_running_loop()
            await loop.create_connection(lambda: protocol, address.host, address.port)
            await protocol.introduce(name, address, login, tls)
    except BaseException:
        protocol.end("not accepted")
        raise
    return protocol
