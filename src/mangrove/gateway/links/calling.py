"""Calls to one address of a neighbour: a connection is kept there, and renewed while the link goes on."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from mangrove.gateway.links.connection import LinkConnection
from mangrove.model.address import Address
from mangrove.model.gateway_settings import Call

if TYPE_CHECKING:
    from mangrove.gateway.links.links import Links

log = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 2.0
FIRST_OF_TWO_PAUSE_S = 0.02
LONGEST_OF_TWO_PAUSE_S = 0.5
"""Between calls to one of two gateways: it may be the one that has taken over."""
RENEW_AGAIN_S = 5.0
"""A connection that could not be renewed goes on, and this is when it is tried again."""


class Caller:
    """Keeps a connection to a neighbour, or to one of its two gateways."""

    def __init__(self, links: Links, call: Call, address: Address) -> None:
        self._links = links
        self._link = links[call.peer]
        self._address = address
        self._local = (call.local_host, 0) if call.local_host else None
        self._one_of_two = len(call.addresses) > 1
        self._problem = ""
        self.peer = call.peer
        self.renewal = asyncio.Event()
        """Set when another connection shall take the place of the present one."""

    async def run(self) -> None:
        """Call, and call again, until cancelled."""
        loop = asyncio.get_running_loop()
        first_s = FIRST_OF_TWO_PAUSE_S if self._one_of_two else FIRST_PAUSE_S
        longest_s = LONGEST_OF_TWO_PAUSE_S if self._one_of_two else LONGEST_PAUSE_S
        pause_s = first_s
        while True:
            greeted_before, called_at = self._link.connects, loop.time()
            connection = await self._dial(renews=False)
            if connection is not None:
                await self._stay(connection)
            waited = self._one_of_two and loop.time() - called_at > 1.0  # at one that stands by: no failure
            waited |= self._link.connects > greeted_before
            pause_s = first_s if waited else min(2 * pause_s, longest_s)
            await asyncio.sleep(pause_s)

    async def _dial(self, *, renews: bool) -> LinkConnection | None:
        """A connection that has begun, or None if nobody answers there."""
        made = LinkConnection(self._links, self.peer, one_of_two=self._one_of_two, renews=renews)
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: made, *self._address, local_addr=self._local)
        except OSError as error:
            if self._link.connection is None:
                self._link.last_error = str(error)
            if str(error) != self._problem:
                self._problem = str(error)
                log.warning("cannot reach %s at %s: %s; trying again", self.peer, self._address, error)
            return None
        self._problem = ""
        return made

    async def _stay(self, connection: LinkConnection) -> None:
        """Until the connection, or the last of those that have renewed it, is closed."""
        self.renewal.clear()
        while not connection.closed.is_set():
            waits = [asyncio.ensure_future(each.wait()) for each in (connection.closed, self.renewal)]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()
            if self.renewal.is_set() and not connection.closed.is_set():
                self.renewal.clear()
                connection = await self._renewed(connection)

    async def _renewed(self, connection: LinkConnection) -> LinkConnection:
        """The connection that has taken the place of this one; this one if that could not be."""
        if self._link.connection is not connection:
            connection.close("other keys are in force")  # at one that stands by: nothing can be lost
            return connection
        await connection.whole.wait()  # it may be about to take another's place itself
        made = await self._dial(renews=True)
        if made is not None:
            await made.settled.wait()
            if self._link.connection is made:
                return made
        if not connection.closed.is_set():
            log.warning("the connection with %s could not be renewed; it goes on", self.peer)
            asyncio.get_running_loop().call_later(RENEW_AGAIN_S, self.renewal.set)
        return connection
