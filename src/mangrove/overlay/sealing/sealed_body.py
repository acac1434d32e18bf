"""The format of a sealed body: who may open it is in clear, and everything else is not.

    magic "SEL1" | key number u64 | salt 16 bytes | origin's key id 8 bytes | recipients u16 |
    recipients (domain u16, key id 8 bytes, wrapped content key 48 bytes) |        the envelope, up to here
    messages u32 | counter u64 | ciphertext, with its tag of 16 bytes

The *envelope* stays the same for as long as a content key is in use. No plain body begins as a sealed one
does (`protocol.bodies`), so the two are told apart by their first bytes and frames need no mark. What the
head of a frame says and no gateway on the way may change is authenticated with the body (`bound_facts`).

A transit gateway learns from it the origin, the topic class, the recipients, how many messages there are and
how long they are together.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from mangrove.errors import MangroveError
from mangrove.overlay.protocol.frames import NAME, Frame, encode_predecessors

MAGIC = b"SEL1"
KEY_ID_BYTES = 8
SALT_BYTES = 16
CONTENT_KEY_BYTES = 32
TAG_BYTES = 16
"""Of the cipher, and of a wrapped key."""
MAX_RECIPIENTS = 8192
"""As many as a frame's mask has bits."""
SHORTEST_MESSAGE_BYTES = len(b"LMSG x 0\r\n\r\n")

_START = struct.Struct(f">4sQ{SALT_BYTES}s{KEY_ID_BYTES}sH")
_RECIPIENT = struct.Struct(f">H{KEY_ID_BYTES}s{CONTENT_KEY_BYTES + TAG_BYTES}s")
_AUDIENCE = struct.Struct(f">H{KEY_ID_BYTES}s")
COUNTS = struct.Struct(">IQ")
"""How many messages, and which body under its content key."""
_FACTS = struct.Struct(f"{NAME.format}BH")


class SealFormatError(MangroveError):
    """Bytes that begin as a sealed body does, and are none."""


class Recipient(NamedTuple):
    """A domain that can open a body, and the content key for it."""

    domain: int
    key_id: bytes
    wrapped_key: bytes


class Envelope(NamedTuple):
    """What is needed to find the content key."""

    number: int
    """Later content keys of a life of an origin have higher numbers."""
    salt: bytes
    origin_key_id: bytes
    recipients: tuple[Recipient, ...]

    def encode(self) -> bytes:
        """As it stands at the beginning of a body."""
        start = _START.pack(MAGIC, self.number, self.salt, self.origin_key_id, len(self.recipients))
        return start + b"".join(_RECIPIENT.pack(*recipient) for recipient in self.recipients)

    @property
    def audience(self) -> bytes:
        """Names all recipients, and the content key. A wrapped key is bound to it, and fits nowhere else."""
        names = b"".join(_AUDIENCE.pack(each.domain, each.key_id) for each in self.recipients)
        return self.number.to_bytes(8, "big") + names

    @property
    def destinations(self) -> int:
        """The recipients as bits, as frames name them."""
        return sum({1 << recipient.domain for recipient in self.recipients})


class SealedBody(NamedTuple):
    """A sealed body, taken apart and not opened."""

    envelope: bytes
    messages: int
    counter: int
    ciphertext: bytes

    @property
    def counts(self) -> bytes:
        """What stands between the envelope and the ciphertext."""
        return COUNTS.pack(self.messages, self.counter)

    def encode(self) -> bytes:
        """As the body of a frame."""
        return self.envelope + self.counts + self.ciphertext


def is_sealed(body: bytes) -> bool:
    """Whether a body says of itself that it is sealed."""
    return body.startswith(MAGIC)


def sealed_bytes(size_bytes: int, recipients: int) -> int:
    """How long a body of a size is when it is sealed for so many domains."""
    return _START.size + _RECIPIENT.size * recipients + COUNTS.size + size_bytes + TAG_BYTES


def take_apart(body: bytes) -> SealedBody:
    """The parts of a sealed body, or SealFormatError."""
    recipients = _recipients(body)
    counts_at = _START.size + _RECIPIENT.size * recipients
    cipher_at = counts_at + COUNTS.size
    if len(body) < cipher_at + TAG_BYTES:
        raise SealFormatError("a sealed body is cut off")
    messages, counter = COUNTS.unpack_from(body, counts_at)
    return SealedBody(body[:counts_at], messages, counter, body[cipher_at:])


def read_envelope(envelope: bytes) -> Envelope:
    """What an envelope says, or SealFormatError; nothing of it is believed until a body has been opened."""
    recipients = _recipients(envelope)
    _, number, salt, origin_key_id, _ = _START.unpack_from(envelope)
    end = _START.size + _RECIPIENT.size * recipients
    if len(envelope) < end:
        raise SealFormatError("the envelope of a sealed body is cut off")
    found = tuple(Recipient(*fields) for fields in _RECIPIENT.iter_unpack(envelope[_START.size : end]))
    return Envelope(number, salt, origin_key_id, found)


def claimed_messages(body: bytes) -> int:
    """How many messages a sealed body says it holds; never more than could be in it, and 0 if it is none.

    For the books of gateways that cannot look into it.
    """
    try:
        parts = take_apart(body)
    except SealFormatError:
        return 0
    return min(parts.messages, len(parts.ciphertext) // SHORTEST_MESSAGE_BYTES)


def bound_facts(frame: Frame) -> bytes:
    """What the head of a frame says that belongs to its body: its name, class, kind and predecessors.

    All else in it changes on the way: the destinations that are left, the age, the hops, the label.
    """
    facts = _FACTS.pack(
        frame.origin, frame.epoch, frame.flow_id, frame.sequence, frame.type, frame.topic_class
    )
    return facts + encode_predecessors(frame.predecessors) if frame.predecessors else facts


def _recipients(body: bytes) -> int:
    if len(body) < _START.size or not is_sealed(body):
        raise SealFormatError("not a sealed body")
    *_, recipients = _START.unpack_from(body)
    if not 0 < recipients <= MAX_RECIPIENTS:
        raise SealFormatError(f"a body sealed for {recipients} domains")
    return int(recipients)
