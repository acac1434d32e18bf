"""Payloads in a directory, a file each, numbered in the order in which they came, over all runs."""

from __future__ import annotations

import contextlib
import itertools
from pathlib import Path

from mangrove.errors import InputError, MangroveError

MAX_DIGITS = 12
"""Files of a longer name are somebody else's."""


class KeptPayloads:
    """Goes on after the files of earlier runs, and overwrites none."""

    def __init__(self, directory: Path) -> None:
        """Make the directory, if need be; InputError if it cannot be read."""
        self._directory = directory
        try:
            directory.mkdir(parents=True, exist_ok=True)
            last = max((_number(each.name) for each in directory.iterdir()), default=0)
        except OSError as error:
            raise InputError(f"--out {directory}: {error.strerror}", hint="name another directory") from None
        self._numbers = itertools.count(last + 1)

    def keep(self, payload: bytes) -> Path:
        """Write one; where it is. MangroveError if it cannot be written."""
        while True:
            path = self._directory / f"{next(self._numbers):06d}"
            with contextlib.suppress(FileExistsError):  # another run has written it meanwhile
                _write(path, payload)
                return path


def _write(path: Path, payload: bytes) -> None:
    made = False
    try:
        with path.open("xb") as file:
            made = True
            file.write(payload)
    except FileExistsError:
        raise
    except OSError as error:
        if made:  # half a payload would look like a whole one
            with contextlib.suppress(OSError):
                path.unlink()
        raise MangroveError(
            f"cannot write {path}: {error.strerror}",
            hint="make room there, or name another directory by --out",
        ) from None


def _number(name: str) -> int:
    """The number that a file has for its name; 0 if it has none."""
    return int(name) if name.isascii() and name.isdecimal() and len(name) <= MAX_DIGITS else 0
