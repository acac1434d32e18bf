"""Overlay links: TCP connections to the neighbouring gateways, greeted before anything else.

For each link one side calls (the one whose name sorts first) and the other listens. A link that breaks is
called again with growing pauses; frames wait meanwhile in a bounded queue. A peer that sends garbage, belongs
to another federation or speaks another protocol version loses its connection, with the reason in the log.

Where a domain has two gateways, both are called. The one that stands by says nothing, and holds the
connection until it takes over: its HELLO is then all that its neighbours need to know.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from time import monotonic

from mangrove.gateway.pair.pair import Pair
from mangrove.host.audit.audit_log import AuditLog
from mangrove.host.sockets import prepare, retransmitted_share
from mangrove.model.address import Address
from mangrove.model.audit.entry import AuditKind
from mangrove.model.gateway_settings import Call
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.instructions import Instruction
from mangrove.overlay.protocol.control_messages import Goodbye, control_body, control_frame
from mangrove.overlay.protocol.frames import Frame, FrameDecoder, FrameError, FrameType

log = logging.getLogger(__name__)

GREETING_TIMEOUT_S = 5.0
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 2.0
FIRST_OF_TWO_PAUSE_S = 0.02
LONGEST_OF_TWO_PAUSE_S = 0.5
"""Between calls to one of two gateways: it may be the one that has taken over."""
WRITE_HIGH_WATER_BYTES = 1 << 13
UNSENT_BYTES = 1 << 13
BATCH_BYTES = 1 << 13
"""A write costs more than all else that a small frame needs."""
MAX_UNGREETED = 64


class EarlierGatewayError(FrameError):
    """A gateway that began earlier claims a domain of which a later one is served."""

    def __init__(self, peer: str, epoch: int) -> None:
        self.peer, self.epoch = peer, epoch
        super().__init__(f"two gateways claim the domain {peer!r}; the one that started later is served")


class LinkEnd:
    """The near end of the link to one neighbour: its counters, and its connection if there is one."""

    def __init__(self, peer: str, engine: OverlayEngine) -> None:
        self.peer = peer
        self._engine = engine
        self.connection: LinkProtocol | None = None
        self.writable = False
        self.frames_out = self.frames_in = self.bytes_out = self.bytes_in = 0
        self.connects = 0
        self.epoch = 0
        self.last_error = ""

    def serve(self, now: float) -> None:
        """Send what waits, the most urgent first, while the socket can take it; small frames in one go."""
        while self.writable and self.connection is not None:
            buffers: list[bytes] = []
            size_bytes = 0
            while size_bytes < BATCH_BYTES and (frame := self._engine.pull(self.peer, now)) is not None:
                head = frame.head()
                buffers += (head, frame.body)
                size_bytes += len(head) + len(frame.body)
            if not buffers:
                return
            self.frames_out += len(buffers) // 2
            self.bytes_out += size_bytes
            self.connection.write(buffers)

    def resume(self, now: float) -> None:
        """The socket can take more."""
        self.writable = True
        self.serve(now)

    def send(self, frame: Frame) -> None:
        """Write a frame, whatever waits."""
        if self.connection is None:
            return  # the engine knows, or will be told with the next event
        head = frame.head()
        self.frames_out += 1
        self.bytes_out += len(head) + len(frame.body)
        self.connection.write([head, frame.body])

    def loss_ratio(self) -> float | None:
        """What share of the present connection's segments had to be sent again."""
        return self.connection.loss_ratio() if self.connection is not None else None

    def shut(self) -> None:
        """There is no connection."""
        self.connection = None
        self.writable = False


class LinkProtocol(asyncio.Protocol):
    """One connection to a neighbour."""

    def __init__(self, links: Links, expected: str | None, *, one_of_two: bool = False) -> None:
        """`one_of_two`: the called domain has another gateway, so that this one may stand by."""
        self._links = links
        self._expected = expected
        self._one_of_two = one_of_two
        self._hello: Frame | None = None
        """The peer's, for as long as this gateway stands by."""
        self._spoken = False
        """Whether the peer has said anything."""
        self._decoder = FrameDecoder()
        self._transport: asyncio.Transport | None = None
        self._timeout: asyncio.TimerHandle | None = None
        self._link: LinkEnd | None = None
        self._reason = ""
        self.host = ""
        """The address that the connection is with, without its port."""
        self.closed = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say HELLO and wait for the peer's."""
        transport = prepare(transport, high_water_bytes=WRITE_HIGH_WATER_BYTES, unsent_bytes=UNSENT_BYTES)
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self.host = str(peer[0]) if peer else ""
        if not self._links.admit(self):
            self.close("too many connections that have not greeted")
            return
        if not self._links.engine.standing_by:
            transport.write(self._links.engine.hello().encode())
        self._timeout = asyncio.get_running_loop().call_later(
            GREETING_TIMEOUT_S, self.close, f"no HELLO within {GREETING_TIMEOUT_S:g} s"
        )

    def data_received(self, data: bytes) -> None:
        """Decode frames and hand them to the engine."""
        try:
            self._spoken = True
            frames = self._decoder.feed(data)
            if self._hello is not None and frames:
                # Nothing may be said to one that stands by. Most often it is that the caller calls anew.
                self.abort("the peer did not wait")
                return
            if self._link is None and frames:
                self._greeted(frames.pop(0))
            if self._link is not None:
                self._note_displacement(frames)
                self._links.engine.heard(self._link.peer, monotonic())
                self._link.bytes_in += len(data)
                self._link.frames_in += len(frames)
                self._links.received(self._link.peer, frames)
        except EarlierGatewayError as error:
            goodbye = self._links.engine.goodbye(error.message, error.peer, error.epoch)
            self.close(error.message, goodbye)
        except FrameError as error:
            self.close(error.message)

    def _greeted(self, hello: Frame) -> None:
        if hello.type is FrameType.GOODBYE:
            self._note_displacement([hello])
        greeting = self._links.engine.greet(hello, self._expected)
        if self._timeout is not None:
            self._timeout.cancel()
        if self._links.engine.standing_by:
            self._hello = hello
            self._links.hold(greeting.domain, self)
            return
        self._link = self._links.attach(greeting.domain, greeting.epoch, self)

    def begin(self) -> None:
        """This gateway has taken over: greet the peer that has waited for that."""
        hello, self._hello = self._hello, None
        if self._transport is None:
            return
        self._transport.write(self._links.engine.hello().encode())
        if hello is not None:
            try:
                self._greeted(hello)
            except FrameError as error:
                self.close(error.message)

    def _note_displacement(self, frames: list[Frame]) -> None:
        """A neighbour that turns this gateway away, because it serves a later one, says which."""
        for frame in frames:
            if frame.type is FrameType.GOODBYE:
                goodbye = control_body(frame)
                epoch = self._links.engine.displacement(goodbye) if isinstance(goodbye, Goodbye) else 0
                if epoch:
                    self._links.told_of(epoch)

    def eof_received(self) -> None:
        """The peer stopped sending; a frame that was under way is lost."""
        if self._decoder.held_bytes:
            self._reason = self._reason or f"cut off inside a frame ({self._decoder.held_bytes} bytes held)"

    def connection_lost(self, exc: Exception | None) -> None:
        """Clean up, and tell why."""
        if self._timeout is not None:
            self._timeout.cancel()
        reason = self._reason or str(exc or "the peer closed the connection")
        who = self._link.peer if self._link else self._expected or self._address()
        self._links.detach(self, self._link, who, reason)
        self._transport = None
        self.closed.set()

    def pause_writing(self) -> None:
        """The socket is full: let frames wait in the link's own queue."""
        if self._link is not None and self._link.connection is self:
            self._link.writable = False

    def resume_writing(self) -> None:
        """The socket drained."""
        if self._link is not None and self._link.connection is self:
            self._link.resume(monotonic())

    def write(self, buffers: list[bytes]) -> None:
        """Write buffers in one go."""
        if self._transport is not None:
            self._transport.writelines(buffers)

    def loss_ratio(self) -> float | None:
        """What share of the segments had to be sent again."""
        return None if self._transport is None else retransmitted_share(self._transport)

    @property
    def silent(self) -> bool:
        """Whether one side has not greeted, as a gateway that stands by does not."""
        waited = self._one_of_two and not self._spoken
        return self._link is None and (waited or self._hello is not None)

    def close(self, reason: str, goodbye: Goodbye | None = None) -> None:
        """Tell the peer why, and close."""
        self._reason = self._reason or reason
        if self._transport is not None and not self._transport.is_closing():
            goodbye = goodbye or Goodbye(reason=reason)
            with contextlib.suppress(RuntimeError):  # uvloop, of a socket that broke in this very turn
                self._transport.write(control_frame(goodbye).encode())
            self._transport.close()

    def abort(self, reason: str) -> None:
        """Close at once; what is in the socket's buffers is given up."""
        self._reason = self._reason or reason
        if self._transport is not None:
            self._transport.abort()

    def _address(self) -> str:
        peer = self._transport.get_extra_info("peername") if self._transport is not None else None
        return f"{peer[0]}:{peer[1]}" if peer else "an unknown peer"


class Links:
    """All links of a gateway."""

    def __init__(
        self,
        engine: OverlayEngine,
        peers: tuple[str, ...],
        *,
        carry_out: Callable[[list[Instruction]], None],
        attached: Callable[[], None],
        pair: Pair | None = None,
        audit: AuditLog | None = None,
    ) -> None:
        """The `pair` hears of later gateways of the own domain, and of all words about interest."""
        self.engine = engine
        self._audit = audit or AuditLog()
        self._pair = pair
        self._held: dict[str, LinkProtocol] = {}
        """Neighbours that wait for this gateway to take over."""
        self._attached = attached
        self._carry_out = carry_out
        self._links = {peer: LinkEnd(peer, engine) for peer in peers}
        self._ungreeted: set[LinkProtocol] = set()
        self._connections: set[LinkProtocol] = set()
        self.refused = 0

    def __getitem__(self, peer: str) -> LinkEnd:
        return self._links[peer]

    def __iter__(self) -> Iterator[LinkEnd]:
        return iter(self._links.values())

    # -- sockets ------------------------------------------------------------------------------------------

    async def listen(self, addresses: tuple[Address, ...]) -> list[asyncio.Server]:
        """Open the listening sockets."""
        loop = asyncio.get_running_loop()
        servers = []
        for address in addresses:
            server = await loop.create_server(
                lambda: LinkProtocol(self, None), address.host, address.port, reuse_address=True
            )
            log.info("listening for neighbours on %s", address)
            servers.append(server)
        return servers

    async def keep_calling(self, call: Call, address: Address) -> None:
        """Keep a connection to a neighbour, or to one of its two gateways, until cancelled."""
        loop = asyncio.get_running_loop()
        link = self._links[call.peer]
        one_of_two = len(call.addresses) > 1
        first_s = FIRST_OF_TWO_PAUSE_S if one_of_two else FIRST_PAUSE_S
        longest_s = LONGEST_OF_TWO_PAUSE_S if one_of_two else LONGEST_PAUSE_S
        pause_s = first_s
        problem = ""
        local = (call.local_host, 0) if call.local_host else None
        while True:
            greeted_before, called_at = link.connects, loop.time()
            protocol = LinkProtocol(self, call.peer, one_of_two=one_of_two)
            try:
                await loop.create_connection(lambda p=protocol: p, *address, local_addr=local)
            except OSError as error:
                if link.connection is None:
                    link.last_error = str(error)
                if str(error) != problem:
                    problem = str(error)
                    log.warning("cannot reach %s at %s: %s; trying again", call.peer, address, error)
            else:
                problem = ""
                await protocol.closed.wait()
            waited = one_of_two and loop.time() - called_at > 1.0  # at one that stands by: no failure
            waited |= link.connects > greeted_before
            pause_s = first_s if waited else min(2 * pause_s, longest_s)
            await asyncio.sleep(pause_s)

    def begin(self) -> None:
        """This gateway has taken over: greet all who have waited for that."""
        waiting = [*self._held.values(), *self._ungreeted]
        self._held.clear()
        for connection in waiting:
            connection.begin()

    async def close(self) -> None:
        """Say goodbye to all neighbours, and wait until they have it."""
        waiting = [connection.closed.wait() for connection in self._connections]
        self.say_goodbye()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                await asyncio.gather(*waiting)

    def say_goodbye(self) -> None:
        """Send what has begun to leave, and take in nothing more."""
        for connection in list(self._connections):
            connection.close("the gateway stops")

    # -- called by connections ----------------------------------------------------------------------------

    def admit(self, connection: LinkProtocol) -> bool:
        """Count a new connection; strangers cannot pile up."""
        self._connections.add(connection)
        if len(self._ungreeted) >= MAX_UNGREETED:
            return False
        self._ungreeted.add(connection)
        return True

    def told_of(self, epoch: int) -> None:
        """A neighbour serves a gateway of this domain that began later."""
        if self._pair is not None:
            self._pair.learned(epoch)

    def hold(self, peer: str, connection: LinkProtocol) -> None:
        """A neighbour waits for this gateway, which stands by; one connection of each is kept."""
        earlier = self._held.get(peer)
        self._ungreeted.discard(connection)
        self._held[peer] = connection
        if earlier is not None and earlier is not connection:
            earlier.close("replaced")

    def attach(self, peer: str, epoch: int, connection: LinkProtocol) -> LinkEnd:
        """A greeted connection serves the link from now on; an older one gives way.

        While a gateway that started later is connected, an earlier one of the same domain is refused: there
        must not be two, and both sides' logs say so.
        """
        link = self._links[peer]
        if link.connection is not None and epoch < link.epoch:
            raise EarlierGatewayError(peer, link.epoch)
        self._ungreeted.discard(connection)
        if link.connection is not None:
            another = " by a gateway that started later" if epoch > link.epoch else ""
            self.drop(peer, f"replaced{another}")
        successor = 0 < link.epoch < epoch and self.engine.federation.domains[peer].gateways > 1
        link.connection, link.epoch = connection, epoch
        link.connects += 1
        link.last_error = ""
        log.info("link to %s is up", peer)
        self._audit.note(AuditKind.LINK_OPENED, peer=peer, host=connection.host)
        self._carry_out(self.engine.peer_up(peer, monotonic(), successor=successor))
        link.resume(monotonic())
        self._attached()
        return link

    def detach(self, connection: LinkProtocol, link: LinkEnd | None, who: str, reason: str) -> None:
        """A connection ended."""
        self._ungreeted.discard(connection)
        self._connections.discard(connection)
        expected = who if who in self._links else ""
        self._held = {peer: held for peer, held in self._held.items() if held is not connection}
        if link is None and connection.silent:
            log.debug("a gateway of %s that has not greeted is called again: %s", who, reason)
        elif link is None:
            self.refused += 1
            log.warning("refused the connection with %s: %s", who, reason)
            self._audit.note(AuditKind.CONNECTION_REFUSED, host=connection.host, peer=expected, reason=reason)
            if who in self._links:
                self._links[who].last_error = reason
        elif link.connection is connection:
            link.shut()
            link.last_error = reason
            log.warning("link to %s is down: %s", who, reason)
            self._audit.note(AuditKind.LINK_CLOSED, peer=link.peer, host=connection.host, reason=reason)
            self._carry_out(self.engine.peer_down(link.peer, monotonic(), reason))

    def drop(self, peer: str, reason: str) -> None:
        """Give up the present connection to a neighbour; it is called again. The engine knows of it."""
        link = self._links[peer]
        connection = link.connection
        link.shut()
        link.last_error = reason
        if connection is not None:
            log.warning("link to %s is down: %s", peer, reason)
            self._audit.note(AuditKind.LINK_CLOSED, peer=peer, host=connection.host, reason=reason)
            connection.abort(reason)

    def received(self, peer: str, frames: list[Frame]) -> None:
        """Frames came in from a greeted neighbour. All are taken in before any is acted upon: few writes."""
        now = monotonic()
        instructions: list[Instruction] = []
        try:
            for frame in frames:
                if self._pair is not None and frame.type is FrameType.INTEREST:
                    self._pair.tell_interest(frame.body)
                instructions += self.engine.receive(peer, frame, now)
        finally:
            self._carry_out(instructions)
