"""Bodies of policies as the store keeps them: in chunks, known by a digest."""

from __future__ import annotations

import hashlib

from mangrove.model.agents.members import PolicyRecord

MAX_DOCUMENT_BYTES = 16 << 20
CHUNK_BYTES = 512 << 10


def digest_of(body: bytes) -> str:
    """What tells one body from all others."""
    return hashlib.blake2b(body, digest_size=16).hexdigest()


def record_of(version: int, body: bytes) -> PolicyRecord:
    """The record of a body."""
    chunks = max(1, -(-len(body) // CHUNK_BYTES))
    return PolicyRecord(version=version, digest=digest_of(body), size_bytes=len(body), chunks=chunks)


def chunk_key(version: int, number: int) -> str:
    """Where a part of a body is kept."""
    return f"document.{version}.{number}"


def chunks_of(body: bytes) -> list[bytes]:
    """The parts of a body, in order."""
    return [body[start : start + CHUNK_BYTES] for start in range(0, max(1, len(body)), CHUNK_BYTES)]


def is_body_of(record: PolicyRecord, body: bytes) -> bool:
    """Whether a body is the one that a record tells of."""
    return len(body) == record.size_bytes and digest_of(body) == record.digest
