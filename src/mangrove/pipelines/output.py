"""A job's output directory: it appears whole or not at all, and running again replaces it."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import glob
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from mangrove.errors import InputError, MangroveError, system_words

MARKER = "_mangrove_job"
UNFINISHED = ".mangrove-"
"""Part of the name of a directory that a job still writes."""
WRITABLE = "give a directory that this user may write"
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
"""What a disk says to those who write to an open file."""
AT_FDCWD = -100
RENAME_EXCHANGE = 2


@contextmanager
def output_directory(path: Path, job: str) -> Iterator[Path]:
    """A temporary directory that becomes `path` at the end; on an error nothing is left and nothing replaced.

    Only a directory that a job of the same name wrote, or an empty one, is replaced. What a process left that
    was killed while it wrote is removed by the next one: nobody holds its lock any more.
    """
    check_output(path, job)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(path)
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}{UNFINISHED}", dir=path.parent))
        temporary.chmod(0o755)
    except OSError as error:
        raise unusable(path, error) from error
    with _locked(temporary):
        try:
            yield temporary
            (temporary / MARKER).write_text(f"{job}\n")
            if path.exists():
                exchange(temporary, path)
            else:
                temporary.replace(path)
        except OSError as error:
            if not disk_refused(error, temporary, path):
                raise
            raise MangroveError(
                f"--output: {path} cannot be written: {error.strerror or error}",
                hint="nothing was replaced; see that there is room and that this user may write there,"
                " or give another directory",
            ) from error
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def disk_refused(error: OSError, *places: Path) -> bool:
    """Whether it is about one of these places; where an open file could not be written, it names none."""
    if error.filename is None:
        return error.errno in FULL
    return any(str(error.filename).startswith(str(place)) for place in places)


def unusable(path: Path, error: OSError) -> InputError:
    """What the system refused before anything was computed, in words."""
    return InputError(f"--output: {path} cannot be made: {system_words(error)}", hint=WRITABLE)


def exchange(one: Path, other: Path) -> None:
    """Swap two directories at one stroke, so that `other` is at no moment missing, whoever is killed when."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.renameat2(AT_FDCWD, bytes(one), AT_FDCWD, bytes(other), RENAME_EXCHANGE) == 0:
        return
    number = ctypes.get_errno()
    if number not in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
        raise OSError(number, os.strerror(number), str(other))
    # A file system that cannot: for a moment only the old directory is there, under the name of the new one.
    aside = one.with_name(f"{one.name}-old")
    other.replace(aside)
    one.replace(other)
    aside.replace(one)


def _remove_abandoned(path: Path) -> None:
    for left in path.parent.glob(f".{glob.escape(path.name)}{UNFINISHED}*"):
        with suppress(OSError), _locked(left):
            shutil.rmtree(left, ignore_errors=True)


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """The directory's lock, which ends with the process that has it; `OSError` if somebody else has it."""
    number = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(number)


def check_output(path: Path, job: str, *, in_place: bool = False) -> None:
    """Refuse to replace what this job did not write, and a place where it could write nothing.

    With `in_place` the job goes on in a directory that is there, so nothing is made beside it.
    """
    try:
        there = path.exists()
        if there:
            _check_replaceable(path, job)
        _check_writable(path, (path if in_place and there else path.absolute().parent))
    except OSError as error:
        raise unusable(path, error) from error


def _check_replaceable(path: Path, job: str) -> None:
    if not path.is_dir():
        raise InputError(f"--output: {path} is a file", hint="give a directory")
    marker = path / MARKER
    if any(path.iterdir()) and not (marker.is_file() and marker.read_text().strip() == job):
        raise InputError(
            f"--output: {path} holds files that `mangrove pipeline {job}` did not write",
            hint="give a new directory, or empty this one",
        )


def _check_writable(path: Path, directory: Path) -> None:
    """Before anything is computed: in this directory, or in the one in which it will be made."""
    there = next(place for place in (directory, *directory.parents) if place.exists())
    if not there.is_dir():
        raise InputError(f"--output: {path} cannot be made: {there} is a file", hint="give a directory")
    if not os.access(there, os.W_OK | os.X_OK):
        raise InputError(f"--output: {path}: nothing may be written in {there}", hint=WRITABLE)


def write_json(path: Path, document: object) -> None:
    """A JSON document, indented unless it is large."""
    data = msgspec.json.encode(document, order="sorted")
    if len(data) < 1 << 20:
        data = msgspec.json.format(data, indent=2)
    path.write_bytes(data + b"\n")


def write_parquet(path: Path, table: pa.Table) -> None:
    """A small table; its bytes do not depend on the pieces in which it came."""
    pq.write_table(table.combine_chunks(), path, compression="zstd")
