"""A gateway's attachment to a nats-server: a leaf-node connection, made again whenever it breaks.

Leaf nodes exchange messages in the format of a frame's body, also where queue groups are named, so bodies are
written as they came. Only where others are to be served than the line names is it written anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from time import monotonic
from urllib.parse import urlsplit

from mangrove.broker.attachment import AttachmentOwner, Places
from mangrove.broker.nats.encryption import connect_encrypted
from mangrove.broker.nats.leaf import LeafProtocol
from mangrove.broker.nats.mqtt import HEADER_BYTES, MqttStore
from mangrove.broker.nats.silence import LOOK_S, Life, SilenceWatch
from mangrove.errors import InputError
from mangrove.host.keys.login import LoginSource
from mangrove.model.broker_kinds import BROKER_URLS, BrokerKind
from mangrove.model.questions.vouching import AttachedPlace
from mangrove.overlay.protocol.bodies import Flow, Message, Rewrite, WireError

log = logging.getLogger(__name__)

RECONNECT_S = 0.2
"""After none of the brokers has answered, or one has closed the connection as soon as it was made."""
CONNECT_S = 0.5
"""A broker that does not answer by then is passed over, if there are others."""
DISTRUST_S = 5.0
"""A broker that fell silent is tried after all others for so long."""


STORE_RETURNS_S = 1.5
"""Where MQTT messages pass, the head that stores them is waited for so long: it is started anew."""
AGAIN_S = 0.05


class LeafAttachment:
    """Keeps one leaf-node connection up; its owner is told of everything but the reconnecting.

    Of several URLs, in the order in which their brokers succeed each other as head, the first that answers
    is taken, and kept while it lives. A broker that falls silent is left for the next; where there is but
    one it is waited for.
    """

    def __init__(
        self,
        name: str,
        urls: tuple[str, ...],
        owner: AttachmentOwner,
        *,
        cluster: str = "",
        login: LoginSource | None = None,
        places: Places | None = None,
    ) -> None:
        """Who we are is asked of `login` whenever a connection is made, for keys change.

        In `places` is left how to ask where we are attached.
        """
        if places is not None:
            places.append(self.place)
        self._login = login
        self._name = name
        self._cluster = cluster
        self._urls = urls
        self._owner = owner
        self._mqtt = MqttStore(owner.undelivered)
        self._protocol: LeafProtocol | None = None
        self._last = ""
        """The URL of the broker that was there last."""
        self._silent_at: dict[str, float] = {}

    def place(self) -> AttachedPlace | None:
        """Where we are attached at the moment."""
        protocol = self._protocol
        if protocol is None or not protocol.ready or protocol.closed.is_set():
            return None
        return AttachedPlace(protocol.info.server_id, protocol.info.client_id)

    async def run(self) -> None:
        """Connect, and connect again whenever the broker goes away, until cancelled."""
        warned: set[str] = set()
        try:
            while True:
                await self._back_with_the_store()
                began_at = monotonic()
                for url in self._in_order(began_at):
                    problem = await self._serve(url)
                    if problem and url not in warned:
                        log.warning("head broker %s: %s; trying again", urlsplit(url).netloc, problem)
                    if not problem:
                        warned.clear()
                        break
                    warned.add(url)
                if monotonic() - began_at < RECONNECT_S:
                    await asyncio.sleep(RECONNECT_S)
        finally:
            if self._protocol is not None:
                self._protocol.close("the gateway stops")

    async def _back_with_the_store(self) -> None:
        """Attach to the head again that was closed under us, if it keeps messages for MQTT.

        Sessions of MQTT are at the head and return with it. Who hung on another broker meanwhile would stay
        there, and could not tell the head's next death from subscribers that go.
        """
        head = self._urls[0]
        until = monotonic() + STORE_RETURNS_S
        while self._last == head and self._mqtt.in_use and monotonic() < until:
            if self._is_distrusted(head, monotonic()):
                return
            if await self._serve(head):
                await asyncio.sleep(AGAIN_S)
            else:
                until = monotonic() + STORE_RETURNS_S

    def _in_order(self, now: float) -> list[str]:
        """All URLs, those of brokers that were silent lately at the end."""
        return sorted(self._urls, key=lambda url: self._is_distrusted(url, now))

    def _is_distrusted(self, url: str, now: float) -> bool:
        return now - self._silent_at.get(url, -DISTRUST_S) < DISTRUST_S

    async def _serve(self, url: str) -> str:
        """Stay attached there until it is over; why it could not be, or an empty string if it was."""
        parts = urlsplit(url)
        host, port = parts.hostname or "127.0.0.1", parts.port or BROKER_URLS[BrokerKind.NATS].attach_port
        elsewhere = bool(self._last) and url != self._last
        try:
            login = None if self._login is None else self._login()
        except InputError as error:  # a key file that cannot be read now may be whole in a moment
            return error.message
        protocol = self._protocol = LeafProtocol(
            self._name,
            url,
            self._owner,
            self._mqtt,
            elsewhere=elsewhere,
            cluster=self._cluster,
            login=login,
        )
        try:
            async with asyncio.timeout(CONNECT_S if len(self._urls) > 1 else None):
                if login is not None and login.tls is not None:
                    await connect_encrypted(protocol, host, port, login.tls)
                else:
                    await asyncio.get_running_loop().create_connection(lambda: protocol, host, port)
        except TimeoutError:
            self._silent_at[url] = monotonic()
            return "it does not answer"
        except (OSError, WireError) as error:
            return str(error)
        if len(self._urls) > 1:
            await self._watch(url, protocol)
        await protocol.closed.wait()
        if not protocol.ready:
            return "it closed the connection"
        self._last = url
        return ""

    async def _watch(self, url: str, protocol: LeafProtocol) -> None:
        """Ping the broker until the connection is closed, or it has said nothing for too long."""
        watch, doubted = SilenceWatch(monotonic()), False
        while not protocol.closed.is_set():
            if protocol.ready and protocol.answered:
                protocol.ping(_nothing)
            try:
                async with asyncio.timeout(LOOK_S):
                    await protocol.closed.wait()
            except TimeoutError:
                life = watch.look(monotonic(), protocol.heard)
                if protocol.ready and doubted != (life is not Life.ALIVE):
                    doubted = not doubted
                    self._owner.doubted(doubted)
                if life is Life.SILENT:
                    self._silent_at[url] = monotonic()
                    protocol.abandon("it has fallen silent")
                    return

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


def _nothing() -> None:
    """An answer is a sign of life, and no more."""
