"""The line between the two gateways of a domain: one TCP connection, written to at once.

The second gateway calls the first. What one says is handed to the kernel before anything that follows from it
is done, so that it is heard even if this process dies in the next instant: no event loop's buffer is between.
With keys, both prove by their domain's certificate who they are before they greet; other keys are taken over
by another connection, and neither notices.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Protocol

import msgspec

from mangrove.gateway.pair.line_connection import LineConnection
from mangrove.gateway.trust.admission import Admission
from mangrove.gateway.trust.keys_in_force import LOOK_EVERY_S, KeysInForce
from mangrove.gateway.trust.proven_stream import ProvenStream
from mangrove.gateway.trust.refusals import Refusal, Refusals, RefusedError
from mangrove.host.audit.audit_log import AuditLog
from mangrove.model.address import Address
from mangrove.model.gateway_settings import PairSettings
from mangrove.overlay.pair.messages import Ending, PairGoodbye, PairHello, RecordKind, word_record
from mangrove.overlay.protocol.frames import FrameError

log = logging.getLogger(__name__)

CALL_AGAIN_S = 0.05
GREETING_TIMEOUT_S = 1.0
BACKLOG = 128


class LineOwner(Protocol):
    """Who is told what comes over the line."""

    def line_up(self) -> None:
        """The other gateway has greeted."""

    def line_down(self, ending: Ending | None) -> None:
        """It said goodbye, or died."""

    def said(self, kind: RecordKind, body: bytes) -> None:
        """It said something; FrameError closes the line."""


class PairLine:
    """Keeps the line up. Use `run` as a task; `say` whenever the line is up."""

    def __init__(
        self,
        settings: PairSettings,
        hello: PairHello,
        owner: LineOwner,
        *,
        keys: KeysInForce | None = None,
        audit: AuditLog | None = None,
    ) -> None:
        self._settings = settings
        self._hello = hello
        self._owner = owner
        self._keys = keys
        self._connection: LineConnection | None = None
        self._callers: set[asyncio.Task[None]] = set()
        self._problem = ""
        self._admission: Admission[LineConnection] = Admission((settings.line.host,))
        self.refusals = Refusals(audit, what="line between gateways")

    async def run(self) -> None:
        """Listen for the other gateway, or call it, until cancelled."""
        look = asyncio.get_running_loop().create_task(self._look(), name="look at the line")
        try:
            if self._settings.number == 1:
                await self._listen()
            else:
                await self._call()
        finally:
            look.cancel()
            for caller in self._callers:
                caller.cancel()
            self.close(Ending.STOPS)

    def say(self, record: bytes) -> None:
        """Hand something to the kernel, in order; nobody hears it while the line is down."""
        if self._connection is not None:
            self._connection.send(record)

    def read(self) -> None:
        """Take in what has come so far, without waiting for the event loop's turn."""
        if self._connection is not None:
            self._connection.read()

    def close(self, ending: Ending) -> None:
        """Say why, and close; the owner is told nothing, for it knows."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.send(word_record(PairGoodbye(ending=ending)))
            connection.close()

    # -- inside -------------------------------------------------------------------------------------------

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        address = self._settings.line
        with _socket(address) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(BACKLOG)
            while True:
                accepted, peer = await loop.sock_accept(listener)
                accepted.setblocking(False)
                connection = self._made(accepted, calls=False)
                displaced = self._admission.enter(connection, str(peer[0]))
                if displaced is not None:
                    displaced.end(RefusedError(Refusal.TOO_MANY))
                task = loop.create_task(self._serve(connection), name="the other gateway")
                self._callers.add(task)
                task.add_done_callback(self._callers.discard)

    async def _call(self) -> None:
        while True:
            if self._connection is not None:  # it was renewed
                await self._connection.closed.wait()
            elif (connection := await self._dial()) is not None:
                await self._serve(connection)
            await asyncio.sleep(CALL_AGAIN_S)

    async def _dial(self) -> LineConnection | None:
        made = _socket(self._settings.line)
        try:
            async with asyncio.timeout(GREETING_TIMEOUT_S):
                await asyncio.get_running_loop().sock_connect(made, self._settings.line)
        except (OSError, TimeoutError) as error:
            made.close()
            self._note(f"cannot reach the other gateway at {self._settings.line}: {error}")
            return None
        except asyncio.CancelledError:
            made.close()
            raise
        return self._made(made, calls=True)

    def _made(self, sock: socket.socket, *, calls: bool) -> LineConnection:
        if self._keys is None:
            return LineConnection(self, sock, self._owner, None, calls=calls)
        domain = frozenset((self._hello.domain,))
        connection: LineConnection

        def may_begin() -> bool:
            return self._admission.may_begin(connection, asyncio.get_running_loop().time())

        stream = ProvenStream(self._keys, calls=calls, may_be=domain, may_begin=may_begin)
        connection = LineConnection(self, sock, self._owner, stream, calls=calls)
        return connection

    async def _serve(self, connection: LineConnection) -> None:
        """Greet, and stay until the line ends, or another connection renews this one."""
        try:
            connection.open(self._hello)
            try:
                async with asyncio.timeout(GREETING_TIMEOUT_S):
                    await connection.greeted.wait()
            except TimeoutError:
                if connection.calls:
                    self._note("the other gateway does not greet")
                else:
                    connection.end(RefusedError(Refusal.SLOW))
                return
            await connection.closed.wait()
        finally:
            self._admission.leave(connection)
            connection.close()

    async def _look(self) -> None:
        """Other keys are taken over by another connection; the second gateway sees to it."""
        generation = 0 if self._keys is None else self._keys.generation
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            self.refusals.flush()
            if self._keys is None:
                continue
            if self._settings.number == 2 and self._keys.generation != generation:
                generation = self._keys.generation
                await self._renew()
            proof = None if self._connection is None else self._connection.proof
            reason = "" if proof is None else self._keys.ring.still_trusted(proof.certificate)
            if reason and self._connection is not None:
                self.refusals.note(Refusal.WITHDRAWN, self._hello.domain, reason)
                self._connection.end(RefusedError(Refusal.WITHDRAWN, reason))

    async def _renew(self) -> None:
        if self._connection is None:
            return
        made = await self._dial()
        if made is None:
            return
        try:
            made.open(msgspec.structs.replace(self._hello, renews=True))
            async with asyncio.timeout(GREETING_TIMEOUT_S):
                await made.greeted.wait()
        except TimeoutError:
            log.warning("the line to the other gateway could not be renewed; it goes on")
        finally:
            if self._connection is not made:
                made.close()

    def proven(self, connection: LineConnection) -> None:
        """A caller has proven that it is of this domain."""
        self._admission.leave(connection)

    def greet(self, connection: LineConnection, hello: PairHello) -> None:
        """Somebody greets; FrameError if that is not the other gateway of this domain."""
        own = self._hello
        if (hello.federation, hello.topology, hello.domain) != (own.federation, own.topology, own.domain):
            raise FrameError(f"{hello.domain!r} of {hello.federation!r} ({hello.topology}) called")
        if hello.number == own.number:
            raise FrameError(f"another gateway says that it is number {own.number} of {own.domain!r}")
        self._admission.leave(connection)
        earlier, self._connection = self._connection, connection
        renews = hello.renews and earlier is not None and connection.proof is not None
        if not connection.calls and connection.proof is not None:
            connection.send(word_record(msgspec.structs.replace(own, renews=renews)))
        if earlier is not None and renews:
            earlier.give_way(connection)
            log.info("the line to the other gateway is renewed")
            return
        if earlier is not None:
            earlier.close()
            self._owner.line_down(None)
        self._problem = ""
        log.info("the other gateway of %s is there", own.domain)
        self._owner.line_up()

    def ended(self, connection: LineConnection, ending: Ending | None, error: FrameError) -> None:
        """A connection is at its end."""
        self._admission.leave(connection)
        if self._connection is connection:
            self._connection = None
            log.warning("the line to the other gateway ended: %s", error.message)
            self._owner.line_down(ending)
            return
        reason = error.reason if isinstance(error, RefusedError) else Refusal.GREETING
        self.refusals.note(reason, "somebody", error.message)

    def _note(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            log.info("%s", problem)


def _socket(address: Address) -> socket.socket:
    made = socket.socket(socket.AF_INET6 if ":" in address.host else socket.AF_INET, socket.SOCK_STREAM)
    made.setblocking(False)
    return made
