"""Sessions of real clients that ask for more than a contract, until they close or are killed."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.kit.running import Running
from tests.kit.waiting import eventually

import mangrove
from mangrove.agent.inspection import gateway_status
from mangrove.client import AskRefusedError
from mangrove.config import parse_federation
from mangrove.model.questions.session_quality import LEASE_S
from mangrove.testbed.local_federation import LocalFederation

RING = """
federation: asking
domains: {a: {}, b: {}, c: {}, d: {edges: 1}}
links:
  - {between: [a, b], delay_ms: 2}
  - {between: [b, d], delay_ms: 2}
  - {between: [a, c], delay_ms: 2}
  - {between: [c, d], delay_ms: 2}
topics:
  - {match: "alert.>", limits: {paths: 2, deadline_ms: 50}}
  - {match: "plain.>"}
"""
TWO: set[tuple[str, ...]] = {("a", "b", "d"), ("a", "c", "d")}

ASK_AND_HANG = """
import asyncio, sys, pathlib, mangrove

async def main():
    connection = await mangrove.connect(domain="d", run_dir=pathlib.Path(sys.argv[1]))
    subscription = await connection.subscribe("alert.sea", paths=2)
    print("asked", flush=True)
    await asyncio.sleep(3600)

asyncio.run(main())
"""


@pytest.fixture(scope="module")
async def ring(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    directory: Path = tmp_path_factory.mktemp("state") / "ring"
    federation = parse_federation(RING, "ring").require()
    async with LocalFederation(federation, directory, ephemeral=True) as launched:
        running = Running(launched)
        await running.links_up()
        yield running


async def paths_are(ring: Running, expected: set[tuple[str, ...]]) -> None:
    async def so() -> bool:
        routes = (await ring.gateway("a")).routes
        return {route.path for route in routes if route.active and route.destination == "d"} == expected

    await eventually(so, f"the routes from a to d should be {expected}", timeout_s=LEASE_S + 14)


async def nothing_asked(ring: Running, domain: str) -> None:
    async def so() -> bool:
        return (await ring.gateway(domain)).asks == ()

    await eventually(so, f"nothing should be asked of {domain} any more", timeout_s=LEASE_S + 14)


async def test_a_subscriber_gets_two_paths_until_it_closes(ring: Running) -> None:
    where = ring.launched.directory
    async with (
        mangrove.connect(domain="d", run_dir=where) as far,
        mangrove.connect(domain="a", run_dir=where) as near,
    ):
        plain = await far.subscribe("alert.sea")
        await plain.ready()
        await paths_are(ring, set())
        asking = await far.subscribe("alert.sea", paths=2, deadline_ms=50)
        await asking.ready()
        await paths_are(ring, TWO)
        (told,) = (await ring.gateway("d")).asks
        assert (told.topic, told.role, told.sessions) == ("alert.>", "subscriber", 1)
        assert (told.paths, told.deadline_ms) == (2, 50)
        assert all(route.deadline_ms == 50 for route in (await ring.gateway("a")).routes)
        for number in range(100):
            await near.publish("alert.sea", str(number).encode())
        for subscription in (plain, asking):
            assert [int((await subscription.next(5)).data) for _ in range(100)] == list(range(100))
        await asyncio.sleep(LEASE_S + 1)
        await paths_are(ring, TWO)
        await asking.unsubscribe()
        await paths_are(ring, set())
        await nothing_asked(ring, "d")


async def test_a_publisher_gets_two_paths_until_its_connection_closes(ring: Running) -> None:
    where = ring.launched.directory
    async with mangrove.connect(domain="d", run_dir=where) as far:
        subscription = await far.subscribe("alert.>")
        await subscription.ready()
        async with mangrove.connect(domain="a", run_dir=where) as near:
            publisher = await near.publisher("alert.sea", paths=2)
            await paths_are(ring, TWO)
            assert (await ring.gateway("a")).asks[0].role == "publisher"
            await publisher.publish(b"wave")
            assert (await subscription.next(5)).data == b"wave"
        await paths_are(ring, set())


async def test_what_a_killed_process_asked_for_ends_with_its_lease(ring: Running) -> None:
    where = ring.launched.directory
    async with mangrove.connect(domain="d", run_dir=where) as far:
        await (await far.subscribe("alert.sea")).ready()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", ASK_AND_HANG, str(where)),
            stdout=asyncio.subprocess.PIPE,
            env=dict(os.environ),
        )
        try:
            assert process.stdout is not None
            assert await asyncio.wait_for(process.stdout.readline(), 30) == b"asked\n"
            await paths_are(ring, TWO)
        finally:
            process.kill()
            await process.wait()
        await paths_are(ring, set())


async def test_a_gateway_that_starts_anew_is_asked_again(ring: Running) -> None:
    where = ring.launched.directory
    async with mangrove.connect(domain="d", run_dir=where) as far:
        subscription = await far.subscribe("alert.sea", paths=2)
        await subscription.ready()
        await paths_are(ring, TWO)
        before = (await ring.gateway("d")).epoch
        gateway = ring.launched.sites["d"].gateway
        assert gateway.pid is not None
        os.kill(gateway.pid, signal.SIGKILL)

        async def asked_again() -> bool:
            status = await gateway_status(ring.launched.endpoints["d"])
            return status is not None and status.epoch != before and bool(status.asks)

        await eventually(asked_again, "the new gateway should be asked too")
        await paths_are(ring, TWO)


async def test_what_is_not_possible_is_refused_with_what_is(ring: Running) -> None:
    await nothing_asked(ring, "d")
    where = ring.launched.directory
    async with mangrove.connect(domain="d", run_dir=where) as connection:
        with pytest.raises(AskRefusedError, match="paths: 3 is beyond") as refused:
            await connection.subscribe("alert.sea", paths=3)
        assert refused.value.hint == "possible are: deadline_ms of 50 or more, up to 2 paths"
        with pytest.raises(AskRefusedError, match="beyond") as refused:
            await connection.publisher("plain.x", deadline_ms=10)
        assert "no `limits`" in refused.value.hint
        with pytest.raises(AskRefusedError, match="no contract governs other"):
            await connection.subscribe("other", paths=2)
        with pytest.raises(AskRefusedError, match=r"cannot be asked for: .*resiliency"):
            await connection.subscribe("alert.sea", resiliency=1.5)
    async with mangrove.connect(ring.head("d")) as connection:
        with pytest.raises(AskRefusedError, match="paths: 3 is beyond"):  # who knows a URL learns the rest
            await connection.subscribe("alert.sea", paths=3)
    assert (await ring.gateway("d")).asks == ()
