"""Selectors on real brokers: what nobody in a domain selects does not go there; nobody misses anything."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import nats
import pytest
from tests.kit.running import Running
from tests.kit.waiting import eventually

import mangrove
from mangrove.client.connection import Connection
from mangrove.client.subscription import Subscription
from mangrove.errors import InputError
from mangrove.model.selectors.words import SelectorError

PAYLOAD = b"x" * 1000
MANY = 300


@pytest.fixture
async def sites(chain: Running) -> AsyncIterator[dict[str, Connection]]:
    await chain.at_rest()
    async with AsyncExitStack() as stack:
        yield {
            domain: await stack.enter_async_context(
                mangrove.connect(domain=domain, run_dir=chain.launched.directory)
            )
            for domain in chain.launched.endpoints
        }


class Counts:
    """What the gateways of the ends counted since the last look."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self.sent = self.kept_back = self.delivered = self.link_bytes = 0
        self._before = (0, 0, 0, 0)

    async def look(self) -> None:
        near, far = await self._running.gateway("seattle"), await self._running.gateway("orlando")
        now = (near.sent, near.kept_back, far.delivered, near.links[0].bytes_out)
        since = [after - before for after, before in zip(now, self._before, strict=True)]
        self.sent, self.kept_back, self.delivered, self.link_bytes = since
        self._before = now


async def say(publisher: Connection, subject: str, *severities: int) -> None:
    for number, severity in enumerate(severities):
        await publisher.publish(subject, b"%d " % number + PAYLOAD, headers={"severity": str(severity)})


async def heard(subscription: Subscription, last: int) -> list[int]:
    """The severities of what came, until the last one."""
    found: list[int] = []
    while not found or found[-1] != last:
        found.append(int((await subscription.next(timeout=10)).headers["severity"]))
    return found


async def test_what_nobody_selects_does_not_cross_a_link(
    chain: Running, sites: dict[str, Connection]
) -> None:
    urgent = await sites["orlando"].subscribe("alarm.>", where="severity >= 3")
    await urgent.ready()
    counts = Counts(chain)
    await counts.look()
    await say(sites["seattle"], "alarm.fire", *([1, 2] * 100), 9)
    assert await heard(urgent, 9) == [9]
    await counts.look()
    assert (counts.sent, counts.kept_back, counts.delivered) == (1, 200, 1)
    assert counts.link_bytes < 100 * len(PAYLOAD), "what was kept back is on no link"
    assert urgent.unselected == 0, "nothing came that had to be left out"
    assert (await chain.gateway("seattle")).kept_back_by_topic["alarm.fire"] >= 200
    assert not (await chain.gateway("seattle")).dropped
    assert (await chain.gateway("orlando")).gaps == 0, "what was kept back is not missed"


async def test_a_plain_subscriber_gets_everything_and_selectors_count_again_when_it_has_gone(
    chain: Running, sites: dict[str, Connection]
) -> None:
    urgent = await sites["orlando"].subscribe("level.x", where="severity >= 3")
    await urgent.ready()
    counts = Counts(chain)
    client = await nats.connect(chain.edge("orlando"))
    plain = await client.subscribe("level.*")
    await client.flush()
    await sites["orlando"].ready("level.*")
    await say(sites["seattle"], "level.x", 1, 5, 2)
    everything = [(await plain.next_msg(5)).data.split()[0] for _ in range(3)]
    assert everything == [b"0", b"1", b"2"]
    await client.close()

    async def kept_back() -> bool:
        await counts.look()
        await say(sites["seattle"], "level.x", 0)
        await counts.look()
        return counts.kept_back == 1

    await eventually(kept_back, "once the plain subscriber has left, what is not selected stays")
    await say(sites["seattle"], "level.x", 7)
    assert await heard(urgent, 7) == [5, 7]


async def test_each_domain_gets_what_it_selects_in_order(
    chain: Running, sites: dict[str, Connection]
) -> None:
    severities = [number % 10 for number in range(60)]
    everything = await sites["denver"].subscribe("order.>")
    high = await sites["orlando"].subscribe("order.>", where="severity >= 8")
    low = await sites["orlando"].subscribe("order.x", where="severity BETWEEN 1 AND 2 OR severity = 99")
    at_home = await sites["seattle"].subscribe("order.x", where="severity IN (0, 99)")
    for subscription in (everything, high, low, at_home):
        await subscription.ready()
    counts = Counts(chain)
    await counts.look()
    await say(sites["seattle"], "order.x", *severities, 99)
    assert await heard(everything, 99) == [*severities, 99]
    assert await heard(high, 99) == [each for each in severities if each >= 8] + [99]
    assert await heard(low, 99) == [each for each in severities if each in (1, 2)] + [99]
    assert await heard(at_home, 99) == [0] * 6 + [99]
    await counts.look()
    assert (counts.sent, counts.delivered) == (61, 25)
    assert counts.kept_back == 36, "copies for orlando alone"


async def test_many_who_select_the_same_or_not_all_hear_it_and_others_hear_of_it_once(
    chain: Running, sites: dict[str, Connection]
) -> None:
    several = [
        await sites["orlando"].subscribe("many.x", where=f"severity > {number % 4}") for number in range(MANY)
    ]
    await asyncio.gather(*(each.ready() for each in several))
    assert (await chain.gateway("seattle")).interest["orlando"] == 4
    await say(sites["seattle"], "many.x", 0, 4)
    for subscription in several:
        assert await heard(subscription, 4) == [4]
    for subscription in several:
        await subscription.unsubscribe()

    await chain.at_rest()


async def test_a_request_finds_who_selects_it_and_a_message_without_headers_nobody(
    chain: Running, sites: dict[str, Connection]
) -> None:
    service = await sites["orlando"].subscribe("ask.x", where="kind = 'ours'")
    bare = await sites["orlando"].subscribe("ask.x", where="kind IS NULL")
    for subscription in (service, bare):
        await subscription.ready()
    client = await nats.connect(chain.head("seattle"))
    await client.publish("ask.x", b"no headers")
    inbox = client.new_inbox()
    answers = await client.subscribe(inbox)
    await client.publish("ask.x", b"?", reply=inbox, headers={"kind": "ours"})
    await (await service.next(timeout=5)).respond(b"!")
    assert (await answers.next_msg(5)).data == b"!"
    assert (await bare.next(timeout=5)).data == b"no headers"
    assert (service.pending, bare.pending) == (0, 0)
    await client.close()


async def test_a_selector_with_a_mistake_changes_nothing(
    chain: Running, sites: dict[str, Connection]
) -> None:
    with pytest.raises(SelectorError, match="at character 10: a number, or text in quotes is expected"):
        await sites["orlando"].subscribe("bad.x", where="severity=>3")
    with pytest.raises(InputError, match="queue group"):
        await sites["orlando"].subscribe("bad.x", where="severity >= 3", queue="workers")
    assert (await chain.gateway("seattle")).interest["orlando"] == 0
