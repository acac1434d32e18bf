"""Queue groups whose members are in several domains, on real brokers: each message is served once."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import nats
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from tests.kit.running import Running
from tests.kit.waiting import eventually

from mangrove.config import parse_federation
from mangrove.testbed.local_federation import LocalFederation

TRIANGLE = """
federation: triangle
domains:
  hub:  {edges: 1}
  near: {edges: 1}
  far:  {}
links:
  - {between: [hub, near], delay_ms: 2}
  - {between: [hub, far], delay_ms: 20}
  - {between: [near, far], delay_ms: 20}
topics:
  - {match: "each.>", queue: local-each}
"""
JOBS = 300


class Taken(Counter[str]):
    """Who got how many messages."""

    def by(self, name: str) -> Callable[[Msg], Awaitable[None]]:
        async def take(_: Msg) -> None:
            self[name] += 1

        return take

    async def reach(self, total: int) -> None:
        async def all_taken() -> bool:
            return self.total() >= total

        await eventually(all_taken, f"{total} messages should be served")
        await asyncio.sleep(0.3)  # a copy too many would come now


@pytest.fixture(scope="module")
async def triangle(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    directory: Path = tmp_path_factory.mktemp("state") / "triangle"
    federation = parse_federation(TRIANGLE, "triangle").require()
    async with LocalFederation(federation, directory, ephemeral=True) as launched:
        running = Running(launched)
        await running.links_up()
        yield running


@asynccontextmanager
async def client(url: str) -> AsyncIterator[Client]:
    made = await nats.connect(url, allow_reconnect=False)
    yield made
    if not made.is_closed:
        await made.close()


@pytest.fixture
async def clients(triangle: Running) -> AsyncIterator[dict[str, Client]]:
    await triangle.at_rest()
    async with AsyncExitStack() as stack:
        yield {
            name: await stack.enter_async_context(client(url))
            for name, url in (
                ("hub", triangle.head("hub")),
                ("hub edge", triangle.edge("hub")),
                ("near", triangle.head("near")),
                ("near edge", triangle.edge("near")),
                ("far", triangle.head("far")),
            )
        }


async def publish(publisher: Client, subject: str, count: int = JOBS) -> None:
    for number in range(count):
        await publisher.publish(subject, b"%d" % number)
    await publisher.flush()


async def test_jobs_are_served_once_by_the_nearest_domain_and_by_the_own_one_if_it_can(
    triangle: Running, clients: dict[str, Client]
) -> None:
    taken = Taken()
    for name in ("near", "near edge", "far"):
        await clients[name].subscribe("job.*", "workers", cb=taken.by(name.split()[0]))
    await triangle.knows_interest("hub", "near", 1)
    await triangle.knows_interest("hub", "far", 1)
    await publish(clients["hub"], "job.1")
    await taken.reach(JOBS)
    assert taken == {"near": JOBS}
    taken.clear()
    local = await clients["hub edge"].subscribe("job.>", "workers", cb=taken.by("hub"))
    await triangle.knows_interest("near", "hub", 1)
    await publish(clients["hub"], "job.1")
    await taken.reach(JOBS)
    assert taken == {"hub": JOBS}
    taken.clear()
    await local.unsubscribe()
    await triangle.knows_interest("near", "hub", 0)
    await clients["near"].close()
    await clients["near edge"].close()
    await triangle.knows_interest("hub", "near", 0)
    await publish(clients["hub"], "job.1")
    await taken.reach(JOBS)
    assert taken == {"far": JOBS}


async def test_plain_subscribers_get_every_message_beside_the_groups(
    triangle: Running, clients: dict[str, Client]
) -> None:
    taken = Taken()
    for name in ("near", "far"):
        await clients[name].subscribe("mixed", "workers", cb=taken.by(f"{name} worker"))
        await clients[name].subscribe("mixed", cb=taken.by(f"{name} plain"))
    await clients["far"].subscribe("*", "audit", cb=taken.by("far audit"))
    await clients["hub edge"].subscribe("mixed", cb=taken.by("hub plain"))
    await triangle.knows_interest("near", "hub", 1)  # what the edge wants has come to the head, too
    await triangle.knows_interest("hub", "near", 2)
    await triangle.knows_interest("hub", "far", 3)
    await publish(clients["hub"], "mixed")
    await taken.reach(5 * JOBS)
    names = ("near worker", "near plain", "far plain", "far audit", "hub plain")
    assert taken == dict.fromkeys(names, JOBS)


async def test_a_request_to_a_service_gets_one_answer(triangle: Running, clients: dict[str, Client]) -> None:
    async def answer(request: Msg) -> None:
        await request.respond(b"done")

    for name in ("near", "far"):
        await clients[name].subscribe("service", "workers", cb=answer)
    await triangle.knows_interest("hub", "near", 1)
    await triangle.knows_interest("hub", "far", 1)
    inbox = await clients["hub"].subscribe("_INBOX.all")
    for _ in range(20):
        await clients["hub"].publish("service", b"?", reply="_INBOX.all")
    for _ in range(20):
        assert (await inbox.next_msg(timeout=5)).data == b"done"
    await asyncio.sleep(0.3)
    assert inbox.pending_msgs == 0
    assert (await clients["hub"].request("service", b"?", timeout=5)).data == b"done"


async def test_local_each_serves_one_member_in_each_domain(
    triangle: Running, clients: dict[str, Client]
) -> None:
    taken = Taken()
    for name in ("hub edge", "near", "near edge", "far"):
        await clients[name].subscribe("each.job", "workers", cb=taken.by(name.split()[0]))
    await triangle.knows_interest("near", "hub", 1)  # what the edge wants has come to the head, too
    await triangle.knows_interest("hub", "near", 1)
    await triangle.knows_interest("hub", "far", 1)
    await publish(clients["hub"], "each.job")
    await taken.reach(3 * JOBS)
    assert taken == {"hub": JOBS, "near": JOBS, "far": JOBS}


async def test_jobs_wait_for_the_gateway_of_the_only_domain_that_serves(
    triangle: Running, clients: dict[str, Client]
) -> None:
    """It is killed with -9 and restarted by its supervisor; nobody else could take over."""
    served: Counter[bytes] = Counter()

    async def take(message: Msg) -> None:
        served[message.data] += 1

    await clients["near edge"].subscribe("only", "workers", cb=take)
    await triangle.knows_interest("hub", "near", 1)
    gateway = triangle.launched.sites["near"].gateway
    for number in range(2000):
        await clients["hub"].publish("only", b"%d" % number)
        if number % 10 == 9:
            await clients["hub"].flush()
            await asyncio.sleep(0.01)
        if number == 500:
            assert gateway.pid is not None
            os.kill(gateway.pid, signal.SIGKILL)

    async def all_served() -> bool:
        return len(served) == 2000

    await eventually(all_served, "every job should be served")
    await asyncio.sleep(0.3)
    assert served.total() == 2000, "what it had delivered before is recognised"
    await triangle.links_up()


async def test_nothing_is_lost_when_the_domain_that_serves_is_killed(
    triangle: Running, clients: dict[str, Client]
) -> None:
    """1,000 jobs a second; its gateway and its brokers are killed with -9, and do not come back in time."""
    served: Counter[bytes] = Counter()
    by: Counter[str] = Counter()

    def worker(name: str) -> Callable[[Msg], Awaitable[None]]:
        async def take(message: Msg) -> None:
            served[message.data] += 1
            by[name] += 1

        return take

    for name in ("near", "far"):
        await clients[name].subscribe("work", "workers", cb=worker(name))
    await triangle.knows_interest("hub", "near", 1)
    await triangle.knows_interest("hub", "far", 1)
    site = triangle.launched.sites["near"]

    async def kill_domain() -> None:
        await site.gateway.kill()
        for broker in site.brokers.values():
            await broker.kill()

    total = 0
    killed_at = 0
    end: asyncio.Task[None] | None = None
    while end is None or total < killed_at + 2000:
        await clients["hub"].publish("work", b"%d" % total)
        total += 1
        if total % 10 == 0:
            await clients["hub"].flush()
            await asyncio.sleep(0.01)
        if end is None and total > 1000 and by["near"] > 900:
            killed_at = total
            end = asyncio.create_task(kill_domain())
        assert total < 10_000, "near should be at work"

    async def all_served() -> bool:
        return len(served) == total

    await eventually(all_served, "every job should be served")
    assert by["far"] >= 1500
    await end
    again = served.total() - total
    left = [await triangle.gateway(name) for name in ("hub", "far")]
    assert again <= sum(status.sent_on for status in left), "what was served twice was counted"
    assert not any(status.dropped for status in left)
