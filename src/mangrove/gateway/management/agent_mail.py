"""What the agents of this domain and of linked ones say to each other, on its way through the gateway.

Nothing is kept for long: agents expect that words get lost, and say again what matters. What is not carried
is counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

import nats.errors
from nats.aio.client import Client

from mangrove.model.agents.names import from_peer_subject, to_peer_subject

MAX_WAITING = 256
"""Messages of other agents that the management broker has not taken yet."""

NOT_LINKED = "agent's message to a domain that is not linked"
UNREAD = "agent's message that came while too many were unread"
BROKER_AWAY = "message of another domain's agent while the management broker was away"
BROKER_SLOW = "message of another domain's agent that the management broker took too slowly"


class AgentMail:
    """Takes what the own agent posts, and hands over what comes from others."""

    def __init__(
        self,
        domain: str,
        peers: Collection[str],
        *,
        send: Callable[[str, bytes], None],
        ignored: Callable[[str], None],
    ) -> None:
        """`send` takes a message to a linked domain; `ignored` is told of every one that is left out."""
        self._domain = domain
        self._peers = frozenset(peers)
        self._send = send
        self._ignored = ignored
        self._arrived: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue(MAX_WAITING)
        self._connection: Client | None = None
        self.subject = to_peer_subject(domain, "*")
        """Where the own agent posts."""

    def adopt(self, peers: Collection[str]) -> None:
        """These domains are linked from now on."""
        self._peers = frozenset(peers)

    def posted(self, subject: str, body: bytes) -> None:
        """The own agent says something to the agent of another domain."""
        peer = subject.rpartition(".")[2]
        if peer in self._peers:
            self._send(peer, body)
        else:
            self._ignored(NOT_LINKED)

    def unread(self) -> None:
        """The own agent said more than could be read."""
        self._ignored(UNREAD)

    def arrived(self, peer: str, body: bytes) -> None:
        """The agent of a linked domain says something to the own one."""
        if self._connection is None or not self._connection.is_connected:
            self._ignored(BROKER_AWAY)
            return
        try:
            self._arrived.put_nowait((peer, body))
        except asyncio.QueueFull:
            self._ignored(BROKER_SLOW)

    async def deliver(self, connection: Client) -> None:
        """Hand over what comes, for as long as a connection lasts or until cancelled."""
        self._connection = connection
        try:
            while True:
                peer, body = await self._arrived.get()
                try:
                    await connection.publish(from_peer_subject(self._domain, peer), body)
                except (nats.errors.Error, OSError):
                    self._ignored(BROKER_AWAY)
        finally:
            self._connection = None
