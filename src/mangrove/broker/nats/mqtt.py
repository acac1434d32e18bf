"""What nats-server keeps for its MQTT clients, and how a gateway keeps it right for messages from elsewhere.

nats-server publishes what an MQTT client sends on the plain subject, under a header with its QoS, and stores
what has QoS 1 or 2 once more under `$MQTT.msgs.<subject>`. Subscribers of QoS 0 and NATS subscribers are
served from the first, subscribers of QoS 1 and 2 from the second only: they leave out what comes on the plain
subject with such a header. A gateway gets the first. So the gateway of the destination, and nobody else, adds
the second, and the broker confirms that each is stored. What it had not confirmed when it went away is
written again when it is back, under the same id, by which JetStream leaves out what it had stored after all
(docs/decisions/0016-unconfirmed-messages-are-written-again.md). The store is that of the head broker: a
gateway that has gone on to another broker finds it again through that one, when the head is back.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable
from secrets import token_hex
from time import monotonic

from msgspec.structs import replace

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

_ID_HEADER = b"Nats-Msg-Id:"
_ID_BYTES = 26
ID_HEADER_BYTES = len(_ID_HEADER) + _ID_BYTES + len(CRLF)
"""How much longer the header is in the store: JetStream leaves out what has an id that it knows."""

CONFIRM_S = 10.0
"""A store that says nothing for so long is taken to have lost what it was given."""
REPEAT_S = 1.0
MAX_KEPT_BYTES = 8 << 20
"""Of more than this that is unconfirmed, the oldest are not kept for another time."""
MAX_REASONS = 20
MAX_CONFIRMATION_BYTES = 512

_REASON = re.compile(rb'"description":"([^"]{0,200})')


class MqttStore:
    """One attachment's dealings with the store: whether there is one, and what it has confirmed."""

    def __init__(self, refused: Callable[[str, int], None]) -> None:
        """`refused` is told why messages could not be stored, or may not have been, and how many."""
        self._refused = refused
        self._unconfirmed: deque[bytes] = deque()
        self._kept_bytes = 0
        self._not_kept = 0
        self._heard = 0.0
        self._reasons: set[str] = set()
        self._life = token_hex(6)
        self._written = 0
        self._write: Callable[[bytes], None] | None = None
        self._repeating: asyncio.TimerHandle | None = None
        self.expected = False
        """Whether there was a store, and it is thought to come back."""
        self.present = False
        """Whether any broker of the domain keeps messages for MQTT subscribers, as its subscriptions tell.

        A broker tells all its subscriptions before it accepts a leaf node, so this is known before the first
        message is written.
        """

    @property
    def in_use(self) -> bool:
        """Whether anything was ever stored by this gateway."""
        return self._written > 0

    def lost(self) -> None:
        """The broker is gone, and may have stored what it had not confirmed, or not."""
        self._give_up("the broker went away before it confirmed a message for MQTT", all_kept=False)
        self.present = False
        self._write = None
        if self._repeating is not None:
            self._repeating.cancel()
            self._repeating = None

    def attached(self, write: Callable[[bytes], None], *, elsewhere: bool = False) -> None:
        """The broker is back: what it had not confirmed is written again, before anything else.

        From a broker `elsewhere` the store may not be reached yet.
        """
        self._write = write
        if self.present:
            self._write_again()
        elif not elsewhere:
            self.expected = False
            self._give_up("the broker came back without a store for MQTT", all_kept=True)

    def told(self, present: bool) -> None:
        """The broker says that there is a store, or none any more: one that is back is written to again."""
        back = present and not self.present
        self.present = present
        self.expected |= present
        if back and self._unconfirmed and self._write is not None:
            self._write_again()
            # It may be told of before it takes anything in, and its answers do not say to what they are.
            again = list(self._unconfirmed)
            self._repeating = asyncio.get_running_loop().call_later(REPEAT_S, self._repeat, again)

    def _repeat(self, messages: list[bytes]) -> None:
        """Write once more what a store that is back was told first; it leaves out what it has."""
        self._repeating = None
        if self.present and self._write is not None:
            self.wrote(messages)
            self._write(b"".join(messages))

    def _write_again(self) -> None:
        if self._unconfirmed and self._write is not None:
            self._heard = monotonic()
            # The owner may not have subscribed to anything yet, and the store answers at once.
            self._write(b"".join((f"LS+ {CONFIRMATIONS}\r\n".encode(), *self._unconfirmed)))

    def copies(self, line: bytes, message: Message, plain: Flow, store: Flow) -> Flow:
        """The flow of messages with this line that an MQTT client may have published."""
        return _Copies(self, line, message, plain, store)

    def next_id(self) -> bytes:
        """A name of fixed length for a message, by which the store knows it when it comes again."""
        self._written += 1
        return f"{self._life}{self._written:014x}".encode()

    def wrote(self, messages: list[bytes]) -> None:
        """These were written to the store, or would have been: it ought to have confirmed the ones before."""
        now = monotonic()
        if (self._unconfirmed or self._not_kept) and now - self._heard > CONFIRM_S:
            self._give_up(f"not confirmed for MQTT subscribers within {CONFIRM_S:g} s", all_kept=True)
        if not self._unconfirmed:
            self._heard = now
        self._unconfirmed.extend(messages)
        self._kept_bytes += sum(map(len, messages))
        while self._kept_bytes > MAX_KEPT_BYTES:
            self._forget()
            self._not_kept += 1

    def _forget(self) -> None:
        self._kept_bytes -= len(self._unconfirmed.popleft())

    def _give_up(self, reason: str, *, all_kept: bool) -> None:
        """Count what will not be written again: what was not kept, or with `all_kept` the rest too."""
        count, self._not_kept = self._not_kept, 0
        if all_kept:
            count += len(self._unconfirmed)
            self._unconfirmed.clear()
            self._kept_bytes = 0
        if count:
            self._refused(reason, count)

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
        # The store answers in the order in which it was written to.
        old = min(count, self._not_kept)
        self._not_kept -= old
        for _ in range(min(count - old, len(self._unconfirmed))):
            self._forget()
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

    __slots__ = ("_header", "_length", "_plain", "_rest", "_store", "_stored_line", "_writer")

    def __init__(self, store: MqttStore, line: bytes, message: Message, plain: Flow, writer: Flow) -> None:
        self._store = store
        self._header = len(line) + len(CRLF)
        self._rest = self._header + HEADER_BYTES
        self._length = len(line) + message.skip
        longer = replace(
            message,
            header_bytes=message.header_bytes + ID_HEADER_BYTES,
            size_bytes=message.size_bytes + ID_HEADER_BYTES,
        )
        self._stored_line = longer.line(f"{STORE_PREFIX}{message.subject}", CONFIRMATIONS) + CRLF
        self._plain = plain
        self._writer = writer

    def take(self, messages: bytes) -> None:
        self._plain.take(messages)
        store = self._store
        if not store.expected:
            return
        copies: list[bytes] = []
        for start in range(0, len(messages), self._length):
            header = messages[start + self._header : start + self._rest]
            if header in (_AT_LEAST_ONCE, _EXACTLY_ONCE):
                rest = messages[start + self._rest : start + self._length]
                copies.append(
                    b"%b%b%b%b\r\n\r\n%b"
                    % (self._stored_line, header[:-2], _ID_HEADER, store.next_id(), rest)
                )
        if copies:
            store.wrote(copies)
            if store.present:
                self._writer.take(b"".join(copies))


class _Confirmations:
    """The flow of the store's answers of one length."""

    __slots__ = ("_length", "_store")

    def __init__(self, store: MqttStore, length: int) -> None:
        self._store = store
        self._length = length

    def take(self, messages: bytes) -> None:
        self._store.confirmed(messages, len(messages) // self._length)
