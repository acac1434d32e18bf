"""One connection to a neighbour: proven by certificates where there are keys, then greeted, then served.

With keys, the certificate of the peer must be that of a neighbour's gateway, and its HELLO must name the same
domain. Who called greets first; who was called answers. A connection can take the place of another while the
link goes on: each side says its last word on the one before, and looks at what comes on the other after it
has heard the peer's.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from time import monotonic
from typing import TYPE_CHECKING

from mangrove.gateway.links.end import LinkEnd
from mangrove.gateway.links.inflow import TURN_S, Inflow
from mangrove.gateway.trust.proven_stream import Proof, ProvenStream
from mangrove.gateway.trust.refusals import Refusal, RefusedError
from mangrove.host.sockets import prepare, retransmitted_share
from mangrove.host.tls_channel import HANDSHAKE_RECORD
from mangrove.overlay.protocol.control_messages import (
    Goodbye,
    Hello,
    Renewal,
    RenewalStep,
    control_body,
    control_frame,
)
from mangrove.overlay.protocol.frames import Frame, FrameDecoder, FrameError, FrameType
from mangrove.overlay.protocol.greeting import OtherDomainError

if TYPE_CHECKING:
    from mangrove.gateway.links.links import Links

GREETING_TIMEOUT_S = 5.0
CLOSING_TIMEOUT_S = 1.0
"""For the last words; who does not read them is not waited for."""
WRITE_HIGH_WATER_BYTES = 1 << 13
UNSENT_BYTES = 1 << 13
MAX_GREETING_BYTES = 1 << 16
"""Bytes of a HELLO that is not complete."""
TLS_ONLY = control_frame(Goodbye(reason="links of this gateway are secured: it takes no calls without TLS"))


class EarlierGatewayError(RefusedError):
    """A gateway that began earlier claims a domain of which a later one is served."""

    def __init__(self, peer: str, epoch: int) -> None:
        self.peer, self.epoch = peer, epoch
        super().__init__(Refusal.EARLIER)
        self.message = f"two gateways claim the domain {peer!r}; the one that started later is served"


class LinkConnection(asyncio.Protocol):
    """One connection to a neighbour."""

    def __init__(
        self, links: Links, expected: str | None, *, one_of_two: bool = False, renews: bool = False
    ) -> None:
        """`one_of_two`: the called domain has another gateway, so that this one may stand by.

        `renews`: it shall take the place of one that serves the link, without the link being lost.
        """
        self._links = links
        self._expected = expected
        self._one_of_two = one_of_two
        self._renews = renews
        self._hello: Frame | None = None
        """The peer's, for as long as this gateway stands by."""
        self._spoken = False
        """Whether the peer has said anything."""
        self._stream: ProvenStream | None = None
        self.proof: Proof | None = None
        """Who the peer is; None before that is known, and where there are no keys."""
        self.generation = 0 if links.keys is None else links.keys.generation
        """Of the own keys that it was made with."""
        self._decoder = FrameDecoder()
        self._transport: asyncio.Transport | None = None
        self._timeout: asyncio.TimerHandle | None = None
        self._closing: asyncio.TimerHandle | None = None
        self._link: LinkEnd | None = None
        self._predecessor: LinkConnection | None = None
        """Whose last frame has to come before one of this connection is looked at."""
        self._successor: LinkConnection | None = None
        self._ended_by_peer = False
        """Whether the peer has said its last word here."""
        self._early: list[Frame] = []
        self._inflow = Inflow(monotonic())
        self._going_on: asyncio.Handle | None = None
        """Set while nothing is read because it is the others' turn."""
        self._reason = ""
        self._refusal = Refusal.BROKEN
        self.address = ""
        self._port = 0
        self.closed = asyncio.Event()
        self.settled = asyncio.Event()
        """It serves its link, or is held by a gateway that stands by, or is closed."""
        self.whole = asyncio.Event()
        """It serves its link alone, or is closed."""

    # -- the line -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Prove who we are, or say HELLO, and wait for the peer to do so."""
        transport = prepare(transport, high_water_bytes=WRITE_HIGH_WATER_BYTES, unsent_bytes=UNSENT_BYTES)
        self._transport = transport
        peer = transport.get_extra_info("peername")
        if peer:
            self.address, self._port = str(peer[0]), int(peer[1])
        calls = self._expected is not None
        self._links.entered(self, called=calls)
        self._timeout = asyncio.get_running_loop().call_later(GREETING_TIMEOUT_S, self._too_slow)
        keys = self._links.keys
        if keys is None:
            self._say_hello(renews=False)
            return
        may_be = self._links.peers if self._expected is None else frozenset((self._expected,))
        self._stream = ProvenStream(keys, calls=calls, may_be=may_be, may_begin=self._may_begin)
        if calls:
            transport.write(self._stream.begin())

    def _may_begin(self) -> bool:
        return self._links.admission.may_begin(self, monotonic())

    def _too_slow(self) -> None:
        missing = "proof of who it is" if self._stream is not None and self.proof is None else "HELLO"
        self.refuse(Refusal.SLOW, f"no {missing} within {GREETING_TIMEOUT_S:g} s")

    def data_received(self, data: bytes) -> None:
        """Decode frames and hand them to the engine."""
        size_bytes = len(data)
        try:
            if self._stream is not None:
                data = self._opened(self._stream, data)
                if not data:
                    return
            self._take(data, size_bytes)
        except EarlierGatewayError as error:
            self._refusal = error.reason
            self.close(error.message, self._links.engine.goodbye(error.message, error.peer, error.epoch))
        except RefusedError as error:
            if error.reason is Refusal.NO_TLS and self._expected is None:
                self._put(TLS_ONLY.encode())
            self.refuse(error.reason, error.message)
        except OtherDomainError as error:
            self.refuse(Refusal.OTHER_DOMAIN, error.message)
        except FrameError as error:
            self.refuse(Refusal.GREETING, error.message)

    def _opened(self, stream: ProvenStream, data: bytes) -> bytes:
        """What the peer says inside TLS; empty while the handshake goes on."""
        try:
            plain = stream.receive(data)
        finally:
            self._put(stream.outgoing())  # of the handshake, or the alert that tells the peer
        if self.proof is None and stream.proof is not None:
            self.proof = stream.proof
            self._links.proven(self, self.proof.domain)
            if self._expected is not None:
                self._say_hello(renews=self._renews)
        if stream.ended and self._transport is not None:
            self._transport.close()
        return plain

    # -- greeting -----------------------------------------------------------------------------------------

    def _say_hello(self, *, renews: bool) -> None:
        if not self._links.engine.standing_by:
            self.write([self._links.engine.hello(renews=renews).encode()])

    def _take(self, data: bytes, size_bytes: int) -> None:
        """Words of a peer that has proven who it is, where that is asked for."""
        if not self._spoken:
            self._spoken = True
            if self._stream is None and data[0] == HANDSHAKE_RECORD:
                raise RefusedError(Refusal.TLS)
        frames = self._decoder.feed(data)
        if self._hello is not None and frames:
            # Nothing may be said to one that stands by. Most often it is that the caller calls anew.
            self.abort("the peer did not wait")
            return
        if self._link is None:
            if frames:
                self._greeted(frames.pop(0))
            elif self._decoder.held_bytes > MAX_GREETING_BYTES:
                raise FrameError(f"its first frame has more than {MAX_GREETING_BYTES} bytes")
        if self._link is not None:
            self._links.engine.heard(self._link.peer, monotonic())
            self._link.bytes_in += size_bytes
            if self._predecessor is not None:
                self._early += frames
            else:
                self._pass_on(frames)

    def _greeted(self, hello: Frame) -> None:
        if hello.type is FrameType.GOODBYE:
            self._note_displacement([hello])
        proven = None if self.proof is None else self.proof.domain
        greeting = self._links.engine.greet(hello, self._expected, proven)
        if self._timeout is not None:
            self._timeout.cancel()
        if self._links.engine.standing_by:
            self._hello = hello
            self._links.hold(greeting.domain, self)
            self.settled.set()
            return
        self._serve(greeting)

    def _serve(self, greeting: Hello) -> None:
        """Serve the link from now on: in place of the connection before, if both sides want that."""
        answers = self.proof is not None and self._expected is None
        before = None
        if greeting.renews and (answers or self._renews):
            before = self._links.renewable(greeting.domain, greeting.epoch, self)
        if answers:
            self._say_hello(renews=before is not None)
        if before is not None:
            self._wait_for(before)
            self._link = self._links.renew(greeting.domain, before, self)
            before.give_way(self)
        else:
            self._link = self._links.attach(greeting.domain, greeting.epoch, greeting.spoken, self)
            self.whole.set()
        self.settled.set()

    def begin(self) -> None:
        """This gateway has taken over: greet the peer that has waited for that."""
        hello, self._hello = self._hello, None
        if self._transport is None:
            return
        if self._stream is None:
            self._say_hello(renews=False)
        if hello is not None:
            try:
                self._greeted(hello)
            except FrameError as error:
                self.refuse(Refusal.GREETING, error.message)

    def _note_displacement(self, frames: list[Frame]) -> None:
        """A neighbour that turns this gateway away, because it serves a later one, says which."""
        for frame in frames:
            if frame.type is FrameType.GOODBYE:
                goodbye = control_body(frame)
                epoch = self._links.engine.displacement(goodbye) if isinstance(goodbye, Goodbye) else 0
                if epoch:
                    self._links.told_of(epoch)

    # -- frames -------------------------------------------------------------------------------------------

    def _pass_on(self, frames: list[Frame]) -> None:
        """Look at what has come; what does not fit into one turn of the loop, or is not worth it, waits."""
        assert self._link is not None
        engine, peer, inflow = self._links.engine, self._link.peer, self._inflow
        inflow.add(frames)
        refused, began = engine.refused_from(peer), monotonic()
        try:
            self._look_at(inflow.portion())
            while inflow.waits and self._open and monotonic() - began < TURN_S:
                self._look_at(inflow.portion())
        finally:
            if count := engine.refused_from(peer) - refused:
                inflow.refused(count, monotonic())
        rest_s = inflow.rest_s()
        if self._transport is not None and self._open and (rest_s or inflow.waits):
            loop = asyncio.get_running_loop()
            self._transport.pause_reading()
            self._going_on = loop.call_later(rest_s, self._go_on) if rest_s else loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        """It is this connection's turn again."""
        self._going_on = None
        if self._transport is None or self._link is None or not self._open:
            return
        try:
            if self._inflow.waits:
                self._links.engine.heard(self._link.peer, monotonic())
                self._pass_on([])
        except FrameError as error:
            self.refuse(Refusal.GREETING, error.message)
        if self._going_on is None and self._open:
            self._transport.resume_reading()

    @property
    def _open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def _look_at(self, frames: list[Frame]) -> None:
        assert self._link is not None
        self._note_displacement(frames)
        self._link.frames_in += len(frames)
        before = 0
        if self.proof is not None:
            for index, frame in enumerate(frames):
                if frame.type is FrameType.RENEWAL:
                    self._links.received(self._link.peer, frames[before:index])
                    self._renewal(frame)
                    before = index + 1
        self._links.received(self._link.peer, frames[before:] if before else frames)

    def _renewal(self, frame: Frame) -> None:
        """The peer asks for another connection, or has said its last word on this one."""
        step = control_body(frame)
        assert isinstance(step, Renewal)
        assert self._link is not None
        if step.step is RenewalStep.ASKED:
            self._links.renewal_asked(self._link.peer)
            return
        if self._ended_by_peer:
            raise FrameError("the peer said its last word twice")
        self._ended_by_peer = True
        if self._successor is None:  # its greeting is still under way, on the other connection
            self._wait_at_most("the peer goes on with a connection that does not come about")
        else:
            self._make_way(self._successor)

    def say_last(self) -> None:
        """From now on, words to the peer go to the connection that takes this one's place."""
        self.write([control_frame(Renewal(step=RenewalStep.LAST)).encode()])

    def give_way(self, successor: LinkConnection) -> None:
        """What the peer still says here comes before what it says to the successor."""
        self._successor = successor
        if self._ended_by_peer:
            self._make_way(successor)

    def _make_way(self, successor: LinkConnection) -> None:
        self._successor = None
        successor.follow()
        self._reason = self._reason or "renewed"
        self._end()

    def _wait_for(self, predecessor: LinkConnection) -> None:
        """Read nothing more until the connection before has brought its last frame; bounded in time."""
        self._predecessor = predecessor
        if self._transport is not None:
            self._transport.pause_reading()
            self._wait_at_most("the connection that it renews did not end")

    def _wait_at_most(self, reason: str) -> None:
        if self._timeout is not None:
            self._timeout.cancel()
        self._timeout = asyncio.get_running_loop().call_later(GREETING_TIMEOUT_S, self.abort, reason)

    def follow(self) -> None:
        """The last frame of the connection before has come."""
        self._predecessor = None
        if self._timeout is not None:
            self._timeout.cancel()
        self.whole.set()
        early, self._early = self._early, []
        if self._transport is None:
            return
        self._transport.resume_reading()
        try:
            self._pass_on(early)
        except FrameError as error:
            self.refuse(Refusal.GREETING, error.message)

    @property
    def serves(self) -> bool:
        """Whether it has greeted, and serves or has served its link."""
        return self._link is not None

    @property
    def in_renewal(self) -> bool:
        """Whether it waits for the last word of another, or another for its."""
        return self._predecessor is not None or self._successor is not None

    @property
    def records_out(self) -> int:
        """How many TLS records were sent under the keys of this connection."""
        return 0 if self._stream is None else self._stream.records_out

    def set_record_bytes(self, size_bytes: int) -> None:
        """How much goes into one TLS record."""
        if self._stream is not None:
            self._stream.set_record_bytes(size_bytes)

    # -- writing ------------------------------------------------------------------------------------------

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
        if self._transport is None:
            return
        if self._stream is None:
            self._transport.writelines(buffers)
        else:
            self._transport.write(self._stream.seal(buffers))

    def _put(self, data: bytes) -> None:
        """Bytes for the line, as they are."""
        if data and self._transport is not None and not self._transport.is_closing():
            with contextlib.suppress(RuntimeError):  # uvloop, of a socket that broke in this very turn
                self._transport.write(data)

    def loss_ratio(self) -> float | None:
        """What share of the segments had to be sent again."""
        return None if self._transport is None else retransmitted_share(self._transport)

    # -- the end ------------------------------------------------------------------------------------------

    def eof_received(self) -> None:
        """The peer stopped sending; a frame that was under way is lost."""
        if self._decoder.held_bytes:
            self._reason = self._reason or f"cut off inside a frame ({self._decoder.held_bytes} bytes held)"

    def connection_lost(self, exc: Exception | None) -> None:
        """Clean up, and tell why."""
        for timer in (self._timeout, self._closing, self._going_on):
            if timer is not None:
                timer.cancel()
        self._inflow.clear()
        for other in (self._predecessor, self._successor):
            if other is not None:  # nobody can tell any more what came before what
                other.abort("the connection that renews it, or that it renews, ended early")
        self._predecessor = self._successor = None
        reason = self._reason or str(exc or "the peer closed the connection")
        who = self._link.peer if self._link else self._expected or self._who()
        self._links.detach(self, self._link, who, reason, self._refusal)
        self._transport = None
        self._early.clear()
        if self._stream is not None:
            self._stream.release()
        for event in (self.closed, self.settled, self.whole):
            event.set()

    @property
    def silent(self) -> bool:
        """Whether one side has not greeted, as a gateway that stands by does not."""
        proven = self._stream is None or self.proof is not None
        harmless = self._refusal is Refusal.BROKEN or (self._refusal is Refusal.SLOW and proven)
        waited = self._one_of_two and not self._spoken and harmless
        return self._link is None and (waited or self._hello is not None)

    def refuse(self, reason: Refusal, detail: str) -> None:
        """End it for a reason that is counted, unless it serves a link already."""
        self._refusal = reason
        self.close(detail)

    def close(self, reason: str, goodbye: Goodbye | None = None) -> None:
        """Tell the peer why if it may know, and close."""
        self._reason = self._reason or reason
        if self._transport is not None and not self._transport.is_closing():
            if self._stream is None or self.proof is not None:
                goodbye = goodbye or Goodbye(reason=reason)
                with contextlib.suppress(RuntimeError, ssl.SSLError):  # it broke in this very turn
                    self.write([control_frame(goodbye).encode()])
            self._end()

    def _end(self) -> None:
        """Close when what was written has left; soon, in any case."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.close()
            self._closing = asyncio.get_running_loop().call_later(CLOSING_TIMEOUT_S, self._transport.abort)

    def abort(self, reason: str) -> None:
        """Close at once; what is in the socket's buffers is given up."""
        self._reason = self._reason or reason
        if self._transport is not None:
            self._transport.abort()

    def _who(self) -> str:
        return f"{self.address}:{self._port}" if self.address else "an unknown peer"
