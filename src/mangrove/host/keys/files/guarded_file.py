"""Reading of key files: only what nobody else could have read or put there is read at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from mangrove.errors import InputError

MAX_FILE_BYTES = 8 << 20
OTHERS = 0o077
RESTORE = "unpack the site's export again, or restore the directory where `mangrove keys init` made it"


def read_guarded(path: Path, root: Path) -> bytes:
    """The content of a file below the key directory `root`.

    Neither it nor a folder on the way may be a symbolic link, belong to somebody else, or be open to others.
    """
    for folder in (
        root,
        *reversed([each for each in path.parents if each.is_relative_to(root) and each != root]),
    ):
        check_folder(folder)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise _unreadable(path, error) from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise InputError(f"{path} is no file", hint=RESTORE)
        _check_owner(path, found, "600")
        if found.st_size > MAX_FILE_BYTES:
            raise InputError(f"{path} is too large for a key file", hint=RESTORE)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            content = file.read(MAX_FILE_BYTES + 1)
    finally:
        os.close(descriptor)
    if not content:
        raise InputError(f"{path} is empty", hint=RESTORE)
    return content


def is_there(path: Path) -> bool:
    """Whether there is something of that name, be it as it should be or not."""
    return os.path.lexists(path)


def check_folder(folder: Path) -> None:
    """Refuse a folder that is a link, belongs to somebody else, or is open to others."""
    try:
        found = folder.lstat()
    except OSError as error:
        raise _unreadable(folder, error) from None
    if stat.S_ISLNK(found.st_mode):
        raise _linked(folder)
    if not stat.S_ISDIR(found.st_mode):
        raise InputError(f"{folder} is no folder", hint=RESTORE)
    _check_owner(folder, found, "700")


def _check_owner(path: Path, found: os.stat_result, mode: str) -> None:
    if found.st_uid != os.geteuid():
        raise InputError(
            f"{path} belongs to user {found.st_uid}, and this is user {os.geteuid()}",
            hint=f"keys belong to who uses them: chown {os.geteuid()} {path}",
        )
    if found.st_mode & OTHERS:
        raise InputError(
            f"{path} is open to others (mode {stat.S_IMODE(found.st_mode):03o})",
            hint=f"chmod {mode} {path}; if others may have seen it, replace the keys: mangrove keys rotate",
        )


def _unreadable(path: Path, error: OSError) -> InputError:
    if path.is_symlink():
        return _linked(path)
    if isinstance(error, FileNotFoundError):
        return InputError(f"{path} is missing", hint=RESTORE)
    return InputError(f"cannot read {path}: {error.strerror}", hint=RESTORE)


def _linked(path: Path) -> InputError:
    return InputError(
        f"{path} is a symbolic link; keys are read from the files themselves",
        hint="put the file itself there, or name its directory with --keys",
    )
