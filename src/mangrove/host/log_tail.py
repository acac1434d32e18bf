"""Follows the log of a process: what was added since the last look, within bounds."""

from __future__ import annotations

from pathlib import Path

MAX_LOOK_BYTES = 256 << 10
MAX_LINE_BYTES = 16 << 10


class LogTail:
    """One log file, which its writer may put aside and begin anew.

    Of what was added since the last look, the first part is read and the rest is skipped and counted: who
    makes another process log a lot must not make this one work a lot.
    """

    def __init__(self, path: Path) -> None:
        """From the end of what is there by now."""
        self._path = path
        self._held = b""
        self.skipped_bytes = 0
        try:
            found = path.stat()
        except FileNotFoundError:
            self._inode, self._position = 0, 0
        else:
            self._inode, self._position = found.st_ino, found.st_size

    def lines(self) -> list[bytes]:
        """Whole lines since the last look."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return []
        if found.st_ino != self._inode or found.st_size < self._position:
            self._inode, self._position, self._held = found.st_ino, 0, b""
        if found.st_size == self._position:
            return []
        with self._path.open("rb") as file:
            file.seek(self._position)
            data = file.read(MAX_LOOK_BYTES)
        read_to = self._position + len(data)
        *lines, self._held = (self._held + data).split(b"\n")
        self._position = max(read_to, found.st_size)
        if self._position > read_to or len(self._held) > MAX_LINE_BYTES:
            self.skipped_bytes += self._position - read_to + len(self._held)
            self._held = b""
        return lines
