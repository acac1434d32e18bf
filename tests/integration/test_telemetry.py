"""The recorder against a real federation: what was sent is in the lake, and the lake feeds the planner."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from tests.kit.ports import PortBlocks
from tests.kit.running import Running
from tests.kit.waiting import eventually

import mangrove
from mangrove.agent.inspection import gateway_status
from mangrove.agent.recording import Recording
from mangrove.broker.nats.monitoring import fetch
from mangrove.lake.files import list_table
from mangrove.model.shared_names import TAP_NAME
from mangrove.model.telemetry import TABLES, TOPIC_RATES

SECONDS = 8
DOMAINS = ("seattle", "denver", "orlando")
RATES = {"alert.tsunami": 40, "sensor.one": 25, "sensor.two": 10, "far.quotes": 20}

SERVED_AT_HOME = "job.one"
"""A topic that only a queue group wants, with members in Seattle and in Orlando."""


def table(lake: Path, name: str) -> pa.Table:
    files = [str(path) for path in (lake / name).rglob("*.parquet")]
    return ds.dataset(files, format="parquet").to_table()


def total(rows: pa.Table, column: str) -> int:
    return int(pc.sum(rows.column(column)).as_py() or 0)


def of_topic(rows: pa.Table, topic: str, **more: str) -> pa.Table:
    mask = pc.equal(rows.column("topic"), topic)
    for name, value in more.items():
        mask = pc.and_(mask, pc.equal(rows.column(name), value))
    return rows.filter(mask)


async def tap_asks_for(chain: Running, domain: str, patterns: set[str]) -> None:
    """Wait until the recorder has learned of these subscriptions and its tap follows them."""
    page = f"{chain.launched.endpoints[domain].head.monitor_url}/connz?subs=1"

    async def follows() -> bool:
        connections = json.loads(await fetch(page) or b"{}").get("connections", [])
        asked = [
            set(each.get("subscriptions_list", [])) for each in connections if each.get("name") == TAP_NAME
        ]
        return any(patterns <= each for each in asked)

    await eventually(follows, f"the tap in {domain} should follow {patterns}")


async def recorded_until(lake: Path, moment: float) -> None:
    """Wait until the recorder has told of a second of every domain that began after a moment."""

    async def told() -> bool:
        if not (lake / "broker_samples").exists():
            return False
        rows = table(lake, "broker_samples").to_pylist()
        return {row["domain"] for row in rows if row["ts"].timestamp() >= moment} == set(DOMAINS)

    await eventually(told, "all domains should be recorded up to the end")


@pytest.fixture(scope="module")
async def lake(chain: Running, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight seconds of known traffic: Seattle publishes; Seattle and Orlando subscribe."""
    directory = tmp_path_factory.mktemp("telemetry") / "lake"
    state = chain.launched.directory.parent
    async with (
        Recording(chain.launched.run, directory) as recording,
        mangrove.connect(chain.head("seattle")) as publisher,
        mangrove.connect(chain.edge("seattle")) as near,
        mangrove.connect(chain.edge("orlando")) as far,
    ):
        await recording.start(chain.launched.federation, list(chain.launched.endpoints.values()))
        subscriptions = [
            await near.subscribe("alert.>"),
            await near.subscribe("sensor.*"),
            await near.subscribe("sensor.one"),
            await far.subscribe("alert.tsunami"),
            await far.subscribe("far.>"),
            await near.subscribe("job.*", queue="workers"),
            await far.subscribe("job.*", queue="workers"),
        ]
        await chain.knows_interest("seattle", "orlando", 3)
        await tap_asks_for(chain, "seattle", {"alert.>", "sensor.*"})
        await tap_asks_for(chain, "orlando", {"alert.tsunami", "far.>"})
        start = time.monotonic()
        sent = dict.fromkeys([*RATES, SERVED_AT_HOME], 0)
        while (elapsed := time.monotonic() - start) < SECONDS:
            for topic, rate in RATES.items():
                while sent[topic] < elapsed * rate:
                    await publisher.publish(topic, b"x" * 100)
                    sent[topic] += 1
            while sent[SERVED_AT_HOME] < elapsed * 10:
                await publisher.publish(SERVED_AT_HOME, b"x")
                sent[SERVED_AT_HOME] += 1
            await asyncio.sleep(0.01)
        await recorded_until(directory, time.time() + 1.0)  # the last second is booked after its end
        assert subscriptions
    sent.pop(SERVED_AT_HOME)
    (directory / "sent.json").write_text(json.dumps(sent))
    assert state.exists()
    return directory


def sent_of(lake: Path) -> dict[str, int]:
    sent: dict[str, int] = json.loads((lake / "sent.json").read_text())
    return sent


def test_every_table_is_there_and_every_file_is_good(lake: Path) -> None:
    recorded = ("topic_rates", "link_samples", "broker_samples", "deliveries", "events", "load_samples")
    for name in recorded:
        listing = list_table(str(lake), TABLES[name]).require()
        assert listing.skipped == [], name


def test_every_data_broker_has_its_load_as_its_agent_judges_it(lake: Path) -> None:
    rows = table(lake, "load_samples").to_pylist()
    brokers = {row["broker"] for row in rows if row["domain"] == "orlando"}
    assert brokers == {"orlando-head", "orlando-edge1", "orlando-edge2"}
    assert {row["state"] for row in rows} == {"low"}, "no capacity is known, so nothing is high"


def test_messages_in_and_copies_out_are_those_that_were_sent(lake: Path) -> None:
    rows = table(lake, "topic_rates")
    for topic, count in sent_of(lake).items():
        own = of_topic(rows, topic, broker="seattle-head")
        # The tap listens all the time at these rates; starting up may cost it part of a second.
        assert total(own, "msgs_in") == pytest.approx(count, rel=0.05), topic
    one = of_topic(rows, "sensor.one", broker="seattle-edge1")
    assert total(one, "msgs_out") == pytest.approx(2 * sent_of(lake)["sensor.one"], rel=0.05)
    assert set(one.column("subscribers").to_pylist()) == {2}
    assert set(one.column("filters").to_pylist()) == {2}
    assert total(of_topic(rows, "alert.tsunami", broker="seattle-head"), "bytes_in") > 100 * total(
        of_topic(rows, "alert.tsunami", broker="seattle-head"), "msgs_in"
    )


def test_the_tap_makes_nothing_travel_that_nobody_wants(lake: Path) -> None:
    rows = table(lake, "topic_rates")
    elsewhere = rows.filter(pc.not_equal(rows.column("domain"), "seattle"))
    assert set(elsewhere.column("topic").to_pylist()) == {"alert.tsunami", "far.quotes"}
    assert "denver" not in set(elsewhere.column("domain").to_pylist())


def test_deliveries_carry_latencies_by_route(lake: Path) -> None:
    rows = table(lake, "deliveries")
    far = of_topic(rows, "alert.tsunami", domain="orlando")
    assert set(far.column("route").to_pylist()) == {"*>orlando"}
    assert total(far, "delivered") == pytest.approx(sent_of(lake)["alert.tsunami"], rel=0.05)
    assert total(far, "measured") > 0.9 * total(far, "delivered")
    bins = [sum(column) for column in zip(*far.column("latency_histogram").to_pylist(), strict=True)]
    assert sum(bins) == total(far, "measured")
    near = of_topic(rows, "sensor.two", domain="seattle")
    assert set(near.column("route").to_pylist()) == {"seattle>seattle"}


def test_links_and_brokers_are_sampled_every_second(lake: Path) -> None:
    links = table(lake, "link_samples")
    pairs = set(zip(links.column("domain").to_pylist(), links.column("peer").to_pylist(), strict=True))
    assert pairs == {
        ("seattle", "denver"),
        ("denver", "seattle"),
        ("denver", "orlando"),
        ("orlando", "denver"),
    }
    brokers = table(lake, "broker_samples")
    head = brokers.filter(pc.equal(brokers.column("broker"), "seattle-head"))
    stamps = sorted(head.column("ts").to_pylist())
    assert len(stamps) == len(set(stamps)) >= SECONDS
    assert all(stamp.microsecond == 0 for stamp in stamps)
    assert max(head.column("tap_share").to_pylist()) == 1.0


@pytest.mark.timeout(300)
def test_closed_loop_from_the_federation_to_a_plan(lake: Path, tmp_path: Path) -> None:
    """Real federation → lake → profile → plan allocate → plan file, all by the command line."""

    def run(*arguments: str) -> str:
        result = subprocess.run(
            [sys.executable, "-m", "mangrove.cli.main", *arguments],
            capture_output=True,
            text=True,
            timeout=110,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        return result.stdout

    output = tmp_path / "profile"
    summary = json.loads(
        run(
            *("pipeline", "profile", "--input", str(lake), "--output", str(output), "--domain", "seattle"),
            *("--capacity", "200", "--brokers", "2", "--max-risk", "0.05", "--master", "local[2]", "--json"),
        )
    )
    assert summary["topics"] == 4
    problem = json.loads((output / "problem.json").read_text())
    assert problem["items"] == sorted(RATES)
    plan = tmp_path / "plan.json"
    plan.write_text(run("plan", "allocate", str(output / "problem.json"), "--seed", "1", "--json"))
    allocation = json.loads(plan.read_text())["allocation"]
    assert sorted(item for items in allocation.values() for item in items) == sorted(RATES)


@pytest.fixture
def base_port() -> Iterator[int]:
    with PortBlocks() as blocks:
        yield blocks.take()


def test_a_recorder_that_is_killed_leaves_a_good_lake(chain: Running, tmp_path: Path, base_port: int) -> None:
    """`mangrove up`, killed outright after some seconds: every file that is there can be read."""
    from mangrove.config.load import read_federation

    file = tmp_path / "f.yaml"
    file.write_text(f"federation: killed\ndomains:\n  solo: {{edges: 1, base_port: {base_port}}}\n")
    read_federation(file).require()
    process = subprocess.Popen(
        [sys.executable, "-m", "mangrove.cli.main", "up", str(file), "--run-dir", str(tmp_path / "run")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    lake = tmp_path / "run" / "telemetry"
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if len(list(lake.glob("broker_samples/**/part-*.parquet"))) >= 2:
                break
            time.sleep(0.1)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    listing = list_table(str(lake), TABLES["broker_samples"]).require()
    assert listing.skipped == []
    newest = max(table(lake, "broker_samples").column("ts").to_pylist())
    assert time.time() - newest.timestamp() < 15, "at most the last few seconds are lost"
    assert TOPIC_RATES.name not in [p.name for p in lake.iterdir()], "nobody published anything"
    assert asyncio.run(gateway_status(chain.launched.endpoints["denver"])) is not None
