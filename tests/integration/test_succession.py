"""Data brokers attach to an earlier one: whatever dies or returns, the living ones are one domain."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import nats
import pytest
from nats.aio.client import Client
from tests.kit.waiting import eventually

from mangrove.broker.kinds import kind_of
from mangrove.host.ports import PortReservation
from mangrove.host.process import ManagedProcess
from mangrove.model.endpoints import DomainEndpoints, lay_out
from mangrove.model.federation import Domain, Edge
from mangrove.model.shared_names import MIRROR_PREFIX

HOST = "127.0.0.1"


class Succession:
    """Four brokers in order, and a plain client at each."""

    def __init__(self, endpoints: DomainEndpoints, directory: Path) -> None:
        self.endpoints = endpoints
        self.clients: list[Client] = []
        self.processes: list[ManagedProcess] = []
        for position, broker in enumerate(endpoints.succession):
            earlier = [other.leaf_url for other in endpoints.succession[:position]]
            server = kind_of(broker.kind).server
            self.processes.append(
                server(broker, directory, max_message_bytes=1 << 20, site="d", attach_to=earlier)
            )

    async def reaches(self, sender: int, receiver: int, subject: str = "news") -> bool:
        """Whether a message published at one broker arrives at another, if it is tried for a while."""
        wanted = await self.clients[receiver].subscribe(subject)
        try:
            await self.clients[receiver].flush()
            for _ in range(400):
                await self.clients[sender].publish(subject, b"x")
                with contextlib.suppress(nats.errors.TimeoutError):
                    await wanted.next_msg(0.05)
                    return True
            return False
        finally:
            await wanted.unsubscribe()


@pytest.fixture
async def four(tmp_path: Path) -> AsyncIterator[Succession]:
    with PortReservation() as ports:
        domain = Domain(name="d", base_port=7000, edges=(Edge(), Edge(), Edge()))
        found = Succession(lay_out(domain, lambda _: ports.take(HOST)), tmp_path)
        try:
            for process in found.processes:
                await process.start()
            for broker in found.endpoints.succession:
                found.clients.append(
                    await nats.connect(broker.client_url, reconnect_time_wait=0.05, max_reconnect_attempts=-1)
                )
            yield found
        finally:
            await asyncio.gather(*(client.close() for client in found.clients))
            await asyncio.gather(*(process.stop() for process in found.processes))


def connected(client: Client) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        return client.is_connected

    return look


async def test_the_living_brokers_stay_one_domain(four: Succession) -> None:
    assert await four.reaches(0, 3)
    await four.processes[0].kill()
    assert await four.reaches(2, 3)
    assert await four.reaches(1, 2)
    await four.processes[1].kill()
    assert await four.reaches(3, 2)
    await four.processes[0].start()
    await four.processes[1].start()
    for returned in four.clients[:2]:
        await eventually(connected(returned), "clients return to their brokers")
    assert await four.reaches(0, 1)
    assert await four.reaches(1, 3)
    await four.processes[2].kill()
    assert await four.reaches(0, 3)
    assert await four.reaches(3, 1)


async def test_each_message_comes_once_and_mirror_copies_not_at_all(four: Succession) -> None:
    wanted = [await client.subscribe(">") for client in four.clients]
    for client in four.clients:
        await client.flush()
    for receiver in (0, 2, 3):
        assert await four.reaches(1, receiver, "marker")
    mine = await four.clients[1].subscribe(MIRROR_PREFIX + "t")
    theirs = await four.clients[0].subscribe(MIRROR_PREFIX + "t")
    await asyncio.sleep(0.1)
    await four.clients[1].publish(MIRROR_PREFIX + "t", b"copy")
    await four.clients[1].publish("t", b"first")
    await mine.next_msg(5)
    for one in wanted:
        subjects: list[str] = []
        while not subjects or subjects[-1] != "t":
            subjects.append((await one.next_msg(5)).subject)
        with contextlib.suppress(nats.errors.TimeoutError):
            while True:
                subjects.append((await one.next_msg(0.1)).subject)
        assert subjects.count("t") == 1
        assert (MIRROR_PREFIX + "t" in subjects) == (one is wanted[1])
    with pytest.raises(nats.errors.TimeoutError):
        await theirs.next_msg(0.05)
