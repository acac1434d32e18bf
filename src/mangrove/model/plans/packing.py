"""Plan documents as they travel and as they are kept: small enough for one message."""

from __future__ import annotations

import zlib

MAX_DOCUMENT_BYTES = 64 << 20
"""Of a document when it is unpacked."""
_ZLIB = b"\x78"


class PackingError(ValueError):
    """What was packed cannot be unpacked, or is too large."""


def packed(document: bytes) -> bytes:
    """Compressed."""
    return zlib.compress(document, 6)


def unpacked(data: bytes) -> bytes:
    """The document, whether or not it was compressed."""
    if not data.startswith(_ZLIB):
        if len(data) > MAX_DOCUMENT_BYTES:
            raise PackingError(f"it is larger than {MAX_DOCUMENT_BYTES >> 20} MB")
        return data
    opened = zlib.decompressobj()
    try:
        document = opened.decompress(data, MAX_DOCUMENT_BYTES)
    except zlib.error as error:
        raise PackingError(f"it is damaged: {error}") from None
    if opened.unconsumed_tail:
        raise PackingError(f"it is larger than {MAX_DOCUMENT_BYTES >> 20} MB")
    if not opened.eof:
        raise PackingError("its end is missing")
    return document
