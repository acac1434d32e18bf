"""A gateway's attachment to a nats-server: a leaf-node connection, made again whenever it breaks.

Leaf nodes exchange messages in the format of a frame's body, also where queue groups are named, so bodies are
written as they came. Only where others are to be served than the line names is it written anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

from mangrove.broker.attachment import AttachmentOwner
from mangrove.broker.nats.leaf import LeafProtocol
from mangrove.broker.nats.mqtt import HEADER_BYTES, MqttStore
from mangrove.model.broker_kinds import BROKER_URLS, BrokerKind
from mangrove.overlay.protocol.bodies import Flow, Message, Rewrite

log = logging.getLogger(__name__)

RECONNECT_S = 0.2


class LeafAttachment:
    """Keeps one leaf-node connection up; its owner is told of everything but the reconnecting."""

    def __init__(self, name: str, url: str, owner: AttachmentOwner) -> None:
        self._name = name
        self._url = url
        parts = urlsplit(url)
        self._host = parts.hostname or "127.0.0.1"
        self._port = parts.port or BROKER_URLS[BrokerKind.NATS].attach_port
        self._owner = owner
        self._mqtt = MqttStore(owner.undelivered)
        self._protocol: LeafProtocol | None = None

    async def run(self) -> None:
        """Connect, and connect again whenever the broker goes away, until cancelled."""
        loop = asyncio.get_running_loop()
        failed = False
        try:
            while True:
                protocol = self._protocol = LeafProtocol(self._name, self._url, self._owner, self._mqtt)
                try:
                    await loop.create_connection(lambda p=protocol: p, self._host, self._port)  # type: ignore[misc]
                except OSError as error:
                    if not failed:
                        log.warning("head broker %s:%d: %s; trying again", self._host, self._port, error)
                    failed = True
                else:
                    failed = False
                    await protocol.closed.wait()
                await asyncio.sleep(RECONNECT_S)
        finally:
            if self._protocol is not None:
                self._protocol.close("the gateway stops")

    def subscribe(self, subjects: Iterable[str]) -> None:
        """Ask for what the domain's publishers send on these subjects."""
        if self._protocol is not None:
            self._protocol.subscribe(subjects)

    def unsubscribe(self, subjects: Iterable[str]) -> None:
        """End subscriptions."""
        if self._protocol is not None:
            self._protocol.unsubscribe(subjects)

    def confirm(self, done: Callable[[], None]) -> None:
        """Call `done` when the broker has taken all subscriptions so far."""
        if self._protocol is not None:
            self._protocol.ping(done)

    def after_interest(self, done: Callable[[], None]) -> None:
        """Call `done` when the owner was told all that the broker has said of subscriptions so far."""
        if self._protocol is not None:
            self._protocol.after_interest(done)

    def outlet(self, line: bytes, message: Message, groups: tuple[str, ...]) -> Flow:
        """This attachment itself, or a flow that names queue groups or serves MQTT and hands on to it."""
        plain: Flow = self
        if groups != message.groups:
            plain = Rewrite(line, message.line(message.subject, message.reply, groups), message.skip, self)
        if message.header_bytes == HEADER_BYTES:
            return self._mqtt.copies(line, message, plain, self)
        return plain

    def take(self, messages: bytes) -> None:
        """Write whole messages."""
        if self._protocol is not None:
            self._protocol.write(messages)
