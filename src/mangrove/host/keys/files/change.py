"""Changes of a key directory that are in force as a whole or not at all, one at a time.

All new files are written to a folder of their own, then a plan of what goes where, and then each is put in
its place. Who is interrupted before the plan stands has changed nothing; after that, whoever opens the
directory next completes it. The disk is waited for once, before the plan stands, and not file by file.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from mangrove.errors import InputError, MangroveError
from mangrove.host.keys.directory import KeyDirectory
from mangrove.host.keys.files.guarded_file import check_folder, is_there, read_guarded
from mangrove.host.private_file import OWNER_ALONE

PLAN = "plan.json"
FOLDER_MODE = 0o700
SIDE_BY_SIDE = 16
"""Files that the disk is asked to keep at the same time: it does many in one go."""


class BusyError(MangroveError):
    """Somebody else changes the keys at this moment."""


class Plan(msgspec.Struct, frozen=True):
    """What becomes of the written files, in this order, and what goes away, as paths in the directory."""

    files: tuple[tuple[str, str], ...]
    removed: tuple[str, ...] = ()


class KeyChange:
    """One change: what is written here is read by nobody before all of it is in place."""

    def __init__(self, directory: KeyDirectory) -> None:
        self.directory = directory
        self._written = 0
        self._files: list[tuple[str, str]] = []
        self._removed: list[str] = []

    def write(self, path: Path, content: bytes) -> None:
        """Have a file of the directory replaced; the last word on a path counts."""
        place = str(path.relative_to(self.directory.path))
        self._files = [each for each in self._files if each[1] != place]
        self._written += 1
        name = f"{self._written}.new"
        _write(self.directory.pending.joinpath(name), content)
        self._files.append((name, place))

    def remove(self, path: Path) -> None:
        """Have a file or folder removed, if it is there."""
        self._removed.append(str(path.relative_to(self.directory.path)))

    @property
    def is_needed(self) -> bool:
        """Whether anything was asked for."""
        return bool(self._files or self._removed)

    def commit(self) -> None:
        """Put everything in place; last what those who run look at, so that they see it when all is there."""
        watched = [str(path.relative_to(self.directory.path)) for path in self.directory.watched]
        files = sorted(self._files, key=lambda each: watched.index(each[1]) if each[1] in watched else -1)
        plan = msgspec.json.encode(Plan(tuple(files), tuple(self._removed)))
        folder = self.directory.pending
        temporary = folder.joinpath(f".{PLAN}")
        _write(temporary, plan)
        _keep(temporary, *(folder.joinpath(name) for name, _ in files))
        temporary.rename(folder.joinpath(PLAN))
        _keep(folder)
        _complete(self.directory)


@contextlib.contextmanager
def changing(directory: KeyDirectory) -> Iterator[KeyChange]:
    """A change that is in force when the block ends well, and never was when it does not."""
    with _locked(directory):
        change = KeyChange(directory)
        directory.pending.mkdir(mode=FOLDER_MODE)
        try:
            yield change
        except BaseException:
            shutil.rmtree(directory.pending)
            raise
        if change.is_needed:
            change.commit()
        else:
            shutil.rmtree(directory.pending)


def complete_interrupted(directory: KeyDirectory) -> None:
    """Complete what somebody was interrupted in. Who is still at it is left alone."""
    if is_there(directory.pending):
        with contextlib.suppress(BusyError), _locked(directory):
            pass


@contextlib.contextmanager
def _locked(directory: KeyDirectory) -> Iterator[None]:
    """Alone with the directory, and with nothing left over from somebody who was interrupted."""
    try:
        directory.path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        check_folder(directory.path)
        descriptor = os.open(
            directory.lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, OWNER_ALONE
        )
    except OSError as error:
        raise InputError(f"cannot write to {directory.path}: {error.strerror}") from None
    with os.fdopen(descriptor, "r+b") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BusyError(
                f"somebody else changes the keys in {directory.path}", hint="wait for it, and try again"
            ) from None
        if is_there(directory.pending):
            _recover(directory)
        yield


def _recover(directory: KeyDirectory) -> None:
    if is_there(directory.pending.joinpath(PLAN)):
        _complete(directory)
    else:
        shutil.rmtree(directory.pending)


def _complete(directory: KeyDirectory) -> None:
    """Carry out the plan that stands; what was carried out already is left out."""
    folder, root = directory.pending, directory.path
    plan = msgspec.json.decode(read_guarded(folder.joinpath(PLAN), root), type=Plan)
    for place in plan.removed:
        target = root.joinpath(place)
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        else:
            target.unlink(missing_ok=True)
    folders = set()
    for name, place in plan.files:
        target = root.joinpath(place)
        if not is_there(folder.joinpath(name)):
            continue
        for parent in reversed(target.relative_to(root).parents):
            root.joinpath(parent).mkdir(mode=FOLDER_MODE, exist_ok=True)
        folder.joinpath(name).rename(target)
        folders.add(target.parent)
    _keep(*folders)
    shutil.rmtree(folder)


def _write(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, OWNER_ALONE)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def _keep(*paths: Path) -> None:
    """Return when these files and folders are on the disk."""
    with ThreadPoolExecutor(min(SIDE_BY_SIDE, max(len(paths), 1))) as threads:
        list(threads.map(_sync, paths))


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
