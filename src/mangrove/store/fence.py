"""Keeps late writes of a deposed leader out of the store.

Each bucket has keys that hold the term of the leader. A new leader raises them before it reads anything, and
every write names the revision of one of them; the broker refuses it when that has changed
(docs/decisions/0064-a-deposed-leaders-writes-are-refused-by-the-store.md). A cluster checks one such write
for a key at a time, so there it has as many keys as writes are on their way.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import msgspec
import nats.js.errors
from nats.js import JetStreamContext
from nats.js.api import Header
from nats.js.kv import KeyValue

from mangrove.errors import MangroveError
from mangrove.model.unreadable import UNREADABLE

FENCE_PREFIX = "=fence."
"""No text has a key that begins so."""
CLUSTER_SLOTS = 64
EXPECTED = Header.EXPECTED_LAST_SUBJECT_SEQUENCE
EXPECTED_OF = "Nats-Expected-Last-Subject-Sequence-Subject"
ATTEMPTS = 5


class FencedError(MangroveError):
    """A later leader has raised the fence: whoever is told this leads no more."""


class _Raised(msgspec.Struct, frozen=True):
    """What a fence key holds."""

    term: int


class Fence(NamedTuple):
    """What a leader's writes to one bucket name, one for each write that is on its way."""

    headers: tuple[dict[str, str], ...]
    revision: int
    """Whoever reads the bucket from here on has read all that earlier leaders wrote."""

    def header(self, number: int) -> dict[str, str]:
        """Of the write with this number among those that are on their way."""
        return self.headers[number % len(self.headers)]

    @property
    def in_flight(self) -> int:
        """How many writes may be on their way, as far as the fence goes; 0: any number."""
        return 0 if len(self.headers) == 1 else len(self.headers)


async def raise_fence(jetstream: JetStreamContext, bucket: KeyValue, name: str, term: int) -> Fence:
    """Refuse what leaders of earlier terms write from now on. Raises `FencedError` if a later one led."""
    replicas = (await bucket.status()).stream_info.config.num_replicas or 1
    revision = await _raise_first(bucket, term)
    headers = [_headers(name, 0, revision)]
    if replicas > 1:
        # One after the other: each is itself fenced by the first.
        for slot in range(1, CLUSTER_SLOTS):
            acknowledged = await jetstream.publish(
                _subject(name, slot), msgspec.json.encode(_Raised(term)), headers=headers[0]
            )
            headers.append(_headers(name, slot, acknowledged.seq))
    return Fence(tuple(headers), revision)


async def _raise_first(bucket: KeyValue, term: int) -> int:
    for _ in range(ATTEMPTS):
        found, revision = 0, 0
        try:
            entry = await bucket.get(f"{FENCE_PREFIX}0")
            revision = entry.revision or 0
            found = msgspec.json.decode(entry.value or b"", type=_Raised).term
        except nats.js.errors.KeyDeletedError as deleted:
            revision = deleted.entry.revision or 0
        except (nats.js.errors.KeyNotFoundError, *UNREADABLE):
            pass
        if found > term:
            raise FencedError(f"an agent leads in term {found}, which is after {term}")
        if found == term:
            return revision
        try:
            raised = msgspec.json.encode(_Raised(term))
            return await bucket.update(f"{FENCE_PREFIX}0", raised, last=revision)
        except nats.js.errors.KeyWrongLastSequenceError:
            await asyncio.sleep(0)
    raise FencedError("others raise the fence at the same time")


def _subject(name: str, slot: int) -> str:
    return f"$KV.{name}.{FENCE_PREFIX}{slot}"


def _headers(name: str, slot: int, revision: int) -> dict[str, str]:
    return {EXPECTED: str(revision), EXPECTED_OF: _subject(name, slot)}
