"""What the recorder asks, and what it books of the answers, with real brokers and gateways."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
from pathlib import Path

import nats
import pyarrow.dataset as ds
import pytest
from tests.kit.running import Running
from tests.kit.waiting import eventually

import mangrove
from mangrove.agent.management import ManagementConnection
from mangrove.agent.recording import Recording
from mangrove.broker.nats.monitoring import PageTooLargeError, fetch
from mangrove.broker.nats.subscriptions import SubscriptionWatch

BUSY_TOPICS = 100
HISTORY = 15
NEW = 10


def rows_of(lake: Path, table: str, *columns: str) -> list[dict[str, object]]:
    files = [str(path) for path in (lake / table).rglob("*.parquet")]
    rows: list[dict[str, object]] = ds.dataset(files, format="parquet").to_table(list(columns)).to_pylist()
    return rows


async def test_a_topic_that_is_noticed_late_brings_no_history_and_requests_are_no_topics(
    chain: Running, tmp_path: Path
) -> None:
    """A hundred topics are busier than `late.one` at first; then it overtakes them."""
    async with (
        Recording(chain.launched.run, tmp_path / "lake") as recording,
        mangrove.connect(chain.head("seattle")) as publisher,
        mangrove.connect(chain.edge("orlando")) as far,
    ):
        wanted = [await far.subscribe("late.>")]
        serving = await far.subscribe("service.*")
        await chain.knows_interest("seattle", "orlando", 2)
        for _ in range(HISTORY):
            await publisher.publish("late.one", b"x")
        for number in range(BUSY_TOPICS):
            for _ in range(HISTORY + 5):
                await publisher.publish(f"late.busy{number:03}", b"x")
        await recording.start(chain.launched.federation, list(chain.launched.endpoints.values()))
        await asyncio.sleep(3.0)
        for _ in range(NEW):
            await publisher.publish("late.one", b"x")

        async def answer() -> None:
            async for message in serving:
                await message.respond(b"done")

        answering = asyncio.create_task(answer())
        for _ in range(3):
            await publisher.request("service.one", b"please", timeout=10)
        answering.cancel()
        await asyncio.sleep(2.5)
        assert wanted
    rates = rows_of(tmp_path / "lake", "topic_rates", "domain", "broker", "topic", "msgs_in")
    sent = [row["msgs_in"] for row in rates if row["topic"] == "late.one" and row["broker"] == "seattle-head"]
    assert sum(map(int, map(str, sent))) == NEW
    arrivals = rows_of(tmp_path / "lake", "deliveries", "domain", "topic", "delivered")
    arrived = [row["delivered"] for row in arrivals if row["topic"] == "late.one"]
    assert sum(map(int, map(str, arrived))) == NEW
    assert not [row["topic"] for row in (*rates, *arrivals) if str(row["topic"]).startswith("(")]
    told = [str(row["detail"]) for row in rows_of(tmp_path / "lake", "events", "kind", "detail")]
    assert any("requests and replies sent" in detail for detail in told)


async def total_connections(url: str | None) -> int:
    page = await fetch(f"{url}/varz")
    assert page is not None
    return int(json.loads(page)["total_connections"])


async def test_one_management_connection_is_kept_and_made_anew_when_the_broker_was_away(
    chain: Running,
) -> None:
    endpoints = chain.launched.endpoints["denver"]
    monitor = endpoints.management.monitor_url
    async with ManagementConnection(endpoints) as management:
        before = await total_connections(monitor)
        cursor = None
        for _ in range(5):
            assert await management.gateway_status() is not None
            counts = await management.topic_counts(cursor)
            assert counts is not None
            cursor = counts.cursor
        assert await total_connections(monitor) == before + 1
        pid = chain.launched.sites["denver"].brokers["denver-management"].pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

        async def answers() -> bool:
            return await management.gateway_status() is not None

        await eventually(answers, "the gateway should answer over a new connection")


async def test_a_list_of_subscriptions_that_is_too_long_is_read_without_the_largest_connections(
    chain: Running,
) -> None:
    edge = chain.launched.endpoints["orlando"].edges[1]
    with pytest.raises(PageTooLargeError):
        await fetch(f"{edge.monitor_url}/varz", max_bytes=100)
    large, small = await nats.connect(edge.client_url), await nats.connect(edge.client_url)
    try:
        many = [await large.subscribe(f"plant.large.{number}") for number in range(200)]
        few = [await small.subscribe(f"plant.small.{number}") for number in range(3)]
        whole = SubscriptionWatch(edge)
        short = SubscriptionWatch(edge, max_page_bytes=20_000, max_detailed=50)
        nothing = SubscriptionWatch(edge, max_page_bytes=20_000, max_detailed=1_000_000)
        cut = SubscriptionWatch(edge, max_patterns=100)

        moments = itertools.count(0, 10)

        async def complete() -> bool:
            await whole.look(float(next(moments)))
            return whole.found is not None and len(whole.found.count) == len(many) + len(few)

        await eventually(complete, "the broker should list all subscriptions")
        assert whole.found is not None
        assert (whole.found.left_out, whole.too_large) == (0, False)
        await short.look(0.0)
        assert short.found is not None
        assert sorted(short.found.count) == [f"plant.small.{number}" for number in range(3)]
        assert short.found.left_out >= 200
        assert short.too_large
        await nothing.look(0.0)
        assert nothing.found is not None
        assert not nothing.found.count
        assert nothing.found.left_out >= 203
        await cut.look(0.0)
        assert cut.found is not None
        assert (len(cut.found.count), cut.found.left_out) == (100, 103)
    finally:
        await large.close()
        await small.close()
