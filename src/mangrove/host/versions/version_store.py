"""The versions of the federation document that a domain keeps on disk: its state, and what was in force.

The state is one small file that is replaced as a whole. Beside it lie the documents that were in force, for
the history and to go back to; the oldest are removed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from mangrove.errors import InputError
from mangrove.model.versions.document import FederationDocument, WrittenDocument
from mangrove.model.versions.kept import KeptVersions

MAX_DOCUMENTS = 256
STATE = "state"
SUFFIX = ".document"
REMEDY = "remove it: the gateway is told by its neighbours what is in force"

_encode = msgspec.msgpack.Encoder().encode
_state = msgspec.msgpack.Decoder(KeptVersions)
_document = msgspec.msgpack.Decoder(WrittenDocument)


class VersionStore:
    """One domain's folder. Nothing is there before the first change."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def stamp(self) -> int:
        """Another number whenever the state was replaced; 0 if there is none."""
        try:
            return (self._folder / STATE).stat().st_mtime_ns
        except OSError:
            return 0

    def read(self) -> KeptVersions:
        """The state; that of a domain which knows only its file, if there is none."""
        path = self._folder / STATE
        try:
            kept = _state.decode(path.read_bytes())
            if kept.committed is not None:
                kept.committed.read()
            if kept.accepted_document is not None:
                kept.accepted_document.read()
        except FileNotFoundError:
            return KeptVersions()
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror}") from None
        except ValueError as error:
            raise InputError(f"{path} does not hold what a gateway wrote: {error}", hint=REMEDY) from None
        return kept

    def write(self, kept: KeptVersions) -> None:
        """Replace the state, and keep the document that is in force; on disk when this returns."""
        self._folder.mkdir(parents=True, exist_ok=True)
        if kept.committed is not None:
            path = self._path(kept.committed.read().version)
            if not path.exists():
                _replace(path, _encode(kept.committed))
                for old in sorted(self._folder.glob(f"*{SUFFIX}"))[:-MAX_DOCUMENTS]:
                    old.unlink(missing_ok=True)
        _replace(self._folder / STATE, _encode(kept))

    def text(self, version: int) -> bytes:
        """The text of one that was in force here; empty if there is none that can be read."""
        try:
            return _document.decode(self._path(version).read_bytes()).text
        except (OSError, ValueError):
            return b""

    def documents(self) -> Iterator[FederationDocument]:
        """Those that were in force here and can be read, the oldest first."""
        for path in sorted(self._folder.glob(f"*{SUFFIX}")):
            try:
                yield _document.decode(path.read_bytes()).read()
            except (OSError, ValueError):
                continue

    def _path(self, version: int) -> Path:
        return self._folder.joinpath(f"{version:08}{SUFFIX}")


def _replace(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}.new")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
