"""What a worker needs of the machine, and what is left of one that could not be started."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from mangrove.gateway.mediation.exchange import Given, Result, WorkerSettings
from mangrove.gateway.mediation.worker_process import WorkerFailedError, WorkerProcess
from mangrove.model.mediation.transform import Format, Transform

SETTINGS = WorkerSettings(transform=Transform(encode=Format.MSGPACK), max_bytes=1 << 16)


def worker(results: Callable[[list[Result]], bool] = lambda _: True) -> WorkerProcess:
    return WorkerProcess(SETTINGS, results, lambda: None)


def descriptors() -> set[str]:
    return {each.name for each in Path("/proc/self/fd").iterdir()}


async def test_a_worker_needs_no_room_on_a_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    answered: asyncio.Queue[bytes] = asyncio.Queue()

    def take(results: list[Result]) -> bool:
        for each in results:
            answered.put_nowait(each.payload)
        return True

    made = worker(take)
    try:
        await made.start()
        made.give([Given("a.b", b"", b"1"), Given("a.b", b"", b"2")])
        assert [await asyncio.wait_for(answered.get(), 20) for _ in range(2)] == [b"\x01", b"\x02"]
        assert made.done == 2
    finally:
        await made.end()


@pytest.mark.parametrize(
    ("where", "name"), [(socket, "socketpair"), (os, "memfd_create"), (asyncio, "create_subprocess_exec")]
)
async def test_what_the_machine_refuses_is_said_and_nothing_stays_open(
    where: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(where, name, refuse)
    before = descriptors()
    made = worker()
    with pytest.raises(WorkerFailedError, match="no process for it"):
        await made.start()
    await made.end()
    assert descriptors() <= before
