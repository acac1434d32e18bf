"""Which frames were delivered last, kept where a crash of this process cannot erase it.

A gateway that crashes has delivered frames that it had no time to acknowledge; its neighbour sends them
again. The names of the last frames are therefore kept in a memory-mapped file: the kernel owns its pages, so
they survive the process, and writing one costs less than a microsecond. A crash of the whole machine may lose
them.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable
from pathlib import Path

from mangrove.overlay.protocol.frames import NAME, Frame, Name

ENTRIES = 1 << 14


class DeliveryJournal:
    """A ring of frame names in a file. Without a path, nothing is kept."""

    def __init__(self, path: Path | None, entries: int = ENTRIES) -> None:
        self._entries = entries
        self._next = 0
        self._map: mmap.mmap | None = None
        if path is None:
            return
        size = entries * NAME.size
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.stat().st_size != size:
            path.write_bytes(bytes(size))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), size)

    def names(self) -> list[Name]:
        """The frames that were delivered last, in no particular order."""
        return [] if self._map is None else _names(self._map[:])

    def record(self, frame: Frame) -> None:
        """A frame is being delivered."""
        self.note((frame.name,))

    def note(self, names: Iterable[Name]) -> None:
        """Frames are being delivered, here or by the gateway that this one stands by for."""
        if self._map is not None:
            for name in names:
                place = self._next % self._entries * NAME.size
                NAME.pack_into(self._map, place, *name)
                self._next += 1

    def close(self) -> None:
        """Give the file back."""
        if self._map is not None:
            self._map.close()
            self._map = None


def names_in(path: Path) -> list[Name]:
    """What another gateway's journal holds; nothing if there is none here, or none that can be read."""
    try:
        data = path.read_bytes()
    except OSError:
        return []
    return _names(data) if len(data) % NAME.size == 0 else []


def _names(data: bytes) -> list[Name]:
    return [Name(*entry) for entry in NAME.iter_unpack(data) if any(entry)]
