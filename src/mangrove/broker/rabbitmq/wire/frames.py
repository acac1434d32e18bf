"""The frames that come by the thousand, written and read by hand: publish, deliver, acknowledge.

A frame is `type:1 channel:2 size:4 payload 0xCE`. A message is a method frame, a header frame with its
properties, and as many body frames as it needs.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
END = b"\xce"
END_BYTE = 0xCE
FRAME_EXTRA = 8
"""Bytes of a frame besides its payload."""
HEARTBEAT_FRAME = b"\x08\x00\x00\x00\x00\x00\x00\xce"

FRAME_HEAD = struct.Struct(">BHL")
DELIVER, ACK, NACK = b"\x00\x3c\x00\x3c", b"\x00\x3c\x00\x50", b"\x00\x3c\x00\x78"
_PUBLISH = b"\x00\x3c\x00\x28\x00\x00"
_BASIC = b"\x00\x3c\x00\x00"
_ACK_FRAME = struct.Struct(">BHL4sQBB")
_TAG = struct.Struct(">QB")
_LONG_LONG = struct.Struct(">Q")


class Delivery(NamedTuple):
    """A message from a queue; `properties` are as they stand in its header frame, flags first."""

    consumer: bytes
    tag: int
    redelivered: bool
    key: bytes
    properties: bytes
    body: bytes


def shortstr(text: bytes) -> bytes:
    """A string of up to 255 bytes."""
    return bytes((len(text),)) + text


def publish_head(channel: int, exchange: str, key: str) -> bytes:
    """The method frame of a publication."""
    payload = b"%b%b%b\x00" % (_PUBLISH, shortstr(exchange.encode()), shortstr(key.encode()))
    return FRAME_HEAD.pack(METHOD, channel, len(payload)) + payload + END


def content_head(channel: int, size: int, properties: bytes) -> bytes:
    """The header frame of a message of `size` bytes."""
    payload = _BASIC + _LONG_LONG.pack(size) + properties
    return FRAME_HEAD.pack(HEADER, channel, len(payload)) + payload + END


def body_frames(channel: int, body: bytes, frame_max: int) -> bytes:
    """The body frames of a message: none if it is empty, and one if it is not too large."""
    most = frame_max - FRAME_EXTRA
    parts = [body[start : start + most] for start in range(0, len(body), most)]
    return b"".join(FRAME_HEAD.pack(BODY, channel, len(part)) + part + END for part in parts)


def ack(channel: int, tag: int) -> bytes:
    """Everything up to this delivery has been taken."""
    return _ACK_FRAME.pack(METHOD, channel, 13, ACK, tag, 1, END_BYTE)


def read_confirm(data: bytes, start: int) -> tuple[int, bool]:
    """The number, and whether all before it are meant too, of an ack or nack whose arguments begin there."""
    tag, bits = _TAG.unpack_from(data, start)
    return tag, bool(bits & 1)


def read_deliver(data: bytes, start: int) -> tuple[bytes, int, bool, bytes]:
    """Consumer, number, whether it came before, and routing key of a delivery."""
    at = start + 1 + data[start]
    consumer = data[start + 1 : at]
    tag, redelivered = _TAG.unpack_from(data, at)
    at += 9
    at += 1 + data[at]  # the exchange
    return consumer, tag, bool(redelivered), data[at + 1 : at + 1 + data[at]]


def read_content_head(data: bytes, start: int, end: int) -> tuple[int, bytes]:
    """Size and properties of a message, from the payload of a header frame."""
    (size,) = _LONG_LONG.unpack_from(data, start + 4)
    return size, data[start + 12 : end]
