"""One connection to a nats-server as one of its leaf nodes.

A leaf node is told at once what the broker's clients and its other leaf nodes subscribe to, gets one copy of
each message however many of its own subscriptions match, and never gets its own messages back. That is why
gateways attach this way (docs/decisions/0001-gateway-is-a-leaf-node.md).
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from urllib.parse import unquote, urlsplit

import msgspec

from mangrove.broker.attachment import AttachmentOwner
from mangrove.broker.nats.mqtt import STORE_INTEREST, MqttStore
from mangrove.host.keys.login import BrokerLogin
from mangrove.host.sockets import prepare
from mangrove.model.selectors.group_names import PREFIX
from mangrove.model.unreadable import UNREADABLE
from mangrove.overlay.protocol.bodies import CRLF, Entry, WireError, parse_message_line, scan

log = logging.getLogger(__name__)

WRITE_HIGH_WATER_BYTES = 1 << 20
INTEREST_PER_TURN = 500
"""Subscriptions that are dealt with before messages and others get their turn."""
MAX_INTEREST_WAITING = 200_000
"""Nothing more is read from the broker, also no messages, while so many wait: so memory is bounded."""
RUNS_PER_BUFFER = 64
"""So many runs of subscriptions in one buffer are taken as a whole; if there are more, line by line."""

_RUN = re.compile(rb"(?:LS[+-] [^\r\n]*\r\n)+")

_STORE_INTEREST = STORE_INTEREST.encode()
_SELECTING = f" {PREFIX}".encode()


class BrokerInfo(msgspec.Struct, frozen=True):
    """What we use of the broker's INFO."""

    server_id: str = ""
    server_name: str = ""
    client_id: int = 0
    """How it calls this connection."""
    version: str = ""
    max_payload: int = 1 << 20
    headers: bool = False
    tls_required: bool = False
    nonce: str = ""
    """What who connects signs, to show that it has a key."""


class LeafProtocol(asyncio.Protocol):
    """Speaks the leaf-node protocol over one socket, a whole buffer at a time.

    The first `PONG` means that the broker accepted the connection. `closed` is set when it has ended.
    """

    def __init__(
        self,
        name: str,
        url: str,
        owner: AttachmentOwner,
        mqtt: MqttStore,
        *,
        elsewhere: bool = False,
        cluster: str = "",
        login: BrokerLogin | None = None,
    ) -> None:
        """`elsewhere`: it is another broker than the one that was lost.

        Leaf nodes that name the same `cluster` get neither each other's messages nor each other's interest.
        Without a `login`, who we are is in the URL.
        """
        parts = urlsplit(url)
        self._cluster = cluster
        self._elsewhere = elsewhere
        self._credentials = {
            key: unquote(value)
            for key, value in (("user", parts.username), ("pass", parts.password))
            if value
        }
        self._login = login
        self._name = name
        self._owner = owner
        self._mqtt = mqtt
        self._known = owner.sorter.known
        self._interest_waiting: OrderedDict[bytes, bool] = OrderedDict()
        """What was said last of each subject and group: who comes and goes without end costs a look-up."""
        self._interest_taken = 0
        self._behind_interest: deque[tuple[int, Callable[[], None]]] = deque()
        """Who waits until so many changes of interest were taken."""
        self._pinged: deque[Callable[[], None]] = deque()
        self._slice: asyncio.Handle | None = None
        self._paused = False
        self._no_payload = Entry(len(CRLF), None)
        self._stop = Entry(1 << 60, None)
        """For a line that a scan shall not go beyond: it looks like a message that is not complete."""
        self._stopped = False
        self._runs_left = 0
        self._held = bytearray()
        self._needed = 0
        self._ready = False
        self._error = ""
        self._transport: asyncio.Transport | None = None
        self._where = f"{parts.hostname}:{parts.port}"
        self.info = BrokerInfo()
        self.heard = 0
        """Buffers that came so far."""
        self.closed = asyncio.Event()

    # -- asyncio ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the broker's INFO."""
        self._transport = prepare(transport, high_water_bytes=WRITE_HIGH_WATER_BYTES)

    def data_received(self, data: bytes) -> None:
        """Scan a buffer. An incomplete message is held until the rest has come."""
        self.heard += 1
        if self._held:
            self._held += data
            if len(self._held) < self._needed:
                return
            data = bytes(self._held)
            self._held.clear()
        try:
            rest = self._scan(data)
            if rest:
                self._hold(rest)
        except WireError as error:
            self.close(str(error))
            return
        if self._interest_waiting and self._slice is None:
            self._take_interest()
        else:
            self._owner.buffer_done()

    def _scan(self, data: bytes) -> bytes:
        """Sort what is complete in a buffer; the rest. Runs of subscriptions are taken as a whole."""
        self._runs_left = RUNS_PER_BUFFER
        while True:
            run = _RUN.match(data)
            if run is not None:
                self._runs_left -= 1
                self._interest_came(run[0].split(CRLF))
                data = data[run.end() :]
            self._stopped = False
            consumed = scan(data, self._known, self._resolve)
            if consumed:
                data = data[consumed:]
            if not self._stopped:
                return data

    def _interest_came(self, lines: list[bytes]) -> None:
        """Note what was said last of each subject: most of a storm may be about the same few."""
        for line in reversed(dict.fromkeys(reversed(lines))):
            if line:
                subscription = line[4:]
                if subscription == _STORE_INTEREST:
                    # Not after its turn among many: messages that wait for the broker must find it.
                    self._mqtt.told(line.startswith(b"LS+"))
                    continue
                if b" " in subscription:  # what follows a group is how many members it has
                    subscription = b" ".join(subscription.split(b" ", 2)[:2])
                    if _SELECTING in subscription:
                        # Nor these: a message reaches nobody of them who is not known, and so not named.
                        self._interest(subscription, line.startswith(b"LS+"))
                        continue
                self._interest_waiting[subscription] = line.startswith(b"LS+")

    def _take_interest(self) -> None:
        """Deal with some subscriptions; the rest later, so that messages behind them are not held up."""
        self._slice = None
        waiting = self._interest_waiting
        for _ in range(min(INTEREST_PER_TURN, len(waiting))):
            self._interest_taken += 1
            self._interest(*waiting.popitem(last=False))
        self._owner.buffer_done()
        while self._behind_interest and self._behind_interest[0][0] <= self._interest_taken:
            self._behind_interest.popleft()[1]()
        if waiting:
            self._slice = asyncio.get_running_loop().call_soon(self._take_interest)
        self._read_or_pause(len(waiting) > MAX_INTEREST_WAITING)

    def _read_or_pause(self, pause: bool) -> None:
        if self._transport is None or pause == self._paused:
            return
        self._paused = pause
        if pause:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the owner why."""
        self._transport = None
        self._interest_waiting.clear()
        self._behind_interest.clear()
        self._pinged.clear()
        if self._slice is not None:
            self._slice.cancel()
        reason = self._error or str(exc or "the broker closed the connection")
        log.warning("lost the head broker %s: %s", self._where, reason)
        self.closed.set()
        self._mqtt.lost()
        self._owner.lost(reason)

    def pause_writing(self) -> None:
        """The socket is full."""
        self._owner.writable(False)

    def resume_writing(self) -> None:
        """The socket drained."""
        self._owner.writable(True)

    # -- sending ------------------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Send bytes that are already in the protocol's form."""
        if self._transport is not None:
            self._transport.write(data)

    def subscribe(self, subjects: Iterable[str]) -> None:
        """Ask for the messages of subjects."""
        self.write("".join(f"LS+ {subject}\r\n" for subject in subjects).encode())

    def unsubscribe(self, subjects: Iterable[str]) -> None:
        """End subscriptions."""
        self.write("".join(f"LS- {subject}\r\n" for subject in subjects).encode())

    def ping(self, done: Callable[[], None]) -> None:
        """Call `done` when the broker, which takes lines in order, has taken all that were sent so far."""
        self._pinged.append(done)
        self.write(b"PING\r\n")

    def after_interest(self, done: Callable[[], None]) -> None:
        """Call `done` when the owner was told all subscriptions that have come so far."""
        if not self._interest_waiting:
            done()
            return
        self._behind_interest.append((self._interest_taken + len(self._interest_waiting), done))
        if self._slice is None:
            self._slice = asyncio.get_running_loop().call_soon(self._take_interest)

    def close(self, reason: str) -> None:
        """Close the connection; the owner is told with this reason."""
        self._error = self._error or reason
        if self._transport is not None:
            self._transport.close()

    def abandon(self, reason: str) -> None:
        """Let go of a broker that takes nothing any more: what was not sent yet is lost with it."""
        self._error = self._error or reason
        if self._transport is not None:
            self._transport.abort()

    @property
    def ready(self) -> bool:
        """Whether the broker has accepted the connection."""
        return self._ready

    @property
    def answered(self) -> bool:
        """Whether the broker owes no answer to a ping."""
        return not self._pinged

    # -- receiving ----------------------------------------------------------------------------------------

    def _hold(self, rest: bytes) -> None:
        """Keep an incomplete message, and know when it is worth looking at it again."""
        self._held += rest
        eol = rest.find(CRLF)
        self._needed = eol + self._resolve(rest[:eol]).skip if eol >= 0 else len(rest) + 1

    def _resolve(self, line: bytes) -> Entry:
        verb = line[:5]
        if verb in (b"LMSG ", b"HMSG "):
            entry = self._known.get(line)
            return entry if entry is not None else self._judge(line)
        if verb[:4] in (b"LS+ ", b"LS- "):
            if self._runs_left > 0:
                self._stopped = True
                return self._stop
            self._interest_came([line])
        else:
            self._control(line)
        return self._no_payload

    def _judge(self, line: bytes) -> Entry:
        confirmation = self._mqtt.confirmation(line)
        if confirmation is None:
            return self._owner.sorter.resolve(line)
        if not confirmation.once:
            self._known[line] = confirmation
        return confirmation

    def _control(self, line: bytes) -> None:
        verb, _, rest = line.partition(b" ")
        match verb:
            case b"PING":
                self.write(b"PONG\r\n")
            case b"PONG":
                if not self._ready:
                    self._attached()
                elif self._pinged:
                    self._pinged.popleft()()
            case b"INFO":
                self._greet(rest)
            case b"-ERR":
                self._error = rest.decode(errors="replace").strip("'")
                log.warning("the head broker says: %s", self._error)
            case b"+OK":
                pass
            case _:
                # Also refuses LMSG/HMSG lines in a form that we never asked for.
                parse_message_line(line)

    def _attached(self) -> None:
        self._ready = True
        info = self.info
        log.info(
            "attached to head broker %s (nats-server %s) at %s", info.server_name, info.version, self._where
        )
        self._mqtt.attached(self.write, elsewhere=self._elsewhere)
        self._owner.attached(info.server_name, elsewhere=self._elsewhere)

    def _interest(self, subscription: bytes, wanted: bool) -> None:
        # nats-server lets its clients use any bytes; one of them must not cost the domain its connection.
        try:
            subject, _, group = subscription.decode().partition(" ")
        except UnicodeDecodeError:
            self._owner.ignored("subscription that is not UTF-8")
            return
        self._owner.interest(subject, group, wanted)

    def _greet(self, text: bytes) -> None:
        try:
            info = msgspec.json.decode(text, type=BrokerInfo)
        except UNREADABLE as error:
            raise WireError(f"malformed INFO from the broker: {error}") from None
        first = not self.info.version
        self.info = info
        if not first:
            return
        if not info.headers:
            raise WireError(f"the broker {info.server_name} {info.version} does not support headers")
        if info.tls_required and (self._login is None or self._login.tls is None):
            raise WireError(
                f"the broker {info.server_name} wants encryption, for which nothing is set up here"
            )
        connect = {
            "name": self._name,
            "headers": True,
            "no_responders": True,
            "protocol": 1,
            **({"cluster": self._cluster} if self._cluster else {}),
            **(self._credentials if self._login is None else self._login.shown(info.nonce)),
        }
        self.write(b"CONNECT " + msgspec.json.encode(connect) + b"\r\nPING\r\n")
