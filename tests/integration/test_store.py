"""Coordination in JetStream: what is kept, who leads, and a store that is away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.kit.management_broker import ManagementBroker, management_broker
from tests.kit.waiting import eventually

from mangrove.agent.serving.lease import Lease as AgentLease
from mangrove.model.agents.directory import DirectoryRecord, stored_record
from mangrove.store import buckets as buckets_module
from mangrove.store.buckets import DIRECTORY, SESSIONS, Buckets, StoreAwayError, Write
from mangrove.store.directory import read_directory, usable
from mangrove.store.fence import FencedError
from mangrove.store.replica import DirectoryReplica
from mangrove.store.sessions import read_sessions


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[ManagementBroker]:
    async with management_broker(tmp_path) as running:
        yield running


class Lease(AgentLease):
    """A shorter one."""

    def __init__(self, buckets: Buckets, agent: str) -> None:
        super().__init__(buckets, agent, ttl_s=2.0)


def record(topic: str, epoch: int = 1, domain: str = "here") -> DirectoryRecord:
    return DirectoryRecord(topic=topic, domain=domain, epoch=epoch, edges=("here-edge1",))


def written(entry: DirectoryRecord) -> Write:
    return Write(DIRECTORY, entry.topic, stored_record(entry))


async def opened(broker: ManagementBroker) -> Buckets:
    """Buckets that are there: making them may take longer than a lease waits for its record."""
    buckets = Buckets(await broker.connect())
    await buckets.open()
    return buckets


async def connected_again(buckets: Buckets) -> None:
    async def opens() -> bool:
        try:
            await buckets.open()
        except StoreAwayError:
            return False
        return True

    await eventually(opens, "the store should be there again")


async def test_what_is_written_outlives_the_broker_and_what_is_removed_is_gone(
    broker: ManagementBroker,
) -> None:
    buckets = Buckets(await broker.connect())
    assert (await read_directory(buckets, "here")).records == ()
    many = [record(f"plant.{number}.>") for number in range(2_000)]
    await buckets.write([written(each) for each in many])
    await buckets.write([written(record("plant.0.>", epoch=2)), Write(DIRECTORY, "plant.1.>", None)])
    await buckets.write([Write(SESSIONS, "s-1", b"open"), Write(SESSIONS, "s-2", b"over")])
    await buckets.write([Write(SESSIONS, "s-2", None)])
    await broker.process.kill()
    with pytest.raises(StoreAwayError):
        await buckets.write([written(record("plant.never"))])
    await broker.process.start()
    await connected_again(buckets)
    found = {each.topic: each for each in (await read_directory(buckets, "here")).records}
    assert found == {each.topic: each for each in many[2:]} | {"plant.0.>": record("plant.0.>", epoch=2)}
    assert await read_sessions(buckets) == (b"open",)


async def test_records_that_cannot_be_used_are_left_out_and_counted(broker: ManagementBroker) -> None:
    buckets = Buckets(await broker.connect())
    elsewhere = record("plant.2", domain="elsewhere")
    await buckets.write([written(record("plant.1")), written(elsewhere), Write(DIRECTORY, "x", b"\xff{")])
    found = await read_directory(buckets, "here")
    assert found.records == (record("plant.1"),)
    assert found.unusable == 2


async def test_buckets_of_another_version_are_used_as_they_are(broker: ManagementBroker) -> None:
    connection = await broker.connect()
    await connection.jetstream().create_key_value(bucket="mangrove-directory", history=5)
    buckets = Buckets(connection)
    await buckets.write([written(record("plant.1", epoch=number)) for number in (1, 2)])
    assert (await read_directory(buckets, "here")).records == (record("plant.1", epoch=2),)


async def test_a_store_that_hangs_fails_in_time_and_takes_writes_afterwards(
    broker: ManagementBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os
    import signal

    buckets = Buckets(await broker.connect())
    await buckets.write([written(record("plant.before"))])
    lease = Lease(buckets, "one")
    assert await lease.attempt()
    pid = broker.process.pid
    assert pid is not None

    async def over() -> bool:
        return not lease.held

    os.kill(pid, signal.SIGSTOP)
    try:
        with monkeypatch.context() as impatient:
            impatient.setattr(buckets_module, "TIMEOUT_S", 0.3)
            with pytest.raises(StoreAwayError, match="within"):
                await buckets.write([written(record(f"plant.{number}")) for number in range(600)])
        with pytest.raises(StoreAwayError):
            await lease.attempt()
        await eventually(over, "a lease should end although nobody can be asked", timeout_s=5.0)
    finally:
        os.kill(pid, signal.SIGCONT)
    await buckets.write([written(record("plant.after"))])
    first = lease.term
    assert await lease.attempt()
    assert lease.term > first, "what was lost is taken anew, in another term"


async def test_one_agent_leads_and_another_follows_when_it_is_gone(broker: ManagementBroker) -> None:
    first, second = Lease(await opened(broker), "one"), Lease(await opened(broker), "two")
    assert await first.attempt()
    assert not await second.attempt()
    assert second.leader == "one"
    for _ in range(6):
        await asyncio.sleep(0.5)
        assert await first.attempt()
        assert not await second.attempt(), "a lease that is renewed is not taken"

    async def taken() -> bool:
        return await second.attempt()

    await eventually(taken, "the lease of an agent that says nothing more should be taken")
    assert not first.held
    assert second.term == first.term + 1
    assert not await first.attempt()
    await second.release()
    assert not second.held
    assert await first.attempt(), "what was given back is free at once"
    assert first.term == second.term + 1


async def test_only_one_of_two_that_try_at_once_leads(broker: ManagementBroker) -> None:
    leases = [Lease(Buckets(await broker.connect()), f"agent-{number}") for number in range(5)]
    held = await asyncio.gather(*(lease.attempt() for lease in leases))
    assert sum(held) == 1


async def test_leadership_survives_the_broker_and_terms_grow_when_everything_is_lost(
    broker: ManagementBroker, tmp_path: Path
) -> None:
    lease = Lease(await opened(broker), "one")
    assert await lease.attempt()
    before = lease.term
    await broker.process.kill()
    await broker.process.start()

    async def leads() -> bool:
        try:
            return await lease.attempt()
        except StoreAwayError:
            return False

    await eventually(leads, "the lease should be held again")
    assert lease.term >= before
    rival = Lease(await opened(broker), "two")
    assert not await rival.attempt()
    jetstream = (await broker.connect()).jetstream()
    await jetstream.delete_stream("KV_mangrove-leadership")
    await eventually(leads, "a lease should be found anew where buckets were lost")
    assert lease.term >= before


async def test_late_writes_of_a_deposed_leader_are_refused_by_the_store(broker: ManagementBroker) -> None:
    old, new = Buckets(await broker.connect()), Buckets(await broker.connect())
    await old.raise_fences(5)
    await old.write([written(record(f"plant.{number}")) for number in range(600)], 5)
    await new.raise_fences(6)
    with pytest.raises(StoreAwayError):
        await old.write([written(record("plant.1", epoch=2)), Write(DIRECTORY, "plant.2", None)], 5)
    with pytest.raises(FencedError):
        await old.write([written(record("plant.1", epoch=3))], 5)
    await new.write([written(record("plant.3", epoch=7)), Write(DIRECTORY, "plant.4", None)], 6)
    found = {each.topic: each.epoch for each in (await read_directory(new, "here")).records}
    assert len(found) == 599
    assert "plant.4" not in found
    assert found["plant.1"] == found["plant.2"] == 1
    assert found["plant.3"] == 7


async def test_a_leader_whose_buckets_were_lost_goes_on(broker: ManagementBroker) -> None:
    connection = await broker.connect()
    buckets = Buckets(connection)
    await buckets.raise_fences(5)
    await connection.jetstream().delete_stream("KV_mangrove-directory")
    with pytest.raises(StoreAwayError):
        await buckets.write([written(record("plant.1"))], 5)
    await buckets.write([written(record("plant.1"))], 5)
    assert (await read_directory(buckets, "here")).records == (record("plant.1"),)


async def test_a_follower_holds_the_directory_and_need_not_read_it(broker: ManagementBroker) -> None:
    leader, follower = Buckets(await broker.connect()), Buckets(await broker.connect())
    await leader.raise_fences(1)
    await leader.write([written(record(f"plant.{number}")) for number in range(300)], 1)
    follows = [True]
    replica = DirectoryReplica(follower, lambda: follows[0])
    assert await replica.through(1) is None, "what was never seen cannot be told"
    task = asyncio.create_task(replica.run())
    try:

        async def holds() -> bool:
            return len(replica) == 300

        await eventually(holds, "the follower should hold the directory")
        await leader.write([written(record("plant.1", epoch=2)), Write(DIRECTORY, "plant.2", None)], 1)
        await follower.raise_fences(2)
        values = await replica.through(follower.fence_revision(DIRECTORY))
        assert values is not None
        found = usable(values, "here")
        assert set(found.records) == set((await read_directory(follower, "here")).records)
        assert len(found.records) == 299
        assert record("plant.1", epoch=2) in found.records
        follows[0] = False

        async def forgotten() -> bool:
            return len(replica) == 0

        await eventually(forgotten, "who leads needs no replica")
    finally:
        task.cancel()


async def test_what_is_left_of_a_write_is_not_written_in_a_later_term(
    broker: ManagementBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buckets_module, "IN_FLIGHT", 1)
    buckets = Buckets(await broker.connect())
    await buckets.raise_fences(5)
    old = asyncio.create_task(buckets.write([written(record(f"plant.{n}")) for n in range(500)], 5))
    await asyncio.sleep(0.02)
    await buckets.raise_fences(7)
    with pytest.raises(StoreAwayError):
        await old
    before = len((await read_directory(buckets, "here")).records)
    assert before < 500
