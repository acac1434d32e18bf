"""Reads bodies of policies from the store, one at a time, for whoever does not hold them yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mangrove.control.policies.documents import MAX_DOCUMENT_BYTES, chunk_key
from mangrove.control.stimuli import PolicyFetched
from mangrove.model.agents.members import PolicyRecord
from mangrove.store.buckets import Buckets, StoreAwayError
from mangrove.store.policies import read_document

MAX_CHUNKS = 1_000


class PolicyReader:
    """Only the latest wish counts: an earlier one is of no use any more."""

    def __init__(self, buckets: Buckets, tell: Callable[[PolicyFetched], None]) -> None:
        self._buckets = buckets
        self._tell = tell
        self._wanted: PolicyRecord | None = None
        self._some = asyncio.Event()

    def want(self, record: PolicyRecord) -> None:
        """Read this one next."""
        self._wanted = record
        self._some.set()

    async def run(self) -> None:
        """Read, until cancelled."""
        while True:
            await self._some.wait()
            self._some.clear()
            record, self._wanted = self._wanted, None
            if record is not None:
                self._tell(PolicyFetched(record, await self._read(record)))

    async def _read(self, record: PolicyRecord) -> bytes | None:
        if not 0 < record.chunks <= MAX_CHUNKS or record.size_bytes > MAX_DOCUMENT_BYTES:
            return None
        keys = [chunk_key(record.version, number) for number in range(record.chunks)]
        try:
            return await read_document(self._buckets, keys, MAX_DOCUMENT_BYTES)
        except StoreAwayError:
            return None
