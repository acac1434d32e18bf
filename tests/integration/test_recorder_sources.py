"""What the recorder asks, and what it books of the answers, with real brokers and gateways."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import time
from collections import Counter
from datetime import datetime
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
    if not files:
        return []
    rows: list[dict[str, object]] = ds.dataset(files, format="parquet").to_table(list(columns)).to_pylist()
    return rows


def counted(lake: Path, table: str, column: str, topic: str, **more: str) -> int:
    """The sum of a column over the rows of a topic."""
    rows = rows_of(lake, table, column, "topic", *more)
    found = [row[column] for row in rows if row == row | {"topic": topic, **more}]
    return sum(map(int, map(str, found)))


async def looked(lake: Path, domains: set[str], *, times: int = 1, since: float = 0.0) -> None:
    """Wait until the recorder has told of so many seconds of each domain that began after a moment."""

    async def told() -> bool:
        rows = rows_of(lake, "broker_samples", "domain", "ts")
        seconds = {
            (row["domain"], row["ts"])
            for row in rows
            if isinstance(row["ts"], datetime) and row["ts"].timestamp() >= since
        }
        of = Counter(domain for domain, _ in seconds)
        return all(of[domain] >= times for domain in domains)

    await eventually(told, f"{times} seconds of {domains} should be recorded")


async def test_a_topic_that_is_noticed_late_brings_no_history_and_requests_are_no_topics(
    chain: Running, tmp_path: Path
) -> None:
    """A hundred topics are busier than `late.one` at first; then it overtakes them."""
    lake = tmp_path / "lake"

    def sent() -> int:
        return counted(lake, "topic_rates", "msgs_in", "late.one", broker="seattle-head")

    def arrived() -> int:
        return counted(lake, "deliveries", "delivered", "late.one")

    async with (
        Recording(chain.launched.run, lake) as recording,
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
        await looked(lake, {"seattle", "orlando"}, times=2)
        for _ in range(NEW):
            await publisher.publish("late.one", b"x")

        async def answer() -> None:
            async for message in serving:
                await message.respond(b"done")

        answering = asyncio.create_task(answer())
        for _ in range(3):
            await publisher.request("service.one", b"please", timeout=10)
        answering.cancel()

        async def booked() -> bool:
            return sent() >= NEW and arrived() >= NEW

        await eventually(booked, "what was sent should be recorded")
        # What is counted in a second is booked after its end, and what would be too much as well.
        await looked(lake, {"seattle", "orlando"}, since=time.time() + 1.0)
        assert wanted
    assert sent() == NEW
    assert arrived() == NEW
    rows = rows_of(lake, "topic_rates", "topic") + rows_of(lake, "deliveries", "topic")
    assert not [row["topic"] for row in rows if str(row["topic"]).startswith("(")]
    told = [str(row["detail"]) for row in rows_of(lake, "events", "kind", "detail")]
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
