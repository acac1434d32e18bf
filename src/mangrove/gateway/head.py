"""The gateway's side towards its own brokers: a leaf-node connection to the head broker.

Outward: messages that other domains want are sorted into the engine's flows, a buffer at a time. Inward: the
bodies of frames are written to the broker as they came, after a check; only where the domain has queue groups
for a subject are they named in its control line. Interest of the domain's subscribers arrives by itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from time import monotonic
from urllib.parse import urlsplit

from mangrove.broker.nats.leaf import LeafProtocol
from mangrove.gateway.ledger import Ledger
from mangrove.gateway.out_queue import OutQueue
from mangrove.model.subjects import REPLY_PREFIX, is_internal
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.protocol.bodies import (
    DISCARD,
    Entry,
    Flow,
    Rewrite,
    WireError,
    parse_message_line,
    scan,
)

log = logging.getLogger(__name__)

MAX_KNOWN_LINES = 1 << 16
RECONNECT_S = 0.2
DEFAULT_LEAF_PORT = 7422
REQUESTS = "(requests and replies)"


class HeadConnection:
    """Keeps the leaf-node connection up and carries messages through it in both directions."""

    def __init__(
        self,
        engine: OverlayEngine,
        url: str,
        ledger: Ledger,
        *,
        max_message_bytes: int,
        queue_bytes: int,
        buffer_done: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._url = url
        self._ledger = ledger
        self._max_message_bytes = max_message_bytes
        self._buffer_done = buffer_done
        self._outbound_lines: dict[bytes, Entry] = {}
        self._inbound_lines: dict[bytes, Entry] = {}
        # Requests and replies have subjects that are used once: booked, but not remembered.
        self._outbound_once: list[Entry] = []
        self._inbound_once: list[Entry] = []
        self._too_large = _TooLarge(ledger, max_message_bytes)
        self._queue = OutQueue(
            queue_bytes, lambda body: ledger.drop_body(body, "queue to the head broker full")
        )
        self._keep = _Keep(self._queue)
        self._protocol: LeafProtocol | None = None
        self._lost = asyncio.Event()
        self.connected = False

    # -- connection ---------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Connect, and connect again whenever the broker goes away, until cancelled."""
        loop = asyncio.get_running_loop()
        parts = urlsplit(self._url)
        failed = False
        try:
            while True:
                self._lost.clear()
                protocol = LeafProtocol(
                    f"gateway-{self._engine.domain}", self._url, self, self._outbound_lines
                )
                self._protocol = protocol
                try:
                    await loop.create_connection(
                        lambda p=protocol: p,  # type: ignore[misc]
                        parts.hostname or "127.0.0.1",
                        parts.port or DEFAULT_LEAF_PORT,
                    )
                except OSError as error:
                    self._protocol = None
                    if not failed:
                        log.warning("head broker %s: %s; trying again", self._where, error)
                    failed = True
                else:
                    failed = False
                    await self._lost.wait()
                await asyncio.sleep(RECONNECT_S)
        finally:
            if self._protocol is not None:
                self._protocol.close("the gateway stops")

    @property
    def _where(self) -> str:
        parts = urlsplit(self._url)
        return f"{parts.hostname}:{parts.port}"

    def leaf_ready(self) -> None:
        """Subscribe to what the other domains want, and let waiting messages out."""
        assert self._protocol is not None
        info = self._protocol.info
        log.info(
            "attached to head broker %s (nats-server %s) at %s", info.server_name, info.version, self._where
        )
        self.connected = True
        self._protocol.subscribe(f"{REPLY_PREFIX}>")
        for subject in self._engine.wanted_elsewhere():
            self._protocol.subscribe(subject)
        self._open_queue()

    def leaf_lost(self, reason: str) -> None:
        """Hold what comes in until the broker is back."""
        log.warning("lost the head broker %s: %s", self._where, reason)
        self.connected = False
        self._protocol = None
        self._queue.shut()
        self._engine.head_lost(monotonic())
        self._lost.set()

    def leaf_writable(self, writable: bool) -> None:
        """The broker's socket can take more, or for now cannot."""
        if writable:
            self._open_queue()
        else:
            self._queue.shut()

    def _open_queue(self) -> None:
        """Let messages through, unless the broker is back but its edges and clients are not yet.

        A broker that has just restarted would throw away what comes before its subscribers have returned.
        """
        if self.connected and self._engine.head_settled:
            self._queue.open(self._write)

    def _write(self, messages: bytes) -> None:
        if self._protocol is not None:
            self._protocol.write(messages)

    # -- interest -----------------------------------------------------------------------------------------

    def leaf_interest(self, subject: str, group: str, wanted: bool) -> None:
        """A subscription came or went somewhere in this domain."""
        if is_internal(subject):
            return
        if self._engine.change_local_interest(subject, group, wanted):
            self.forget_lines()

    def serve(self) -> None:
        """The subscribers of a broker that was away are back, or given up."""
        self.forget_lines()
        self._open_queue()

    def change_subscriptions(self, add: tuple[str, ...], remove: tuple[str, ...]) -> None:
        """Follow what the other domains want."""
        self.forget_lines()
        if self._protocol is None or not self.connected:
            return
        for subject in add:
            self._protocol.subscribe(subject)
        for subject in remove:
            self._protocol.unsubscribe(subject)

    def forget_lines(self) -> None:
        """What lines mean has changed: book their counts and learn them anew."""
        self.book()
        self._outbound_lines.clear()
        self._inbound_lines.clear()

    def book(self) -> None:
        """Bring the ledger up to date."""
        self._ledger.fold(self._outbound_lines.values(), self._ledger.sent)
        self._ledger.fold(self._inbound_lines.values(), self._ledger.delivered)

    # -- outward ------------------------------------------------------------------------------------------

    def leaf_buffer_done(self) -> None:
        """One buffer from the broker is sorted: send it on."""
        if self._outbound_once:
            self._ledger.fold(self._outbound_once, self._ledger.sent)
            self._outbound_once.clear()
        self._buffer_done()

    def leaf_message_line(self, line: bytes) -> Entry:
        """Where a message from this domain's clients goes."""
        message = parse_message_line(line)
        subject, reply = message.subject, message.reply
        if message.size_bytes > self._max_message_bytes:
            return Entry(message.skip, self._too_large)
        if subject.startswith(REPLY_PREFIX):
            domain, _, subject = subject[len(REPLY_PREFIX) :].partition(".")
            flow = self._engine.route_reply(domain)
        else:
            flow = self._engine.route(subject)
        if flow is None:
            entry = Entry(message.skip, DISCARD)
        elif reply or subject is not message.subject:
            if reply and not reply.startswith(REPLY_PREFIX):
                reply = f"{REPLY_PREFIX}{self._engine.domain}.{reply}"
            rewrite = Rewrite(line, message.line(subject, reply), message.skip, flow)
            entry = Entry(message.skip, rewrite, REQUESTS)
            self._outbound_once.append(entry)
            return entry
        else:
            entry = Entry(message.skip, flow, subject)
        if len(self._outbound_lines) >= MAX_KNOWN_LINES:
            self.forget_lines()
        self._outbound_lines[line] = entry
        return entry

    # -- inward -------------------------------------------------------------------------------------------

    def deliver(self, body: bytes) -> None:
        """Write the messages of a frame to the head broker."""
        try:
            if scan(body, self._inbound_lines, self._inbound_line) != len(body):
                raise WireError("the last message is cut off")
        except WireError as error:
            log.error("refused the rest of a frame from another domain: %s", error)
            self._ledger.drop("(malformed)", "malformed body")
        if self._inbound_once:
            self._ledger.fold(self._inbound_once, self._ledger.delivered)
            self._inbound_once.clear()

    def _inbound_line(self, line: bytes) -> Entry:
        message = parse_message_line(line)
        if message.subject.startswith("$"):
            raise WireError(f"the subject {message.subject!r} belongs to the broker itself")
        groups = self._engine.queue_groups(message.subject)
        flow: Flow = self._keep
        if groups:
            new_line = message.line(message.subject, message.reply, groups)
            flow = Rewrite(line, new_line, message.skip, self._keep)
        if message.reply or is_internal(message.subject):
            entry = Entry(message.skip, flow, REQUESTS)
            self._inbound_once.append(entry)
            return entry
        entry = Entry(message.skip, flow, message.subject)
        if len(self._inbound_lines) >= MAX_KNOWN_LINES:
            self.forget_lines()
        self._inbound_lines[line] = entry
        return entry


class _Keep:
    """The flow of checked messages to the head broker."""

    def __init__(self, queue: OutQueue) -> None:
        self._queue = queue

    def take(self, messages: bytes) -> None:
        self._queue.send(messages)


class _TooLarge:
    """The flow of messages above the limit: refused and booked by topic."""

    def __init__(self, ledger: Ledger, limit_bytes: int) -> None:
        self._ledger = ledger
        self._reason = f"larger than the federation's limit of {limit_bytes} bytes"

    def take(self, messages: bytes) -> None:
        self._ledger.drop_body(messages, self._reason)
