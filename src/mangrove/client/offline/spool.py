"""The folder in which one client keeps what waits for a broker, so that it outlives the program.

Records are appended to segments, numbered files. A segment is removed when nothing in it, and in those before
it, waits any longer; what waits in the way is written again behind the others first. One process has the
folder at a time. No link is followed, and nobody else can read or write it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from mangrove.client.offline.kept import Kept
from mangrove.client.offline.records import MAGIC, done_records, kept_record, read_segment
from mangrove.errors import InputError
from mangrove.host.private_file import OWNER_ALONE

LOCK = "lock"
_NAME = re.compile(r"(\d{10})\.spool")
MIN_SEGMENT_BYTES = 1 << 16
SEGMENTS = 8
"""A full store is divided into about so many."""
MAX_SEGMENT_READ = 1 << 31
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class SpoolContent(msgspec.Struct):
    """What was found in a folder."""

    waiting: list[Kept]
    """In the order of publishing."""
    unreadable_bytes: int = 0
    segments: list[tuple[int, int]] = msgspec.field(default_factory=list)
    """Numbers and sizes."""
    places: dict[int, int] = msgspec.field(default_factory=dict)
    """By message, the segment in which it was written last."""

    @property
    def size_bytes(self) -> int:
        """Of the files."""
        return sum(size for _, size in self.segments)


class Spool:
    """The folder of one client, held until it is closed. InputError if it cannot be had.

    OSError from `keep` and `done` says that the disk does not take it; what was written before is intact.
    What is done waits no longer all the same: the disk is told as soon as it takes that, see `tell_done`.
    """

    def __init__(self, directory: Path, max_bytes: int) -> None:
        self.directory = directory
        self._segment_bytes = max(max_bytes // SEGMENTS, MIN_SEGMENT_BYTES)
        self._folder = _open_folder(directory, make=True)
        self._lock = -1
        self._file = -1
        self._file_bytes = 0
        self._dirty = False
        try:
            self._lock = _take_lock(self._folder, directory)
            self.found = _read(self._folder)
            """What an earlier process left behind."""
        except BaseException:
            self.close()
            raise
        self._sizes = dict(self.found.segments)
        """Of segments, by number."""
        self._live = dict.fromkeys(self._sizes, 0)
        """How many messages that wait are in each."""
        self._live_bytes = 0
        self._place: dict[int, int] = {}
        """In which segment a message that waits is."""
        self._untold: dict[int, deque[bytes]] = {}
        """By segment, records of what is done there that the disk did not take; they go with the segment."""
        self._next = max(self._sizes, default=0) + 1
        self._waiting: dict[int, Kept] = {}
        for kept in self.found.waiting:
            self._note(kept, self.found.places[kept.number])

    @property
    def size_bytes(self) -> int:
        """Of all files."""
        return sum(self._sizes.values())

    @property
    def behind(self) -> bool:
        """Whether the disk does not know of all that is done."""
        return bool(self._untold)

    def __contains__(self, number: int) -> bool:
        """Whether a message waits here."""
        return number in self._place

    def keep(self, kept: Kept) -> None:
        """A message waits."""
        if kept.number in self._place:
            return
        with contextlib.suppress(OSError):  # there may be room for the message all the same
            self._write_done()
        self._append(kept_record(kept))
        self._note(kept, self._next - 1)
        self._make_way()

    def done(self, numbers: Iterable[int]) -> None:
        """These wait no longer."""
        over: dict[int, list[int]] = {}
        for number in numbers:
            if number in self._place:
                segment = self._place.pop(number)
                self._live_bytes -= self._waiting.pop(number).size_bytes
                self._live[segment] -= 1
                over.setdefault(segment, []).append(number)
        for segment, those in over.items():
            self._untold.setdefault(segment, deque()).append(done_records(those))
        if over:
            self.tell_done()

    def tell_done(self) -> None:
        """Have the disk know what is done, as far as it does not: first by what needs no room."""
        self._remove_front()
        self._write_done()
        self._make_way()

    def sync(self) -> None:
        """Have the disk take what was written."""
        if self._dirty and self._file >= 0:
            self._dirty = False
            os.fsync(self._file)

    def sync_later(self) -> Callable[[], None] | None:
        """What does the same in a thread, whatever becomes of the segment; None if there is nothing to do."""
        if not self._dirty or self._file < 0:
            return None
        self._dirty = False
        descriptor = os.dup(self._file)

        def sync() -> None:
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

        return sync

    def close(self) -> None:
        """Let go of the folder. Closing twice is no error."""
        with contextlib.suppress(OSError):
            self.sync()
        for descriptor in (self._file, self._lock, self._folder):
            if descriptor >= 0:
                os.close(descriptor)
        self._file = self._lock = self._folder = -1

    # -- segments -------------------------------------------------------------------------------------------

    def _note(self, kept: Kept, segment: int) -> None:
        self._waiting[kept.number] = kept
        self._live_bytes += kept.size_bytes
        self._place[kept.number] = segment
        self._live[segment] += 1

    def _append(self, record: bytes) -> None:
        if self._file < 0 or self._file_bytes + len(record) > self._segment_bytes:
            self._begin_segment()
        try:
            _write_all(self._file, record)
        except OSError:
            # Half a record at the end would hide all that follows.
            try:
                os.ftruncate(self._file, self._file_bytes)
                os.lseek(self._file, self._file_bytes, os.SEEK_SET)
            except OSError:
                self._end_segment()
            raise
        self._file_bytes += len(record)
        self._sizes[self._next - 1] = self._file_bytes
        self._dirty = True

    def _begin_segment(self) -> None:
        self._end_segment()
        name = f"{self._next:010d}.spool"
        descriptor = os.open(
            name,
            os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE,
            OWNER_ALONE,
            dir_fd=self._folder,
        )
        try:
            _write_all(descriptor, MAGIC)
            os.fsync(self._folder)
        except OSError:
            os.close(descriptor)
            os.unlink(name, dir_fd=self._folder)
            raise
        self._file, self._file_bytes = descriptor, len(MAGIC)
        self._sizes[self._next], self._live[self._next] = len(MAGIC), 0
        self._next += 1

    def _end_segment(self) -> None:
        if self._file >= 0:
            with contextlib.suppress(OSError):
                self.sync()
            os.close(self._file)
            self._file = -1

    def _write_done(self) -> None:
        while self._untold:
            segment, records = next(iter(self._untold.items()))
            self._append(records[0])
            records.popleft()
            if not records:
                del self._untold[segment]

    def _remove_front(self) -> None:
        """Remove the segments in which, as in all before them, nothing waits."""
        if not self._place:
            self._end_segment()
        for number in sorted(self._sizes):
            if self._live[number]:
                return
            self._remove(number)

    def _make_way(self) -> None:
        """Remove what is over; what waits in the first segment is moved if most of the rest is over."""
        self._remove_front()
        while len(self._sizes) > 1 and self.size_bytes > 2 * (self._live_bytes + self._segment_bytes):
            first = min(self._sizes)
            for number in [number for number, place in self._place.items() if place == first]:
                self._append(kept_record(self._waiting[number]))
                self._live[first] -= 1
                self._place[number] = self._next - 1
                self._live[self._next - 1] += 1
            self.sync()
            self._remove_front()

    def _remove(self, number: int) -> None:
        os.unlink(f"{number:010d}.spool", dir_fd=self._folder)
        del self._sizes[number], self._live[number]
        self._untold.pop(number, None)


def look_into(directory: Path) -> SpoolContent:
    """What is in a folder, whoever has it at the moment. InputError if that cannot be told."""
    folder = _open_folder(directory, make=False)
    try:
        return _read(folder)
    finally:
        os.close(folder)


def in_use(directory: Path) -> bool:
    """Whether a process holds a folder."""
    folder = _open_folder(directory, make=False)
    try:
        os.close(_take_lock(folder, directory))
    except InputError:
        return True
    finally:
        os.close(folder)
    return False


def _open_folder(directory: Path, *, make: bool) -> int:
    """A folder that is ours alone; its parents are made if need be."""
    try:
        if make:
            directory.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileExistsError):
                directory.mkdir(mode=stat.S_IRWXU)
        folder = os.open(directory, _FOLDER)
    except OSError as error:
        raise InputError(
            f"{directory} cannot be used to keep messages: {error.strerror}",
            hint="name a folder of your own; a link to one is not followed",
        ) from None
    found = os.fstat(folder)
    if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        os.close(folder)
        raise InputError(
            f"{directory} is another user's, or others may write there",
            hint=f"chmod 700 {directory}, as its owner",
        )
    return folder


def _take_lock(folder: int, directory: Path) -> int:
    lock = -1
    try:
        lock = _open_file(LOCK, os.O_RDWR | os.O_CREAT, folder)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise InputError(
            f"{directory} is in use by another client", hint="give each client a directory of its own"
        ) from None
    except OSError as error:
        if lock >= 0:
            os.close(lock)
        raise InputError(f"{directory} cannot be locked: {error.strerror}") from None
    return lock


def _open_file(name: str, flags: int, folder: int) -> int:
    """A plain file; OSError for links, pipes and the like."""
    descriptor = os.open(name, flags | _FILE, OWNER_ALONE, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(0, f"{name} is no plain file")
    return descriptor


def _read(folder: int) -> SpoolContent:
    """Messages that wait in all segments, in their order. What cannot be read is counted, not guessed."""
    waiting: dict[int, Kept] = {}
    content = SpoolContent([])
    for name in sorted(os.listdir(folder)):
        named = _NAME.fullmatch(name)
        if named is None:
            continue
        try:
            descriptor = _open_file(name, os.O_RDONLY, folder)
        except FileNotFoundError:
            continue  # its owner has just removed it
        except OSError as error:
            raise InputError(f"the segment {name} cannot be read: {error.strerror}") from None
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(MAX_SEGMENT_READ)
        segment = read_segment(data)
        content.unreadable_bytes += segment.unreadable_bytes
        content.segments.append((int(named[1]), len(data)))
        for record in segment.records:
            if isinstance(record, Kept):
                waiting[record.number] = record
                content.places[record.number] = int(named[1])
            else:
                _forget(waiting, *record)
    content.waiting = [waiting[number] for number in sorted(waiting)]
    return content


def _forget(waiting: dict[int, Kept], first: int, last: int) -> None:
    if last - first < len(waiting):
        for number in range(first, last + 1):
            waiting.pop(number, None)
    else:
        for number in [each for each in waiting if first <= each <= last]:
            del waiting[number]


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
