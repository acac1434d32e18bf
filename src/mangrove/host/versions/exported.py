"""A document in a file of its own, to be carried to a site that joins."""

from __future__ import annotations

from pathlib import Path

import msgspec

from mangrove.errors import InputError
from mangrove.model.versions.document import WrittenDocument

REMEDY = "write it anew at a member: mangrove history --write FILE"
_decoder = msgspec.msgpack.Decoder(WrittenDocument)


def write_exported(path: Path, written: WrittenDocument) -> None:
    """Write a document, with the authority's signature if it has one."""
    try:
        path.write_bytes(msgspec.msgpack.encode(written))
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None


def read_exported(path: Path) -> WrittenDocument:
    """Read what `write_exported` wrote; InputError if it is anything else, or half of it."""
    try:
        written = _decoder.decode(path.read_bytes())
        written.read()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}", hint=REMEDY) from None
    except ValueError as error:
        raise InputError(f"{path} is no federation document: {error}", hint=REMEDY) from None
    return written
