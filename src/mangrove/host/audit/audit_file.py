"""The audit log of one process on disk: lines are only ever added, each with the hash of the one before.

A full file becomes `<name>.<number of its first entry>` and the chain goes on in a new one; so many old files
are kept. A line that a crash tore stays, and the next entry accounts for it. While a process lives it knows
the end of its chain: should somebody shorten or remove the file, the next entry shows it.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from mangrove.errors import InputError
from mangrove.model.audit.entry import (
    BEGINNING,
    MAX_LINE_BYTES,
    AuditEntry,
    AuditHead,
    AuditKind,
    Fact,
    encode_entry,
    line_hash,
    read_entry,
)

log = logging.getLogger(__name__)

MAX_BYTES = 8 << 20
KEPT_FILES = 8
"""Full files, besides the one that is written."""
LOCK_WAIT_S = 5.0
LOCK_LOOK_S = 0.02
OWNER_ALONE = 0o600
OWNER_FOLDER = 0o700
SUFFIX = ".jsonl"


class AuditFile:
    """Writes entries. One process at a time has a file; another waits a little, or is refused."""

    def __init__(
        self,
        path: Path,
        process: str,
        *,
        max_bytes: int = MAX_BYTES,
        kept_files: int = KEPT_FILES,
        clock: Callable[[], float] = time.time,
        lock_wait_s: float = LOCK_WAIT_S,
    ) -> None:
        self._path = path
        self._process = process
        self._max_bytes = max_bytes
        self._kept_files = kept_files
        self._clock = clock
        self._torn = b""
        """A piece of a line at the end of the file that no entry accounts for."""
        self._size = 0
        self.failed = 0
        """Entries that could not be written, as when the disk is full."""
        self.head = AuditHead(process=process)
        path.parent.mkdir(mode=OWNER_FOLDER, parents=True, exist_ok=True)
        self._descriptor = self._open(lock_wait_s)
        self._recover()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def write(
        self, kind: AuditKind, facts: dict[str, Fact], *, times: int = 1, since: float | None = None
    ) -> None:
        """Add an entry. Nothing is raised: a full disk does not stop a gateway; it is counted."""
        try:
            self._look_for_changes()
            self._account_for_torn()
            if self._size >= self._max_bytes:
                self._continue()
            self._append(kind, facts, times, since)
        except (OSError, InputError) as error:
            self.failed += 1
            log.warning("the audit log %s cannot be written: %s", self._path, error)

    def close(self) -> None:
        """Let another process have the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    # -- one line -----------------------------------------------------------------------------------------

    def _append(self, kind: AuditKind, facts: dict[str, Fact], times: int, since: float | None) -> None:
        entry = AuditEntry(
            number=self.head.number + 1,
            at=self._clock(),
            process=self._process,
            kind=kind,
            facts=facts,
            times=times,
            since=since,
            before=self.head.digest,
        )
        line = encode_entry(entry)
        written = os.write(self._descriptor, line + b"\n")
        self._size += written
        if written <= len(line):
            self._torn = line[:written]
            raise OSError(f"only {written} of {len(line) + 1} bytes could be written")
        self.head = AuditHead(process=self._process, number=entry.number, digest=line_hash(line))

    def _account_for_torn(self) -> None:
        if self._torn:
            torn, self._torn = self._torn, b""
            self._size += os.write(self._descriptor, b"\n")
            self._append(AuditKind.LOG_TORN, {"size_bytes": len(torn), "sha256": line_hash(torn)}, 1, None)

    # -- the file -----------------------------------------------------------------------------------------

    def _open(self, wait_s: float) -> int:
        """The file, for this process alone."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(self._path, flags, OWNER_ALONE)
        except OSError as error:
            raise InputError(
                f"cannot open the audit log {self._path}: {error.strerror}",
                hint="it must be a file of the user who runs this, and no link to another",
            ) from None
        deadline = time.monotonic() + wait_s
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                if time.monotonic() < deadline:
                    time.sleep(LOCK_LOOK_S)
                    continue
                os.close(descriptor)
                raise InputError(
                    f"another process writes the audit log {self._path}", hint="see who runs with that name"
                ) from None
            return descriptor

    def _reopen(self) -> None:
        """Another file has the name by now, or none. The one before is held until there is one to write."""
        self._path.parent.mkdir(mode=OWNER_FOLDER, parents=True, exist_ok=True)
        opened = self._open(0.0)
        os.close(self._descriptor)
        self._descriptor = opened

    def _recover(self) -> None:
        """Find the end of the chain that earlier lives left."""
        content = self._path.read_bytes()
        self._size = len(content)
        *lines, rest = content.split(b"\n")
        if rest:
            entry = read_entry(rest)
            if entry is not None and entry.number == self._last(lines).number + 1:
                self._size += os.write(self._descriptor, b"\n")  # whole but for its end
                lines.append(rest)
            else:
                self._torn = rest
        self.head = self._last(lines)
        if not self.head.number:
            for path in reversed(files_of(self._path)[:-1]):
                self.head = self._last(path.read_bytes().split(b"\n")[:-1])
                if self.head.number:
                    break

    def _last(self, lines: list[bytes]) -> AuditHead:
        for line in reversed(lines):
            entry = read_entry(line)
            if entry is not None:
                return AuditHead(process=self._process, number=entry.number, digest=line_hash(line))
        return AuditHead(process=self._process, number=0, digest=BEGINNING)

    def _look_for_changes(self) -> None:
        """Whether the file is still the one that was left, as long as it was."""
        held = os.fstat(self._descriptor)
        try:
            there = self._path.lstat()
            same = (there.st_ino, there.st_dev) == (held.st_ino, held.st_dev)
        except FileNotFoundError:
            same = False
        if same and held.st_size == self._size:
            return
        expected = self._size
        if not same:
            self._reopen()
        found = self._size = os.fstat(self._descriptor).st_size
        self._torn = self._unfinished()
        self._account_for_torn()
        facts: dict[str, Fact] = {"expected_bytes": expected, "found_bytes": found, "same_file": same}
        self._append(AuditKind.LOG_CHANGED, facts, 1, None)

    def _unfinished(self) -> bytes:
        """What stands after the last end of a line; somebody else wrote it."""
        with self._path.open("rb") as file:
            file.seek(max(0, self._size - MAX_LINE_BYTES))
            return file.read().rpartition(b"\n")[2]

    def _continue(self) -> None:
        """The file is full: go on in a new one, and let the oldest go."""
        first = _first_number(self._path)
        self._path.rename(self._path.with_name(f"{self._path.name}.{first:012d}"))
        self._reopen()
        self._size = 0
        full = files_of(self._path)[:-1]
        gone, kept = full[: -self._kept_files], full[-self._kept_files :]
        # What may be gone is said before it goes, so that a crash between the two looks like nothing else.
        self._append(AuditKind.LOG_CONTINUED, {"kept_from": _first_number(kept[0])}, 1, None)
        for path in gone:
            with contextlib.suppress(FileNotFoundError):
                path.unlink()


def files_of(path: Path) -> list[Path]:
    """The files of a process's chain, oldest first; the one that is written is last."""
    return [*sorted(path.parent.glob(f"{path.name}.*")), path]


def _first_number(path: Path) -> int:
    with path.open("rb") as file:
        for line in file:
            entry = read_entry(line.rstrip(b"\n"))
            if entry is not None:
                return entry.number
    return 0
