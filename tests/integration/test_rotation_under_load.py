"""Every key of a running federation is replaced while messages flow between its sites."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.kit.keyed import all_files
from tests.kit.running import Running
from tests.kit.waiting import eventually

import mangrove
from mangrove.agent.hosting.host_brokers import RETURN_S
from mangrove.config import parse_federation
from mangrove.host.keys.directory import KeyDirectory
from mangrove.host.keys.rotation import Part, change_authority, finish, introduce_authority, rotate
from mangrove.testbed.local_federation import LocalFederation

TWO = """
federation: two
domains:
  here:  {edges: 2}
  there: {edges: 2}
links:
  - {between: [here, there]}
topics:
  - {match: "twice", mirror: true}
"""
SUBJECTS = ("once", "twice")
PAUSE_S = 0.004
TAKEN_OVER_S = 2.5
"""Processes look for other keys once a second, and busy machines are slow."""


class Stream:
    """Numbered messages from one site to the other."""

    def __init__(self, here: mangrove.Connection, there: mangrove.Connection) -> None:
        self._here = here
        self._there = there
        self.sent = 0
        self._going = True
        self.received: dict[str, list[int]] = {subject: [] for subject in SUBJECTS}
        self._sending: asyncio.Task[None] | None = None

    async def start(self) -> None:
        for subject in SUBJECTS:
            await (await self._there.subscribe(subject, callback=self._take)).ready()
        self._sending = asyncio.create_task(self._send())

    async def stop(self) -> None:
        """Stop, and wait for what is under way."""
        assert self._sending is not None
        self._going = False
        await self._sending

        async def arrived() -> bool:
            return all(self.sent - 1 in numbers for numbers in self.received.values())

        await eventually(arrived, "the last message is there")

    def lost(self, subject: str) -> set[int]:
        return set(range(self.sent)) - set(self.received[subject])

    async def _send(self) -> None:
        while self._going:
            number, self.sent = self.sent, self.sent + 1
            for subject in SUBJECTS:
                await self._here.publish(subject, str(number).encode())
            await asyncio.sleep(PAUSE_S)

    async def _take(self, message: mangrove.Message) -> None:
        self.received[message.subject].append(int(message.data))


@pytest.fixture(scope="module")
async def two(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    directory: Path = tmp_path_factory.mktemp("state") / "two"
    federation = parse_federation(TWO, "two").require()
    async with LocalFederation(federation, directory, ephemeral=True, secured=True) as launched:
        running = Running(launched)
        await running.links_up()
        yield running


@contextlib.asynccontextmanager
async def streaming(two: Running) -> AsyncIterator[Stream]:
    run_dir = two.launched.directory
    async with (
        mangrove.connect(run_dir=run_dir, domain="here") as here,
        mangrove.connect(run_dir=run_dir, domain="there") as there,
    ):
        stream = Stream(here, there)
        await stream.start()
        yield stream
        await stream.stop()


async def taken_over() -> None:
    await asyncio.sleep(TAKEN_OVER_S)


async def failures(two: Running) -> list[int]:
    return [link.failures for name in ("here", "there") for link in (await two.gateway(name)).links]


async def test_nothing_is_lost_while_every_key_of_the_federation_is_replaced(two: Running) -> None:
    """The authority, gateways, sealing keys, brokers, and all users of ours; nothing is restarted."""
    assert two.launched.keys is not None
    keys = KeyDirectory(two.launched.keys)
    pids = {process.name: process.pid for process in two.launched.processes()}
    before = all_files(keys)
    async with streaming(two) as stream:
        await asyncio.to_thread(introduce_authority, keys.path)
        await taken_over()
        await asyncio.to_thread(change_authority, keys.path)
        await asyncio.to_thread(rotate, keys.path, parts=[part for part in Part if part is not Part.CLIENTS])
        await taken_over()
        await asyncio.to_thread(finish, keys.path)
        await taken_over()
    assert stream.sent > 100
    assert stream.lost("twice") == set()
    assert len(stream.received["twice"]) == stream.sent
    here, there = await two.gateway("here"), await two.gateway("there")
    assert here.sent == there.delivered
    assert not here.dropped
    assert not there.dropped
    assert await failures(two) == [0, 0]
    assert {process.name: process.pid for process in two.launched.processes()} == pids
    after = all_files(keys)
    kinds = (".key", ".nk", ".pem")
    replaced = [path for path in before if path.suffix in kinds and "clients" not in path.parts]
    assert not [path for path in replaced if after[path] == before[path]]


async def test_clients_whose_keys_are_replaced_lose_nothing_that_is_mirrored(two: Running) -> None:
    """Brokers close the connections of keys that have ended: what has no mirror may be lost meanwhile."""
    assert two.launched.keys is not None
    async with streaming(two) as stream:
        await asyncio.to_thread(rotate, two.launched.keys, parts=[Part.CLIENTS])
        await taken_over()
        at_the_end = stream.sent
        await asyncio.to_thread(finish, two.launched.keys)
        await taken_over()
        await asyncio.sleep(2 * RETURN_S)  # broker after broker
    assert stream.lost("twice") == set()
    assert len(stream.received["twice"]) == stream.sent
    assert not [number for number in stream.lost("once") if number < at_the_end]
    assert await failures(two) == [0, 0]
