"""Confidential topics on real sites in a line: the one in the middle carries what it cannot read."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import nats
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from tests.kit.running import Running
from tests.kit.waiting import eventually

from mangrove.config import parse_federation
from mangrove.host.keys.rotation import Part, rotate
from mangrove.model.shared_names import gateway_process
from mangrove.testbed.local_federation import LocalFederation

LINE = """
federation: line
security: keys
domains:
  east: {}
  middle: {}
  west: {}
links:
  - {between: [east, middle], delay_ms: 2}
  - {between: [middle, west], delay_ms: 2}
topics:
  - {match: "secret.>", confidential: true}
"""
MESSAGES = 2000


@pytest.fixture(scope="module")
async def line(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    directory: Path = tmp_path_factory.mktemp("state") / "line"
    federation = parse_federation(LINE, "line").require()
    async with LocalFederation(federation, directory, ephemeral=True, secured=True, agents=False) as launched:
        running = Running(launched)
        await running.links_up()
        yield running


@asynccontextmanager
async def clients(line: Running) -> AsyncIterator[tuple[Client, Client]]:
    """A publisher in the east and a subscriber in the west."""
    publisher = await nats.connect(line.head("east"))
    subscriber = await nats.connect(line.head("west"))
    yield publisher, subscriber
    await publisher.close()
    await subscriber.close()


def memory_of(pid: int) -> Iterator[bytes]:
    """All that a process can write to, a mapping at a time."""
    with Path(f"/proc/{pid}/maps").open() as maps, Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for mapping in maps:
            place, access, *_ = mapping.split()
            if not access.startswith("rw") or "[v" in mapping:
                continue
            start, end = (int(number, 16) for number in place.split("-"))
            memory.seek(start)
            try:
                yield memory.read(end - start)
            except OSError:  # it was given back meanwhile
                continue


def found_in(pid: int, *words: bytes) -> set[bytes]:
    found: set[bytes] = set()
    for chunk in memory_of(pid):
        found |= {word for word in words if word in chunk}
    return found


def gateway_pid(line: Running, domain: str) -> int:
    (pid,) = (each.pid for each in line.launched.processes() if each.name == gateway_process(domain))
    assert pid is not None
    return pid


async def test_the_site_in_the_middle_never_holds_payloads_or_subjects(line: Running) -> None:
    words = {kind: os.urandom(12).hex().encode() for kind in ("secret", "open", "asked", "answered")}
    taken: list[Msg] = []

    async def take(message: Msg) -> None:
        taken.append(message)

    async def answer(message: Msg) -> None:
        await message.respond(words["answered"] * 4)

    async with clients(line) as (publisher, subscriber):
        await subscriber.subscribe("secret.>", cb=take)
        await subscriber.subscribe("open.>", cb=take)
        await subscriber.subscribe("secret.question.>", cb=answer)
        await line.knows_interest("east", "west", 3)
        for kind in ("secret", "open"):
            for _ in range(200):
                await publisher.publish(f"{kind}.x{words[kind].decode()}", words[kind] * 8)
        reply = await publisher.request("secret.question.1", words["asked"] * 4, timeout=10)
        assert reply.data == words["answered"] * 4

        async def all_came() -> bool:
            return len(taken) >= 401

        await eventually(all_came, "all messages should arrive")
        middle = gateway_pid(line, "middle")
        found = await asyncio.to_thread(found_in, middle, *words.values())
        assert found == {words["open"]}, "what is not confidential is there, so this would be found"
        ends = await asyncio.to_thread(found_in, gateway_pid(line, "west"), *words.values())
        assert words["secret"] in ends
    assert {message.data for message in taken} == {words["secret"] * 8, words["open"] * 8, words["asked"] * 4}
    status = {name: (await line.gateway(name)).sealing for name in ("east", "middle", "west")}
    assert status["east"].sealed == status["west"].opened > 0
    assert (status["middle"].opened, status["middle"].refused, status["west"].refused) == (0, {}, {})


async def test_sealing_keys_change_under_load_and_nothing_is_lost(line: Running) -> None:
    await line.at_rest()
    keys = line.launched.keys
    assert keys is not None
    got: list[int] = []

    async def take(message: Msg) -> None:
        got.append(int(message.data))

    before = {name: (await line.gateway(name)).sealing for name in ("east", "west")}
    async with clients(line) as (publisher, subscriber):
        await subscriber.subscribe("secret.>", cb=take)
        await line.knows_interest("east", "west", 1)
        for number in range(MESSAGES):
            await publisher.publish("secret.load", b"%d" % number)
            if number % 10 == 0:
                await asyncio.sleep(0.01)
            if number in (MESSAGES // 4, MESSAGES // 2):
                await asyncio.to_thread(rotate, keys, parts=[Part.SEALING])

        async def all_came() -> bool:
            return len(got) >= MESSAGES

        await eventually(all_came, "all messages should arrive")
    assert got == list(range(MESSAGES))
    after = {name: (await line.gateway(name)).sealing for name in ("east", "west")}
    assert after["west"].opened - before["west"].opened == after["east"].sealed - before["east"].sealed > 0
    assert not after["west"].refused
