"""Confidential topics on real sites in a line: the one in the middle carries what it cannot read."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from tests.kit.line_of_sites import LineOfSites, client_at, line_of_sites
from tests.kit.waiting import eventually

from mangrove.host.keys.rotation import Part, rotate
from mangrove.model.topics import Contract, TopicRules

RULES = TopicRules((Contract(match="secret.>", confidential=True),))
MESSAGES = 2000
ROTATED = {500: [Part.SEALING], 1000: [Part.SEALING, Part.GATEWAY]}


@pytest.fixture(scope="module")
async def line(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LineOfSites]:
    async with line_of_sites(tmp_path_factory.mktemp("line"), ("east", "middle", "west"), RULES) as made:
        yield made


@pytest.fixture
async def publisher(line: LineOfSites) -> AsyncIterator[Client]:
    async with client_at(line["east"]) as client:
        yield client


@pytest.fixture
async def subscriber(line: LineOfSites) -> AsyncIterator[Client]:
    async with client_at(line["west"]) as client:
        yield client


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


async def test_the_site_in_the_middle_never_holds_payloads_or_subjects(
    line: LineOfSites, publisher: Client, subscriber: Client
) -> None:
    """Requests and their answers included. Patterns that are wanted are known to all."""
    words = {kind: os.urandom(12).hex().encode() for kind in ("secret", "open", "asked", "answered")}
    taken: list[Msg] = []

    async def take(message: Msg) -> None:
        taken.append(message)

    async def answer(message: Msg) -> None:
        await message.respond(words["answered"] * 4)

    for kind in ("secret", "open"):
        await subscriber.subscribe(f"{kind}.told.*", cb=take)
        await line.leads(publisher, subscriber, f"{kind}.told.first")
    await subscriber.subscribe("secret.asked.*", cb=answer)
    await line.leads(publisher, subscriber, "secret.asked.first")
    taken.clear()
    for kind in ("secret", "open"):
        for _ in range(200):
            await publisher.publish(f"{kind}.told.x{words[kind].decode()}", words[kind] * 8)
    reply = await publisher.request("secret.asked.1", words["asked"] * 4, timeout=10)
    assert reply.data == words["answered"] * 4

    async def all_came() -> bool:
        return len(taken) >= 400

    await eventually(all_came, "all messages should arrive")
    assert {message.data for message in taken} == {words["secret"] * 8, words["open"] * 8}
    middle = await asyncio.to_thread(found_in, line["middle"].gateway_pid, *words.values())
    assert middle == {words["open"]}, "what is not confidential is there, so this would be found"
    west = await asyncio.to_thread(found_in, line["west"].gateway_pid, *words.values())
    assert words["secret"] in west
    assert not [each for each in line["west"].story() if each.startswith("refused")]


async def test_keys_change_under_load_and_nothing_is_lost(
    line: LineOfSites, publisher: Client, subscriber: Client
) -> None:
    got: list[int] = []

    async def take(message: Msg) -> None:
        got.append(int(message.data))

    await line.leads(publisher, subscriber, "secret.load")
    await subscriber.subscribe("secret.load", cb=take)
    await subscriber.flush()
    for number in range(MESSAGES):
        await publisher.publish("secret.load", b"%d" % number)
        if number % 10 == 0:
            await asyncio.sleep(0.01)
        if number in ROTATED:
            await asyncio.to_thread(rotate, line.key_directory, parts=ROTATED[number])

    async def all_came() -> bool:
        return len(got) >= MESSAGES

    await eventually(all_came, "all messages should arrive")
    assert got == list(range(MESSAGES))
    assert not [each for each in line["west"].story() if each.startswith("refused")]
