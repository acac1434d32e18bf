"""Names change at random while messages pass that are called as before: these notice nothing."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import nats
import pytest
from nats.aio.msg import Msg
from tests.kit.changing_ring import RING, SUBJECTS, under_load
from tests.kit.own_names import passes, reloaded, with_names
from tests.kit.running import Running

from mangrove.model.names.mapping import Direction, NameMapping
from mangrove.testbed.probe_traffic import payload_number

LOCAL = ("werk.>", "halle.>", "steady.hier.>", "plain.hier.>", "neu", "changing.y")
FEDERATION = ("plant.>", "hall.>", "steady.there.>", "plain.there.>", "new", "alert")


def names_at_random(chance: random.Random) -> tuple[NameMapping, ...]:
    """Names that reach into the spaces of what is sent, but not over it."""
    found = []
    for whole in (True, False):
        local = [each for each in LOCAL if each.endswith(">") is whole]
        federation = [each for each in FEDERATION if each.endswith(">") is whole]
        some = chance.randint(0, len(local))
        directions = [chance.choice(list(Direction)) for _ in range(some)]
        pairs = zip(chance.sample(local, some), chance.sample(federation, some), directions, strict=True)
        found += [NameMapping(local=one, federation=other, direction=way) for one, other, way in pairs]
    return tuple(found)


@asynccontextmanager
async def all_in_turn(url: str) -> AsyncIterator[None]:
    """Subscribers with wildcards hear each of the streams without a gap while the block runs."""
    client = await nats.connect(url)
    last: dict[tuple[str, str], int] = {}
    odd: list[tuple[str, str, int, int]] = []
    try:
        for pattern in (">", "plain.>", "steady.*"):

            async def hear(message: Msg, pattern: str = pattern) -> None:
                if message.subject not in SUBJECTS:
                    return
                number, key = payload_number(message.data), (pattern, message.subject)
                if key in last and number != last[key] + 1:
                    odd.append((*key, last[key], number))
                last[key] = number

            await client.subscribe(pattern, cb=hear)
        await client.flush()
        yield
        await client.flush()
        assert len(last) == 5
        assert not odd, odd[:5]
    finally:
        await client.close()


async def changed_names(directory: Path, running: Running, chance: random.Random, times: int) -> None:
    before = None
    for _ in range(times):
        names = {domain: names_at_random(chance) for domain in "abc"}
        told = await reloaded(directory, with_names(RING, names))
        assert before is None or before == names or told["taken"]
        before = names
        for subject in chance.sample(["werk.x", "plant.x", "halle.x", "neu", "new", "plain.hier.x"], 2):
            await passes(running, ("a", "c"), names, subject)
    assert (await reloaded(directory, RING))["taken"], "and at last there are none"


async def test_names_change_while_messages_flow(tmp_path: Path) -> None:
    directory = tmp_path / "changing"
    async with under_load(directory, 600.0) as running, all_in_turn(running.head("c")):
        await changed_names(directory, running, random.Random(3), 4)


@pytest.mark.timeout(600)
@pytest.mark.soak
async def test_names_change_often_at_two_thousand_messages_a_second(tmp_path: Path) -> None:
    directory = tmp_path / "changing"
    async with under_load(directory, 2000.0) as running, all_in_turn(running.head("c")):
        await changed_names(directory, running, random.Random(5), 40)
