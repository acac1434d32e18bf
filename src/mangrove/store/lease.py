"""The record by which an agent leads, as the store keeps it: read, and written by compare-and-set."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import nats.errors
import nats.js.errors

from mangrove.model.agents.lease import LeaseRecord
from mangrove.model.unreadable import UNREADABLE
from mangrove.store.buckets import LEADERSHIP, Buckets, StoreAwayError

ASK_TIMEOUT_S = 1.0
KEY = "leader"

_decoder = msgspec.json.Decoder(LeaseRecord)


class StoredLease:
    """One record. What takes longer than `ASK_TIMEOUT_S`, or fails, raises `StoreAwayError`."""

    def __init__(self, buckets: Buckets) -> None:
        self._buckets = buckets

    async def read(self) -> tuple[LeaseRecord | None, int]:
        """The record and its revision; one that cannot be read counts as none, and can be replaced."""
        async with self._bounded():
            bucket = await self._buckets.bucket(LEADERSHIP)
            try:
                entry = await bucket.get(KEY)
            except nats.js.errors.KeyDeletedError as deleted:
                return None, deleted.entry.revision or 0
            except nats.js.errors.KeyNotFoundError:
                return None, 0
            try:
                return _decoder.decode(entry.value or b""), entry.revision or 0
            except UNREADABLE:
                return None, entry.revision or 0

    async def put(self, record: LeaseRecord, last: int) -> int | None:
        """Write the record if its revision is `last`: its new revision, or None if it was another."""
        async with self._bounded():
            bucket = await self._buckets.bucket(LEADERSHIP)
            try:
                return await bucket.update(KEY, msgspec.json.encode(record), last=last)
            except nats.js.errors.KeyWrongLastSequenceError:
                return None

    @asynccontextmanager
    async def _bounded(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(ASK_TIMEOUT_S):
                yield
        except TimeoutError:
            raise StoreAwayError(f"the store did not answer within {ASK_TIMEOUT_S:g} s") from None
        except nats.js.errors.NoStreamResponseError:
            self._buckets.forget()
            raise StoreAwayError("the store has no buckets any more") from None
        except (nats.errors.Error, OSError) as error:
            raise StoreAwayError(f"the store failed: {str(error) or type(error).__name__}") from None
