"""Limits of what is published, in a running federation: what the caller is told, and what holds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from tests.kit.running import Running
from tests.kit.waiting import eventually

import mangrove
from mangrove.client import Connection, LimitedError, Outcome
from mangrove.config import parse_federation
from mangrove.errors import InputError, MangroveError
from mangrove.model.agents.names import client_subject
from mangrove.model.agents.usefulness import LimitsOrdered
from mangrove.model.congestion.rate_limit import LimitCause, RateLimit
from mangrove.testbed.local_federation import LocalFederation

PAIR = """
federation: pair
domains: {seattle: {edges: 1}, denver: {edges: 1}}
links: [{between: [seattle, denver], delay_ms: 1}]
topics:
  - {match: "slow.*", rate_msg_s: 10}
  - {match: "heavy.*", rate_bytes_s: 2000}
  - {match: "open.>", always_send: true}
limits: {client: {rate_msg_s: 5000}}
"""


@pytest.fixture(scope="module")
async def pair(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    directory: Path = tmp_path_factory.mktemp("state") / "pair"
    federation = parse_federation(PAIR, "pair").require()
    async with LocalFederation(federation, directory, ephemeral=True) as launched:
        running = Running(launched)
        await running.links_up()
        yield running


async def outcomes(connection: Connection, subject: str, count: int, size_bytes: int = 1) -> list[Outcome]:
    return [await connection.publish(subject, bytes(size_bytes)) for _ in range(count)]


async def test_the_caller_is_told(pair: Running) -> None:
    told: list[tuple[str, RateLimit | None]] = []
    received: list[mangrove.Message] = []

    async def take(message: mangrove.Message) -> None:
        received.append(message)

    async with (
        mangrove.connect(pair.head("denver")) as far,
        mangrove.connect(
            pair.head("seattle"), on_limit=lambda subject, limit: told.append((subject, limit))
        ) as connection,
    ):
        subscription = await far.subscribe("slow.*", callback=take)
        await subscription.ready()
        began = time.monotonic()
        slow = await outcomes(connection, "slow.a", 100)
        heavy = await outcomes(connection, "heavy.a", 10, size_bytes=500)
        took_s = time.monotonic() - began
        free = await outcomes(connection, "free.a", 50)
        assert slow[0] is Outcome.SENT
        assert 1 <= slow.count(Outcome.SENT) <= 5 + 10 * took_s
        assert 1 <= heavy.count(Outcome.SENT) <= 3 + 4 * took_s
        assert set(free) == {Outcome.SENT}
        assert connection.withheld["slow.a"].limited.messages == slow.count(Outcome.LIMITED)
        assert connection.withheld["heavy.a"].limited.size_bytes == 500 * heavy.count(Outcome.LIMITED)
        assert "free.a" not in connection.withheld
        assert connection.limits["slow.a"].msg_s == 10
        assert connection.limits["slow.a"].cause is LimitCause.CONTRACT
        assert connection.limits[">"].cause is LimitCause.CLIENT
        assert connection.published()["slow.a"].messages == slow.count(Outcome.SENT)
        await connection.flush()
        assert told[0] == ("slow.a", connection.limits["slow.a"])

        async def all_there() -> bool:
            return len(received) == slow.count(Outcome.SENT)

        await eventually(all_there, "what was said to be sent should arrive")


async def test_waiting_and_raising(pair: Running) -> None:
    async with (
        mangrove.connect(pair.head("seattle"), when_limited="wait") as patient,
        mangrove.connect(pair.head("seattle"), when_limited="raise") as strict,
    ):
        assert set(await outcomes(patient, "slow.b", 5)) == {Outcome.SENT}
        assert patient.withheld["slow.b"].delayed.messages >= 3
        assert patient.withheld["slow.b"].limited.messages == 0
        assert patient.publish_nowait("slow.b") is Outcome.LIMITED, "it cannot wait"
        with pytest.raises(LimitedError, match=r"slow\.c is reached \(contract: 10 messages/s"):
            await outcomes(strict, "slow.c", 20)
        assert strict.withheld["slow.c"].limited.messages == 1
    with pytest.raises(InputError, match="when_limited"):
        mangrove.connect(pair.head("seattle"), when_limited="sometimes")


async def test_requests_and_answers(pair: Running) -> None:
    async with (
        mangrove.connect(pair.head("denver")) as far,
        mangrove.connect(pair.head("seattle")) as connection,
    ):

        async def serve(message: mangrove.Message) -> None:
            await message.respond(b"done")

        subscription = await far.subscribe("slow.service", callback=serve)
        await subscription.ready()
        assert (await connection.request("slow.service", timeout=5)).data == b"done"

        async def ask_often() -> None:
            for _ in range(20):
                await connection.request("slow.service", timeout=5)

        with pytest.raises(LimitedError):
            await ask_often()
        for _ in range(3):  # also when it is known that nobody listens
            with pytest.raises(MangroveError, match="nobody in the federation answers"):
                await connection.request("nobody.answers", timeout=5)
            await connection.publish("nobody.answers")


async def test_the_agents_limits_come_and_go(pair: Running) -> None:
    """Said by somebody who knows the agent's term, as the agent says them."""
    told: list[tuple[str, float | None]] = []

    def changed(subject: str, limit: RateLimit | None) -> None:
        told.append((subject, None if limit is None else limit.msg_s))
        raise RuntimeError("the user's own mistake")

    async with mangrove.connect(pair.head("seattle"), on_limit=changed) as connection:
        await connection.publish("agents.a")
        managed = connection._managed
        assert managed is not None
        membership = managed.membership

        async def registered() -> bool:
            return membership.term > 0

        await eventually(registered, "the client should be registered")
        agent = await pair.as_agent("seattle")
        user = "client" if pair.launched.endpoints["seattle"].keys else ""
        where = client_subject("seattle", membership._identity.client, user)

        async def say(epoch: int, limits: dict[str, RateLimit], term: int = membership.term) -> None:
            order = LimitsOrdered(term=term, epoch=epoch, limits=limits)
            await agent.publish(where, msgspec.json.encode(order))

        closed = RateLimit(msg_s=0.0, cause=LimitCause.CONGESTION, reason="no room")
        for epoch, limits in ((1_000, {"agents.a": RateLimit(msg_s=-1.0)}), (0, {"agents.a": closed})):
            await say(epoch, limits)
        await say(1_000, {"agents.a": closed}, term=membership.term + 7)
        await agent.publish(where, b'{"type": "limits", "term": 1, "epoch": 1, "limits": {"a": 7}}')
        await say(1_000, {"agents.a": closed})

        async def limited() -> bool:
            return connection.limits.get("agents.a") == closed

        await eventually(limited, "the limit should be in force")
        assert await connection.publish("agents.a") is Outcome.LIMITED
        assert connection.ignored == {"impossible figures": 2, "other term": 1, "unreadable": 1}
        assert managed.limits_epoch() == 1_000
        await say(999, {})
        await say(1_001, {})

        async def lifted() -> bool:
            return "agents.a" not in connection.limits

        await eventually(lifted, "the limit should be lifted")
        assert connection.ignored["older limits"] == 1
        assert await connection.publish("agents.a") is not Outcome.LIMITED
        await asyncio.sleep(0)
        assert told == [("agents.a", 0.0), ("agents.a", None)]
        await agent.close()


async def test_two_publishers_are_told_their_shares(pair: Running) -> None:
    told: list[str] = []
    async with (
        mangrove.connect(pair.head("seattle"), on_limit=lambda subject, _: told.append(subject)) as one,
        mangrove.connect(pair.head("seattle")) as two,
    ):

        async def shared() -> bool:
            for connection in (one, two):
                await outcomes(connection, "slow.shared", 20)
            limits = [connection.limits["slow.shared"].msg_s or 0.0 for connection in (one, two)]
            return sum(limits) <= 10.5 and min(limits) >= 4.5

        await eventually(shared, "each of two greedy publishers should be told its half")
        assert told.count("slow.shared") >= 2, "the contract's limit, and the share of it"


async def keep_silent(connection: Connection, subjects: list[str]) -> None:
    """Publish until nothing of it is sent any more."""

    async def silent() -> bool:
        return not any([await connection.publish(subject) for subject in subjects])

    await eventually(silent, "subjects without subscribers should not be sent")


async def test_nobody_listens(pair: Running) -> None:
    async with (
        mangrove.connect(pair.head("denver")) as far,
        mangrove.connect(pair.head("seattle")) as connection,
    ):
        assert await connection.publish("lonely.a"), "the first message is always sent"
        await keep_silent(connection, ["lonely.a", "lonely.b"])
        assert connection.withheld["lonely.a"].unwanted.messages >= 1
        assert connection.withheld["lonely.a"].limited.messages == 0
        assert await connection.publish("open.lonely"), "its contract wants it sent"
        with pytest.raises(MangroveError, match="nobody in the federation answers"):
            await connection.request("lonely.a", timeout=5)
        assert await connection.publish("lonely.a", reply="answers.here")
        own = await connection.subscribe("lonely.*")
        await own.ready()
        assert await connection.publish("lonely.b", b"to myself")
        assert (await own.next(timeout=5)).data == b"to myself"
        await own.unsubscribe()
        await keep_silent(connection, ["lonely.a"])
        await far.subscribe("lonely.>")

        async def heard() -> bool:
            return bool(await connection.publish("lonely.a"))

        await eventually(heard, "it should be sent when somebody subscribes, also without asking for ready")


SILENT = 120
ROUNDS = 2


async def test_what_is_published_after_ready_arrives_also_from_who_was_silent(pair: Running) -> None:
    """Hundreds of subjects that a publisher is silent on: the first message after `ready` counts."""
    lost: list[str] = []
    silent = 0
    async with (
        mangrove.connect(pair.edge("denver")) as far,
        mangrove.connect(pair.edge("seattle")) as near,
        mangrove.connect(pair.head("seattle")) as publisher,
    ):

        async def round_(number: int, subject: str) -> None:
            nonlocal silent
            subscriber = far if number % 2 else near
            subscription = await subscriber.subscribe(subject)
            silent += not await publisher.publish(subject, b"before")
            await subscription.ready()
            await publisher.publish(subject, b"after")
            try:
                while (await subscription.next(timeout=20)).data != b"after":
                    pass
            except TimeoutError:
                lost.append(subject)
            await subscription.unsubscribe()

        for turn in range(ROUNDS):
            subjects = [f"quiet.{turn}.{number}" for number in range(SILENT)]
            await keep_silent(publisher, subjects)
            for first in range(0, SILENT, 4):
                chunk = list(enumerate(subjects[first : first + 4], first))
                await asyncio.gather(*(round_(number, subject) for number, subject in chunk))
    assert lost == []
    assert silent > ROUNDS * SILENT / 4, "most were silent until then"
