"""Message ids as they stand in a message's head: who published it, and its how manieth message it is.

    Mangrove-Id: <12 characters of the publisher>.<11 hexadecimal digits>

The SDK puts the id first into every head, and makes it always equally long, so that whoever looks for it need
not read the head.
"""

from __future__ import annotations

import re

from mangrove.model.shared_names import ID_HEADER

PREFIX_BYTES = 12
COUNT_DIGITS = 11
ID_BYTES = PREFIX_BYTES + 1 + COUNT_DIGITS

ID_START = b"NATS/1.0\r\n%b: " % ID_HEADER.encode()
"""How a head begins that the SDK made: the id is its first header, and always equally long."""
ID_END = len(ID_START) + ID_BYTES
_ID = re.compile(rb"\r\n%b:[ \t]*([^\r\n]*?)[ \t]*\r\n" % ID_HEADER.encode())


def identity_of(head: bytes) -> bytes | None:
    """The id in a head, whoever made it; None if there is none."""
    if head.startswith(ID_START):
        end = head.find(b"\r\n", len(ID_START))
        if end > 0:
            return head[len(ID_START) : end].strip()
    found = _ID.search(head)
    return None if found is None else found[1]


def origin_and_count(head: bytes) -> tuple[bytes, int] | None:
    """Which publisher made a message, and its how manieth it is; None if its id was not made by an SDK.

    One publisher's counts rise over all its subjects.
    """
    prefix = head[len(ID_START) : len(ID_START) + PREFIX_BYTES]
    count = head[ID_END - COUNT_DIGITS : ID_END]
    if not (head.startswith(ID_START) and head[ID_END : ID_END + 2] == b"\r\n" and count.isalnum()):
        return None
    try:
        return prefix, int(count, 16)
    except ValueError:
        return None


def origin_at(buffer: bytes, head: int) -> bytes:
    """The publisher of the message whose head begins there in a buffer; empty if no SDK made the head."""
    start = head + len(ID_START)
    if buffer.startswith(ID_START, head) and buffer.startswith(b".", start + PREFIX_BYTES):
        return buffer[start : start + PREFIX_BYTES]
    return b""


def common_origin(buffer: bytes, head: int, length: int, count: int) -> bytes | None:
    """The publisher of a run of equally long messages whose first head begins there; None: there are several.

    Compared byte by byte over all messages at once, which is dear for a few and cheap for many.
    """
    origin = origin_at(buffer, head)
    if not origin:
        return None
    places = range(head, head + len(ID_START) + PREFIX_BYTES + 1)
    same = all(buffer[place::length].count(buffer[place]) == count for place in reversed(places))
    return origin if same else None
