"""How messages that wait are written to disk: records with a checksum, one behind the other.

    segment  "MGRSPOOL1\\n" record*
    record   crc32 of the rest (4), size of the body (4), body
    body     "K" number (8) time (8) sizes of subject, reply, head, payload (2, 2, 4, 4), these four
             "D" pairs of numbers (8, 8): messages from the first to the second of each wait no longer

All numbers are big-endian. Whatever does not look like this is where a segment ends: it was being written
when the machine stopped, or is damaged.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from typing import NamedTuple

from mangrove.client.offline.kept import Kept
from mangrove.model.subjects import subject_problem

MAGIC = b"MGRSPOOL1\n"
MAX_RECORD = 1 << 28
_FRAME = struct.Struct(">II")
_KEPT = struct.Struct(">cqqHHII")
_RANGE = struct.Struct(">qq")
MAX_RANGES = 1 << 16


def kept_record(kept: Kept) -> bytes:
    """A message that waits. Its subject and reply are valid, so they are short enough."""
    subject, reply = kept.subject.encode(), kept.reply.encode()
    sizes = len(subject), len(reply), len(kept.head), len(kept.payload)
    start = _KEPT.pack(b"K", kept.number, kept.at_ns, *sizes)
    return _record(b"".join((start, subject, reply, kept.head, kept.payload)))


def done_records(numbers: Iterable[int]) -> bytes:
    """Messages that wait no longer."""
    ranges: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if ranges and number <= ranges[-1][1] + 1:
            ranges[-1] = ranges[-1][0], number
        else:
            ranges.append((number, number))
    return b"".join(
        _record(b"D" + b"".join(_RANGE.pack(*each) for each in ranges[start : start + MAX_RANGES]))
        for start in range(0, len(ranges), MAX_RANGES)
    )


def _record(body: bytes) -> bytes:
    size = len(body).to_bytes(4)
    return b"".join((zlib.crc32(body, zlib.crc32(size)).to_bytes(4), size, body))


Done = tuple[int, int]


class Segment(NamedTuple):
    """What a segment holds, in the order in which it was written."""

    records: list[Kept | Done]
    unreadable_bytes: int
    """From the first record on that is not whole."""


def read_segment(data: bytes) -> Segment:
    """Read what is there; nothing of what follows the first record that is not whole is believed."""
    records: list[Kept | Done] = []
    if not data.startswith(MAGIC):
        return Segment(records, len(data))
    at = len(MAGIC)
    while at + _FRAME.size <= len(data):
        crc, size = _FRAME.unpack_from(data, at)
        end = at + _FRAME.size + size
        if size > MAX_RECORD or end > len(data) or zlib.crc32(data[at + 4 : end]) != crc:
            break
        found = _read_body(data[at + _FRAME.size : end])
        if found is None:
            break
        records += found
        at = end
    return Segment(records, len(data) - at)


def _read_body(body: bytes) -> list[Kept | Done] | None:
    if body[:1] == b"D" and (len(body) - 1) % _RANGE.size == 0:
        return [(first, last) for first, last in _RANGE.iter_unpack(body[1:])]
    if body[:1] != b"K" or len(body) < _KEPT.size:
        return None
    _, number, at_ns, *sizes = _KEPT.unpack_from(body)
    if _KEPT.size + sum(sizes) != len(body):
        return None
    parts, at = [], _KEPT.size
    for size in sizes:
        parts.append(body[at : at + size])
        at += size
    try:
        subject, reply = parts[0].decode(), parts[1].decode()
    except UnicodeDecodeError:
        return None
    if subject_problem(subject, wildcards=False) or (reply and subject_problem(reply, wildcards=False)):
        return None  # a checksum is no proof against somebody who writes one
    return [Kept(number, at_ns, subject, parts[3], parts[2], reply)]
