"""Logs a connection in anew without a gap: a second socket to the same server takes the place of the first.

The second one is subscribed to everything before the first leaves, and what is published goes to it when the
server has taken all that went to the first (docs/decisions/0147-who-is-connected-logs-in-anew.md).
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from types import MethodType
from typing import TYPE_CHECKING, Any

from mangrove.broker.client_connection import BrokerAwayError, Form, RawMessage, Sink
from mangrove.broker.nats.client.overlap import SocketOverlap
from mangrove.broker.nats.client.protocol import ClientProtocol
from mangrove.broker.nats.client.scanner import Inlet, no_sink
from mangrove.model.selectors.group_names import beside

if TYPE_CHECKING:
    from mangrove.broker.nats.client.connection import NatsClientConnection

log = logging.getLogger(__name__)

MARKED_S = 2.0
"""Markers that need longer do not come."""
MAX_MARKERS = 20
BETWEEN_S = 0.002


class RenewalError(Exception):
    """It cannot be done now; the first socket goes on as if nothing had been tried."""


class Renewal:
    """One change from the `old` socket of a connection to the `new` one. Run it once."""

    def __init__(
        self,
        connection: NatsClientConnection,
        inlets: dict[int, Inlet],
        old: ClientProtocol,
        new: ClientProtocol,
        marker_prefix: str,
    ) -> None:
        """Markers, if the user may publish any, go on subjects that begin with `marker_prefix`."""
        self._connection = connection
        self._inlets = inlets
        self._old = old
        self._new = new
        self._overlap = SocketOverlap(marked=bool(marker_prefix))
        self._marker = f"{marker_prefix}{secrets.token_hex(8)}" if marker_prefix else ""
        self._markers: list[Inlet] = []
        self._marked = asyncio.Event()
        self._told: dict[int, Inlet] = {}
        """What the new socket was subscribed to."""
        self._leaving = False
        self._redirected: list[tuple[Inlet, Sink, Form, Any]] = []

    async def run(self) -> int:
        """How many messages came by both; RenewalError or BrokerAwayError if all stays as it was."""
        if any(isinstance(inlet.form, MethodType) for inlet in self._inlets.values()):
            raise RenewalError("a subscription is being moved")
        if self._new.info.server_id != self._old.info.server_id:
            raise RenewalError("another server answers there")
        self._old.gate, self._new.gate = self._overlap.old, self._overlap.new
        try:
            await self._join()
            if not self._connection.serves(self._old):
                raise RenewalError("the broker was lost meanwhile")
        except BaseException:
            self._old.gate = None
            self._connection.forget(self._markers)
            raise
        await self._change()
        return self._overlap.repeated

    def redirect(self, inlet: Inlet, sink: Sink, form: Form, origin: Any) -> bool:
        """Whether somebody who takes a subscription over waits for the end of the change."""
        if self._leaving:
            self._redirected.append((inlet, sink, form, origin))
        else:
            self._new.end("a subscription is being moved")
        return self._leaving

    async def _join(self) -> None:
        """Subscribe the new socket to everything, and wait until both bring the same between markers."""
        if self._marker:
            for gate in (self._overlap.old, self._overlap.new):
                self._markers.append(self._connection.inlet(self._marker, no_sink, self._marking(gate)))
            await self._old.say_directly(b"SUB %b %d\r\n" % (self._marker.encode(), self._markers[0].sid))
        self._told = {sid: each for sid, each in self._inlets.items() if each not in self._markers[:1]}
        await self._new.say_directly(b"".join(each.line_beside for each in self._told.values()))
        try:
            async with asyncio.timeout(MARKED_S):
                for number in range(1, MAX_MARKERS + 1):
                    if self._overlap.agree(at_last=number == MAX_MARKERS):
                        break
                    await self._mark(number)
                    await asyncio.sleep(BETWEEN_S)
        except TimeoutError:
            raise RenewalError("markers do not come through") from None
        if self._overlap.too_much:
            raise RenewalError("too much comes meanwhile")

    async def _mark(self, number: int) -> None:
        """Send a marker through both, and wait until it has come."""
        await self._new.say_directly(b"PUB %b 0\r\n\r\n" % self._marker.encode())
        while min(self._overlap.old.markers, self._overlap.new.markers) < number:
            await self._marked.wait()
            self._marked.clear()

    def _marking(self, gate: Any) -> Form:
        def form(subject: str, data: bytes, head: bytes, reply: str, origin: Any) -> RawMessage:
            gate.mark(self._inlets)
            self._marked.set()
            return RawMessage(subject, data, head, reply)

        return form

    async def _change(self) -> None:
        """Leave the old socket, and go on with the new one when nothing more comes or goes by the old."""
        old, new = self._old, self._new
        self._leaving = True
        for each in self._told.values():
            each.queue = beside(each.queue)
        self._connection.hold_for(new)
        old.retire()
        leave = b"".join(b"UNSUB %d\r\n" % sid for sid in self._inlets)
        self._connection.forget(self._markers)
        try:
            await old.say_directly(leave)
        except BrokerAwayError:
            log.info("%s ended the connection that was to be left", self._connection.url)
        except BaseException:
            old.end("closed")
            raise
        finally:
            old.gate = None
            self._overlap.release()
            for redirected in self._redirected:
                self._connection.redirect_at_once(*redirected)
        added = [each.sub_line for sid, each in self._inlets.items() if sid not in self._told]
        ended = [b"UNSUB %d\r\n" % sid for sid in self._told if sid not in self._inlets]
        self._connection.go_on_with(new, b"".join((*added, *ended)))
        behind = new.ping()
        behind.add_done_callback(self._settled)
        try:
            await old.close()
        finally:
            old.end("left")

    def _settled(self, behind: asyncio.Future[None]) -> None:
        """What the old socket had brought has come by the new one, too."""
        if not behind.cancelled():
            behind.exception()
        self._new.gate = None
