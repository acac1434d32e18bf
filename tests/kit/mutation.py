"""A fast mutator of what gateways say to each other: bytes, header fields, and values inside of bodies.

It knows frames and msgpack well enough that most of what it makes gets past the first check: it takes a frame
or a record apart, changes one thing, and puts it together again with lengths that fit. Everything
follows from a seed, so that a failure can be repeated: a failing input is printed, and belongs into the
corpus (tests/data/frames) from then on.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from mangrove.overlay.protocol.frames import (
    HEADER,
    TAG_BYTES,
    Frame,
    FrameDecoder,
    FrameError,
    FrameType,
    Predecessor,
    Tag,
)

CORPUS = Path(__file__).parents[1] / "data" / "frames"
OPAQUE = {FrameType.DATA, FrameType.JOBS, FrameType.PIECE, FrameType.MANAGEMENT}
FIELD_BITS = tuple(
    {"B": 8, "H": 16, "I": 32, "Q": 64}.get(each, 16) for each in HEADER.format[1:].replace("2s", "H")
)
"""Of the header, in order, the magic first."""
DATA_FIELD_BITS = {
    "hop_limit": 8,
    "topic_class": 16,
    "epoch": 64,
    "label": 32,
    "age_us": 32,
    "flow_id": 32,
    "sequence": 64,
    "stream": 16,
    "way": 16,
}
DATA_FIELDS = ("body", "type", "origin", "destinations", "predecessors", "tags", *DATA_FIELD_BITS)
NUMBERS = [0, 1, 2, 3, 7, 8, 127, 128, 255, 256, 1023, 1024, 4096, 65535, 65536, (1 << 20), (64 << 20)]
NUMBERS += [
    (64 << 20) + 1,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 32,
    (1 << 53),
    (1 << 62),
    (1 << 63) - 1,
]
VALUES: list[Any] = [
    *NUMBERS,
    *(-1, -(1 << 31), -(1 << 63), (1 << 64) - 1, 0.0, -0.0, 1e-300, 1e308),
    *(float("nan"), float("inf"), -float("inf")),
    *("", " ", ".", "a", "b", "*", ">", "a.>", "a..b", "\x00", "\r\n", "PUB x 0\r\n\r\n", "_MGR.x", "$SYS.>"),
    *("é", "\U0001f600", "a" * 300, "a." * 2000, "\ud7ff", None, True, False, b"", b"\xff" * 100),
    *([], {}, [[]], {"": {}}, [None] * 100, [["a"]] * 10, {"a": 1}, {1: 2}),
    *(msgspec.Raw(b"\x91" * depth + b"\xc0") for depth in (900, 5_000)),
]


def load_corpus(folder: Path = CORPUS) -> list[bytes]:
    """What was recorded of honest gateways, and inputs that have once broken something."""
    found = [path.read_bytes() for path in sorted(folder.glob("*.bin"))]
    assert found, f"there is no corpus in {folder}"
    return found


Wrap = Callable[[bytes], bytes]
"""Puts a body into what it came in."""


class Mutator:
    """Makes one input after the other from a corpus."""

    def __init__(
        self, corpus: Sequence[bytes], seed: int, bodies: Sequence[tuple[Wrap, Any]] | None = None
    ) -> None:
        """`bodies` are values whose encoding is wrapped; else those of the frames in the corpus."""
        self._corpus = list(corpus)
        self._chance = random.Random(seed)
        self._bodies = list(bodies) if bodies is not None else _control_bodies(corpus)
        self._data = _data_frames(corpus)
        self._fresh = 0
        self._ways: list[Callable[[bytes], bytes]] = [
            self._flip,
            self._flip,
            self._overwrite,
            self._cut_out,
            self._repeat,
            self._insert,
            self._shorten,
            self._splice,
            self._field,
            self._field,
            self._field,
            self._join,
        ]

    def __call__(self) -> bytes:
        """The next input."""
        chance = self._chance
        way = chance.random()
        if self._bodies and way < 0.45:
            return self._changed_body()
        if self._data and 0.45 <= way < 0.65:
            return self.changed_frame(chance.choice(self._data)).encode()
        data = chance.choice(self._corpus)
        for _ in range(chance.choice((1, 1, 1, 2, 3))):
            data = chance.choice(self._ways)(data)
        return data

    # -- bytes --------------------------------------------------------------------------------------------

    def _place(self, data: bytes) -> int:
        return self._chance.randrange(len(data) + 1)

    def _flip(self, data: bytes) -> bytes:
        if not data:
            return b"\x00"
        changed = bytearray(data)
        changed[self._chance.randrange(len(data))] ^= 1 << self._chance.randrange(8)
        return bytes(changed)

    def _overwrite(self, data: bytes) -> bytes:
        at, size = self._place(data), self._chance.choice((1, 2, 4, 8))
        patch = self._chance.choice((b"\x00" * size, b"\xff" * size, self._chance.randbytes(size)))
        return data[:at] + patch + data[at + size :]

    def _cut_out(self, data: bytes) -> bytes:
        first, second = sorted((self._place(data), self._place(data)))
        return data[:first] + data[second:]

    def _repeat(self, data: bytes) -> bytes:
        first, second = sorted((self._place(data), self._place(data)))
        return data[:second] + data[first:second] * self._chance.choice((1, 1, 2, 8)) + data[second:]

    def _insert(self, data: bytes) -> bytes:
        at = self._place(data)
        return data[:at] + self._chance.randbytes(self._chance.choice((1, 2, 4, 16, 64))) + data[at:]

    def _shorten(self, data: bytes) -> bytes:
        return data[: self._place(data)]

    def _splice(self, data: bytes) -> bytes:
        other = self._chance.choice(self._corpus)
        return data[: self._place(data)] + other[self._place(other) :]

    def _join(self, data: bytes) -> bytes:
        return data + self._chance.choice(self._corpus)

    # -- frames -------------------------------------------------------------------------------------------

    def _field(self, data: bytes) -> bytes:
        """Another value in a field of the header."""
        if len(data) < HEADER.size:
            return self._flip(data)
        fields = list(HEADER.unpack_from(data))
        index = self._chance.randrange(1, len(fields))
        bits = FIELD_BITS[index]
        value = (
            self._chance.choice(NUMBERS) if self._chance.random() < 0.7 else self._chance.getrandbits(bits)
        )
        fields[index] = value & ((1 << bits) - 1)
        return HEADER.pack(*fields) + data[HEADER.size :]

    def changed_frame(self, frame: Frame) -> Frame:
        """A data frame with another value in one of its fields; it can be read, and may make sense."""
        chance = self._chance
        if chance.random() < 0.5:  # under the name of a frame that has not come yet
            self._fresh += 1
            frame = replace(frame, flow_id=100 + self._fresh % 64, sequence=1 + self._fresh // 64)
        field = chance.choice(DATA_FIELDS)
        match field:
            case "body":
                return replace(frame, body=chance.choice(self._ways)(frame.body))
            case "type":
                return replace(frame, type=chance.choice((FrameType.DATA, FrameType.JOBS)))
            case "origin":
                return replace(frame, origin=chance.randrange(5))
            case "destinations":
                return replace(frame, destinations=chance.choice((1, 2, 3, 4, 6, 8, 15, 16, 0)))
            case "predecessors":
                count = chance.choice((0, 1, 2, 32))
                found = [Predecessor(chance.randrange(9), chance.choice(NUMBERS), 3) for _ in range(count)]
                return replace(frame, predecessors=tuple(found))
            case "tags":
                count = chance.choice((0, 1, 4, 5))
                found_tags = [Tag(chance.randrange(6), chance.randbytes(TAG_BYTES)) for _ in range(count)]
                return replace(frame, tags=tuple(found_tags))
            case _:
                small = getattr(frame, field) + chance.choice((-1, 1, 2, 1000))
                value = small if chance.random() < 0.6 else chance.choice(NUMBERS)
                return replace(frame, **{field: value & ((1 << DATA_FIELD_BITS[field]) - 1)})

    def _changed_body(self) -> bytes:
        """A frame, or a record, whose body is well-formed, with another value somewhere inside."""
        wrap, body = self._chance.choice(self._bodies)
        encoded = self.changed_value(body)
        return self._flip(self._chance.choice(self._corpus)) if encoded is None else wrap(encoded)

    def changed_value(self, value: Any, kept: dict[str, Any] | None = None) -> bytes | None:
        """A value with another somewhere inside, encoded; None if that is not possible.

        What is `kept` is put into it as it is.
        """
        changed = value
        for _ in range(self._chance.choice((1, 1, 2))):
            changed = self._changed(changed)
        if kept and isinstance(changed, dict):
            changed = changed | kept
        try:
            return msgspec.msgpack.encode(changed)
        except (TypeError, ValueError, OverflowError, UnicodeEncodeError):
            return None

    def _changed(self, value: Any) -> Any:
        chance = self._chance
        if isinstance(value, dict) and value and chance.random() < 0.9:
            changed = dict(value)
            key = chance.choice(list(changed))
            way = chance.random()
            if way < 0.08:
                del changed[key]
            elif way < 0.14:
                changed[chance.choice(["origin", "x", "a", 7])] = changed[key]
            elif way < 0.2:
                return {**changed, **{f"{key}{number}": changed[key] for number in range(50)}}
            else:
                changed[key] = self._changed(changed[key])
            return changed
        if isinstance(value, list) and value and chance.random() < 0.85:
            items = list(value)
            at = chance.randrange(len(items))
            way = chance.random()
            if way < 0.15:
                del items[at]
            elif way < 0.3:
                items.insert(at, chance.choice(VALUES))
            elif way < 0.4:
                items *= chance.choice((2, 20))
            else:
                items[at] = self._changed(items[at])
            return items
        if isinstance(value, bool):
            return not value
        if isinstance(value, int) and chance.random() < 0.4:
            return value + chance.choice((-1, 1, 1 << 16))
        if isinstance(value, str) and value and chance.random() < 0.4:
            return chance.choice((value + value, value[:-1], value + ".", value.upper(), f"{value}\x00"))
        return chance.choice(VALUES)


def framed(kind: int, body: bytes) -> bytes:
    """A control frame around any bytes."""
    return Frame(FrameType(kind), body).encode()


def _frames(corpus: Sequence[bytes]) -> list[Frame]:
    found: list[Frame] = []
    for data in corpus:
        with contextlib.suppress(FrameError):
            found += FrameDecoder().feed(data)
    return found


def _data_frames(corpus: Sequence[bytes]) -> list[Frame]:
    return [frame for frame in _frames(corpus) if frame.type in (FrameType.DATA, FrameType.JOBS)]


def _control_bodies(corpus: Sequence[bytes]) -> list[tuple[Wrap, Any]]:
    """The values of frames that carry msgpack."""
    found: list[tuple[Wrap, Any]] = []
    for frame in _frames(corpus):
        if frame.type not in OPAQUE:
            with contextlib.suppress(msgspec.DecodeError):
                found.append((partial(framed, int(frame.type)), msgspec.msgpack.decode(frame.body)))
    return found
