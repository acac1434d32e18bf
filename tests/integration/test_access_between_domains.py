"""Access rules between the domains of a running federation: real brokers and gateways, plain clients."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import nats
import pytest
from nats.aio.client import Client
from nats.aio.subscription import Subscription
from tests.kit.running import Running
from tests.kit.waiting import eventually

import mangrove
from mangrove.config import parse_federation
from mangrove.model.access.refusals import Crossing
from mangrove.testbed.local_federation import LocalFederation

PAIR = """
federation: pair
domains: {here: , there: }
links: [{between: [here, there], delay_ms: 1}]
topics: [{match: "plant.>", scope: domain}]
access:
  - {who: {domain: here}, may_not: [publish], subjects: ["private.>"], to: [there]}
  - {who: {domain: there}, may_not: [subscribe], subjects: ["*.secret"]}
"""


@pytest.fixture(scope="module")
async def pair(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    federation = parse_federation(PAIR, "pair").require()
    directory: Path = tmp_path_factory.mktemp("state") / "pair"
    async with LocalFederation(federation, directory, ephemeral=True, agents=False) as launched:
        running = Running(launched)
        await running.links_up()
        yield running


@pytest.fixture(scope="module")
async def clients(pair: Running) -> AsyncIterator[dict[str, Client]]:
    found = {domain: await nats.connect(pair.head(domain)) for domain in ("here", "there")}
    yield found
    for each in found.values():
        await each.close()


async def came(subscription: Subscription, last: str) -> list[str]:
    """The subjects of all messages up to the last one."""
    subjects: list[str] = []
    while not subjects or subjects[-1] != last:
        subjects.append((await subscription.next_msg(timeout=10)).subject)
    return subjects


async def publish(client: Client, *subjects: str) -> None:
    for subject in subjects:
        await client.publish(subject, b"")
    await client.flush()


@pytest.mark.asyncio(loop_scope="module")
async def test_what_may_not_pass_stays_where_it_is_and_is_counted_by_rule(
    pair: Running, clients: dict[str, Client]
) -> None:
    heard = {domain: await each.subscribe(">") for domain, each in clients.items()}
    for each in clients.values():
        await each.flush()
    for knower, of in (("here", "there"), ("there", "here")):
        await pair.knows_interest(knower, of, 1)
    subjects = ("private.x", "plant.valve", "a.secret", "open.x", "end")
    await publish(clients["here"], *subjects)
    assert await came(heard["here"], "end") == list(subjects), "at home all of it is heard"
    assert await came(heard["there"], "end") == ["open.x", "end"]
    await publish(clients["there"], "private.x", "a.secret", "end2")
    assert await came(heard["here"], "end2") == ["private.x", "a.secret", "end2"], "the rules are one-way"
    assert await came(heard["there"], "end2") == ["private.x", "a.secret", "end2"]

    async def counted() -> bool:
        found = (await pair.gateway("here")).access
        return {(row.rule, row.crossing, row.domain, row.count, row.example) for row in found} == {
            ("access[0]", Crossing.LEAVE, "there", 1, "private.x"),
            ("access[1]", Crossing.LEAVE, "there", 1, "a.secret"),
        }

    await eventually(counted, "refusals should be told by rule")
    for subscription in heard.values():
        await subscription.unsubscribe()


@pytest.mark.asyncio(loop_scope="module")
async def test_requests_are_answered_across_domains_and_reply_to_nothing_else(
    pair: Running, clients: dict[str, Client]
) -> None:
    served = await clients["there"].subscribe("service")
    valve = await clients["here"].subscribe("valve.open")
    for each in clients.values():
        await each.flush()
    await pair.knows_interest("here", "there", 1)
    inbox = clients["here"].new_inbox()
    answers = await clients["here"].subscribe(inbox)
    for reply in ("valve.open", inbox):
        await clients["here"].publish("service", b"", reply=reply)
        question = await served.next_msg(timeout=10)
        await question.respond(b"answer")
    assert (await answers.next_msg(timeout=10)).data == b"answer"
    assert not valve.pending_msgs, "the answer did not open the valve"
    assert sum((await pair.gateway("there")).dropped.values()) == 1
    for subscription in (served, valve, answers):
        await subscription.unsubscribe()


@pytest.mark.asyncio(loop_scope="module")
async def test_a_publisher_is_told_where_its_messages_may_not_go(pair: Running) -> None:
    directory = pair.launched.directory
    async with mangrove.connect(domain="here", run_dir=directory) as connection:
        assert await connection.refusals("open.x") == {}
        assert await connection.refusals("private.x") == {"there": "refused by access[0]"}
        assert await connection.refusals("plant.valve") == {"there": "it stays in its domain"}
