"""Writes of the brain: each is told of, in order, whatever the store does."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

import pytest
from tests.kit.waiting import eventually

from mangrove.agent.serving import store_writer
from mangrove.agent.serving.store_writer import StoreWriter
from mangrove.control.instructions import Store, StoreWrite
from mangrove.control.stimuli import Stimulus, Stored, StoreFailed
from mangrove.store.buckets import Buckets, StoreAwayError, Write


class ScriptedStore:
    """Takes writes, or does not."""

    def __init__(self) -> None:
        self.away = False
        self.batches: list[list[Write]] = []

    async def write(self, writes: Sequence[Write], term: int | None = None) -> None:
        await asyncio.sleep(0)
        if self.away:
            raise StoreAwayError("the store is away")
        self.batches.append(list(writes))


def writes(number: int, records: int = 1) -> Store:
    return Store(number, tuple(StoreWrite("directory", f"{number}.{each}", b"x") for each in range(records)))


async def test_writes_are_told_of_one_by_one_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_writer, "BATCH", 10)
    monkeypatch.setattr(store_writer, "MAX_WAITING", 40)
    store, told, leads = ScriptedStore(), list[Stimulus](), [True]
    writer = StoreWriter(cast(Buckets, store), told.append, lambda: leads[0])
    for number in range(1, 6):
        writer.put(writes(number, 4))
    writer.put(writes(6, 30))
    task = asyncio.create_task(writer.run())

    async def all_told(count: int) -> None:
        async def enough() -> bool:
            return len(told) >= count

        await eventually(enough, f"{count} outcomes should be told")

    try:
        await all_told(6)
        assert told[:1] == [StoreFailed(6, "20 records wait to be written")], "beyond the bound, at once"
        assert told[1:] == [Stored(number) for number in range(1, 6)]
        assert [len(batch) for batch in store.batches] == [8, 8, 4]
        store.away = True
        writer.put(writes(7))
        await all_told(7)
        assert told[6:] == [StoreFailed(7, "the store is away")]
        assert writer.problem == "the store is away"
        store.away = False
        writer.put(writes(8, 30))
        await all_told(8)
        assert told[7:] == [Stored(8)], "also more than a batch holds"
        assert writer.problem == ""
        leads[0] = False
        writer.put(writes(9))
        await all_told(9)
        assert isinstance(told[-1], StoreFailed)
        assert len(store.batches) == 4, "who does not lead does not write"
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
