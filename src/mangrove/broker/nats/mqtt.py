"""What nats-server keeps for its MQTT clients, and how a gateway keeps it right for messages from elsewhere.

nats-server publishes what an MQTT client sends on the plain subject, under a header with its QoS, and stores
what has QoS 1 or 2 once more under `$MQTT.msgs.<subject>`. Subscribers of QoS 0 and NATS subscribers are
served from the first, subscribers of QoS 1 and 2 from the second only: they leave out what comes on the plain
subject with such a header. A gateway gets the first. So the gateway of the destination, and nobody else, adds
the second, and the broker confirms that each is stored.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from time import monotonic

from mangrove.model.subjects import REPLY_PREFIX
from mangrove.overlay.protocol.bodies import CRLF, Entry, Flow, Message, parse_message_line

STORE_INTEREST = "$MQTT.msgs.>"
"""A broker that keeps messages for MQTT subscribers subscribes to this."""
STORE_PREFIX = "$MQTT.msgs."
CONFIRMATIONS = f"{REPLY_PREFIX}@stored"
"""Here the broker confirms what was stored: a reply that is for no domain, but for the gateway itself."""
_CONFIRMATION_LINE = f"LMSG {CONFIRMATIONS} ".encode()

_AT_LEAST_ONCE = b"NATS/1.0\r\nNmqtt-Pub:1\r\n\r\n"
_EXACTLY_ONCE = b"NATS/1.0\r\nNmqtt-Pub:2\r\n\r\n"
HEADER_BYTES = len(_AT_LEAST_ONCE)
"""nats-server writes exactly this header, so a line with another size of headers is none of MQTT's."""

CONFIRM_S = 10.0
"""A store that says nothing for so long is taken to have lost what it was given."""
MAX_REASONS = 20
MAX_CONFIRMATION_BYTES = 512

_REASON = re.compile(rb'"description":"([^"]{0,200})')


class MqttStore:
    """One attachment's dealings with the store: whether there is one, and what it has confirmed."""

    def __init__(self, refused: Callable[[str, int], None]) -> None:
        """`refused` is told why messages could not be stored, or may not have been, and how many."""
        self._refused = refused
        self._unconfirmed = 0
        self._heard = 0.0
        self._reasons: set[str] = set()
        self.present = False
        """Whether any broker of the domain keeps messages for MQTT subscribers.

        A broker tells all its subscriptions before it accepts a leaf node, so this is known before the first
        message is written.
        """

    def interest(self, subject: str, wanted: bool) -> None:
        """The broker's own subscriptions tell whether it has a store."""
        if subject == STORE_INTEREST:
            self.present = wanted

    def lost(self) -> None:
        """The broker is gone, with what it had not confirmed."""
        if self._unconfirmed:
            self._refused("the broker went away before it confirmed a message for MQTT", self._unconfirmed)
        self._unconfirmed = 0
        self.present = False

    def copies(self, line: bytes, message: Message, plain: Flow, store: Flow) -> Flow:
        """The flow of messages with this line that an MQTT client may have published."""
        return _Copies(self, line, message, plain, store)

    def wrote(self, count: int) -> None:
        """So many messages were written to the store, which ought to have confirmed the ones before."""
        now = monotonic()
        if self._unconfirmed and now - self._heard > CONFIRM_S:
            self._refused(f"not confirmed for MQTT subscribers within {CONFIRM_S:g} s", self._unconfirmed)
            self._unconfirmed = 0
        if not self._unconfirmed:
            self._heard = now
        self._unconfirmed += count

    def confirmation(self, line: bytes) -> Entry | None:
        """What to do with confirmations that have this line; None if it is the line of something else."""
        if not line.startswith(_CONFIRMATION_LINE):
            return None
        message = parse_message_line(line)
        # What is longer comes from somebody else and need not be remembered.
        once = message.size_bytes > MAX_CONFIRMATION_BYTES
        return Entry(message.skip, _Confirmations(self, len(line) + message.skip), once=once)

    def confirmed(self, messages: bytes, count: int) -> None:
        """Answers of the store: as a rule all say that a message was stored."""
        self._unconfirmed = max(0, self._unconfirmed - count)
        self._heard = monotonic()
        failed = messages.count(b'"error":')
        if failed:
            reason = _REASON.search(messages)
            why = reason[1].decode(errors="replace") if reason else "no reason given"
            # Any client of the domain can write confirmations, but not fill the books with reasons.
            if len(self._reasons) < MAX_REASONS:
                self._reasons.add(why)
            why = why if why in self._reasons else "other reasons"
            self._refused(f"not stored for MQTT subscribers: {why}", failed)


class _Copies:
    """Hands messages on, and those of QoS 1 and 2 to the store too.

    It belongs to one line, so all messages of a run have the same length.
    """

    __slots__ = ("_header", "_length", "_line", "_plain", "_store", "_stored_line", "_writer")

    def __init__(self, store: MqttStore, line: bytes, message: Message, plain: Flow, writer: Flow) -> None:
        self._store = store
        self._line = len(line)
        self._header = len(line) + len(CRLF)
        self._length = len(line) + message.skip
        self._stored_line = message.line(f"{STORE_PREFIX}{message.subject}", CONFIRMATIONS)
        self._plain = plain
        self._writer = writer

    def take(self, messages: bytes) -> None:
        self._plain.take(messages)
        if not self._store.present:
            return
        copies: list[bytes] = []
        for start in range(0, len(messages), self._length):
            header = messages[start + self._header : start + self._header + HEADER_BYTES]
            if header in (_AT_LEAST_ONCE, _EXACTLY_ONCE):
                copies += (self._stored_line, messages[start + self._line : start + self._length])
        if copies:
            self._store.wrote(len(copies) // 2)
            self._writer.take(b"".join(copies))


class _Confirmations:
    """The flow of the store's answers of one length."""

    __slots__ = ("_length", "_store")

    def __init__(self, store: MqttStore, length: int) -> None:
        self._store = store
        self._length = length

    def take(self, messages: bytes) -> None:
        self._store.confirmed(messages, len(messages) // self._length)
