"""Recordings of what a gateway's engine was told: a ring of two files. A production failure becomes a test.

A file begins with where its engine stood: its federation, its name and, unless it had just started, its
whole state. So each of the two can be replayed by itself. When the newer one is full it takes the place of
the older, and a new one begins. The state is pickled; it is read back with nothing but our own value types
allowed, so that a recording from elsewhere can be opened.
"""

from __future__ import annotations

import io
import pickle
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from mangrove.errors import InputError
from mangrove.model.federation import Federation
from mangrove.model.unreadable import UNREADABLE
from mangrove.model.versions.kept import KeptVersions
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.network.live_map import LiveMap, restored_map
from mangrove.overlay.sealing.sealer import BlankSealer
from mangrove.overlay.stimuli.recorded_engine import RecordedEngine
from mangrove.overlay.stimuli.stimulus import Stimulus
from mangrove.overlay.trust.recorded_trust import NotingTrust, RecordedTrust

MAGIC = b"MGSTIM1\n"
MAX_FILE_BYTES = 32 << 20
BUFFER_BYTES = 64 << 10
MAX_RECORD_BYTES = 1 << 30
OLDER = ".old"
_LENGTH = struct.Struct(">I")
_HINT = "give a file that `mangrove up --stimuli` wrote, DIR/stimuli/DOMAIN.ring"

_OWN_ROOMS = ("mangrove.model.", "mangrove.overlay.", "mangrove.routing.")
_PLAIN_TYPES = {
    ("builtins", "set"),
    ("builtins", "frozenset"),
    ("builtins", "bytearray"),
    ("collections", "Counter"),
    ("collections", "OrderedDict"),
    ("collections", "deque"),
    ("collections", "defaultdict"),
    ("sortedcontainers.sortedlist", "SortedList"),
    ("msgspec._utils", "rebuild"),  # how msgspec makes a struct again: calls a class that passed this check
    (restored_map.__module__, restored_map.__name__),
}


class SegmentHead(msgspec.Struct, frozen=True, kw_only=True):
    """The first record of a file."""

    federation: Federation
    domain: str
    epoch: int
    events_before: int
    process: str = ""
    standing_by: bool = False
    secured: bool = False
    """Whether it has keys; their answers are among the stimuli."""
    kept: KeptVersions | None = None
    """What was in force and promised when it was made."""
    state: bytes = b""
    """The engine at this point; empty if it had just been made."""


_encode = msgspec.msgpack.Encoder().encode
_head_decoder = msgspec.msgpack.Decoder(SegmentHead)
_stimulus_decoder = msgspec.msgpack.Decoder(tuple[Stimulus, int])


class StimuliFile:
    """Writes what the engine of one gateway was told. `record` is the engine's sink."""

    def __init__(self, path: Path, head: SegmentHead, max_file_bytes: int = MAX_FILE_BYTES) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._head = head
        self._max_file_bytes = max_file_bytes
        self._engine: RecordedEngine | None = None
        self._buffer = bytearray()
        self._size = 0
        self._begin(head)

    def follow(self, engine: RecordedEngine) -> None:
        """The engine whose state begins every further file."""
        self._engine = engine

    def record(self, stimulus: Stimulus, outcome: int) -> None:
        """Keep a stimulus and the digest of its outcome."""
        self._append(_encode((stimulus, outcome)))
        if self._size > self._max_file_bytes and self._engine is not None:
            self.write()
            self._begin(msgspec.structs.replace(self._head, state=_state(self._engine.plain())))
        elif len(self._buffer) > BUFFER_BYTES:
            self.write()

    def write(self) -> None:
        """Write down what was kept."""
        if self._buffer:
            with self._path.open("ab") as file:
                file.write(self._buffer)
            self._buffer.clear()

    def _begin(self, head: SegmentHead) -> None:
        if self._path.exists():
            self._path.replace(self._path.with_suffix(OLDER))
        self._size = 0
        self._buffer += MAGIC
        self._append(_encode(head))

    def _append(self, record: bytes) -> None:
        self._buffer += _LENGTH.pack(len(record)) + record
        self._size += len(record)


class Recording(msgspec.Struct, frozen=True):
    """One file, read back."""

    path: Path
    head: SegmentHead
    engine: OverlayEngine
    """In the state before the first stimulus."""
    stimuli: Iterator[tuple[Stimulus, int]]


def recordings(path: Path) -> list[Recording]:
    """The recordings of a gateway, the older first."""
    if path.is_dir():
        raise InputError(f"{path} is a directory", hint=_HINT)
    older = path.with_suffix(OLDER)
    return [read_recording(each) for each in (older, path) if each.exists() or each == path]


def read_recording(path: Path) -> Recording:
    """Open a recording. A record that was cut off ends it; anything else that is wrong is an InputError."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}", hint=_HINT) from None
    if not data.startswith(MAGIC):
        raise InputError(f"{path} is not a recording of a gateway", hint=_HINT)
    records = _records(data, len(MAGIC))
    try:
        head = _head_decoder.decode(next(records))
        if head.domain not in head.federation.domains:
            raise ValueError(f"no domain {head.domain!r} in its federation")
        engine = _engine(head)
    except (StopIteration, ValueError, pickle.UnpicklingError, *UNREADABLE) as error:
        raise InputError(f"the recording {path} has no usable beginning: {error}", hint=_HINT) from None
    return Recording(path, head, engine, _stimuli(path, records))


def _records(data: bytes, position: int) -> Iterator[bytes]:
    while position + _LENGTH.size <= len(data):
        (length,) = _LENGTH.unpack_from(data, position)
        position += _LENGTH.size
        if length > MAX_RECORD_BYTES or position + length > len(data):
            return
        yield data[position : position + length]
        position += length


def _stimuli(path: Path, records: Iterator[bytes]) -> Iterator[tuple[Stimulus, int]]:
    for number, record in enumerate(records):
        try:
            yield _stimulus_decoder.decode(record)
        except UNREADABLE as error:
            raise InputError(f"{path}: record {number} is not a stimulus: {error}") from None


def _engine(head: SegmentHead) -> OverlayEngine:
    if not head.state:
        made = OverlayEngine(
            head.federation,
            head.domain,
            head.epoch,
            events_before=head.events_before,
            process=head.process,
            standing_by=head.standing_by,
            trust=RecordedTrust() if head.secured else None,
            kept=head.kept,
        )
        made.seal_with(BlankSealer())  # bodies as long as they were
        return made
    engine = _StateReader(io.BytesIO(head.state)).load()
    if type(engine) is not OverlayEngine:
        raise ValueError("its state is not that of an engine")
    return engine


class _StateWriter(pickle.Pickler):
    """Writes an engine's state without its tables, which follow from the federation, and without keys."""

    def reducer_override(self, thing: object) -> Any:
        if isinstance(thing, LiveMap):
            return restored_map, thing.origins
        if isinstance(thing, NotingTrust):
            return RecordedTrust, ()
        return NotImplemented


def _state(engine: OverlayEngine) -> bytes:
    file = io.BytesIO()
    _StateWriter(file, pickle.HIGHEST_PROTOCOL).dump(engine)
    return file.getvalue()


class _StateReader(pickle.Unpickler):
    """Reads an engine's state: classes of the pure rooms and plain containers, and nothing else."""

    def find_class(self, module: str, name: str) -> object:
        if (module, name) in _PLAIN_TYPES:
            return super().find_class(module, name)
        if module.startswith(_OWN_ROOMS) and "." not in name:
            found = super().find_class(module, name)
            if isinstance(found, type):
                return found
        raise pickle.UnpicklingError(f"{module}.{name} has no place in an engine's state")
