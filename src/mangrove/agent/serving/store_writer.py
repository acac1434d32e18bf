"""Carries the brain's writes to the store, in order, and tells what became of each."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from mangrove.control.instructions import Store
from mangrove.control.stimuli import Stimulus, Stored, StoreFailed
from mangrove.store.buckets import Buckets, StoreAwayError, Write
from mangrove.store.fence import FencedError

MAX_WAITING = 500_000
"""Records; beyond it a write has failed before it was tried."""
BATCH = 5_000


class _Waiting(NamedTuple):
    """A write, and the term in which it was decided on."""

    store: Store
    term: int


class StoreWriter:
    """One queue of writes. Those that wait together are written together, but each is told of by itself."""

    def __init__(
        self, buckets: Buckets, tell: Callable[[Stimulus], None], leads_in: Callable[[], int]
    ) -> None:
        """`leads_in` says in which term this agent leads, asked just before each batch; 0: in none."""
        self._buckets = buckets
        self._tell = tell
        self._leads_in = leads_in
        self._waiting: deque[_Waiting] = deque()
        self._records = 0
        self._some = asyncio.Event()
        self.problem = ""
        """Why the last write failed, if it did."""

    def put(self, store: Store) -> None:
        """Write when it is its turn; what is beyond the bound fails at the next turn of the event loop."""
        if self._records + len(store.writes) > MAX_WAITING:
            failed = StoreFailed(store.write, f"{self._records} records wait to be written")
            asyncio.get_running_loop().call_soon(self._tell, failed)
            return
        self._records += len(store.writes)
        self._waiting.append(_Waiting(store, self._leads_in()))
        self._some.set()

    async def run(self) -> None:
        """Write, until cancelled."""
        while True:
            await self._some.wait()
            batch = self._take()
            problem = await self._write(batch)
            self.problem = problem
            for store, _ in batch:
                self._tell(StoreFailed(store.write, problem) if problem else Stored(store.write))

    def _take(self) -> list[_Waiting]:
        """What waits together, of one term."""
        batch: list[_Waiting] = []
        size = 0
        while self._waiting and (
            not batch
            or (size + len(self._waiting[0].store.writes) <= BATCH and self._waiting[0].term == batch[0].term)
        ):
            batch.append(self._waiting.popleft())
            size += len(batch[-1].store.writes)
        self._records -= size
        if not self._waiting:
            self._some.clear()
        return batch

    async def _write(self, batch: list[_Waiting]) -> str:
        """Write all; says what is wrong, if anything is."""
        term = batch[0].term
        if not term or self._leads_in() != term:
            return "this agent does not lead any more"
        writes = [Write(each.bucket, each.key, each.value) for store, _ in batch for each in store.writes]
        try:
            await self._buckets.write(writes, term)
        except (StoreAwayError, FencedError) as error:
            return error.message
        return ""
