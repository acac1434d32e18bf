"""Letters: what gateways say to each other about the retained messages of their domains.

A letter travels as a message on a subject that no client can send to or hear, in the body of an ordinary
frame.
"""

from __future__ import annotations

import msgspec

from mangrove.broker.retained import RetainedMessage
from mangrove.model.subjects import LETTER_SUBJECT
from mangrove.model.unreadable import UNREADABLE
from mangrove.overlay.protocol.bodies import parse_message_line


class Retained(msgspec.Struct, frozen=True, array_like=True, tag="retained"):
    """A client in the domain of `message.origin` has published this."""

    message: RetainedMessage


class Summary(msgspec.Struct, frozen=True, array_like=True, tag="summary"):
    """What a domain's own clients have retained, in brief: somebody who has other figures lacks something."""

    origin: str
    messages: int
    digest: int


class Ask(msgspec.Struct, frozen=True, array_like=True, tag="ask"):
    """A domain lacks something and wants all."""

    asker: str


class Listing(msgspec.Struct, frozen=True, array_like=True, tag="listing"):
    """All subjects above `after` and up to `up_to` (empty: to the end) that `origin` has a message for."""

    origin: str
    after: str
    up_to: str
    subjects: list[str]


Letter = Retained | Summary | Ask | Listing
_decoder = msgspec.msgpack.Decoder(Letter)


def write_letter(letter: Letter) -> bytes:
    """A letter as a message of a frame's body."""
    text = msgspec.msgpack.encode(letter)
    return f"LMSG {LETTER_SUBJECT} {len(text)}\r\n".encode() + text + b"\r\n"


def read_letters(messages: bytes) -> tuple[list[Letter], int]:
    """The letters of a run of messages, and how many of them cannot be read."""
    letters: list[Letter] = []
    unreadable = 0
    position = 0
    while position < len(messages):
        eol = messages.index(b"\r\n", position)
        skip = parse_message_line(messages[position:eol]).skip
        try:
            letters.append(_decoder.decode(messages[eol + 2 : eol + skip - 2]))
        except UNREADABLE:
            unreadable += 1
        position = eol + skip
    return letters, unreadable


def sender_of(letter: Letter) -> str:
    """The domain in whose name a letter speaks."""
    match letter:
        case Retained(message):
            return message.origin
        case Ask(asker):
            return asker
        case Summary() | Listing():
            return letter.origin
