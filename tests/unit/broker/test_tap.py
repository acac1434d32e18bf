"""The tap's counting on its own, and counters across restarts."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import pytest

from mangrove.agent.recorder.counters import ROUNDS_TO_FORGET, Counters
from mangrove.agent.recorder.recorder import TAP_REST_S, DomainRecorder
from mangrove.broker.nats.tap import Slice, Tap, TopicCount
from mangrove.config import parse_federation
from mangrove.model.endpoints import fixed_endpoints
from mangrove.model.status import BrokerStatus, DomainStatus
from mangrove.model.telemetry import Table


class Wire:
    """Stands in for a socket: keeps what is written."""

    def __init__(self) -> None:
        self.written = b""

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        pass


def tap_on(*patterns: str, budget: int = 1000) -> tuple[Tap, Wire]:
    tap, wire = Tap("nats://127.0.0.1:4222", budget), Wire()
    tap.connection_made(wire)  # type: ignore[arg-type]
    tap.follow(patterns)
    return tap, wire


def test_a_message_that_several_patterns_match_counts_once() -> None:
    tap, wire = tap_on("a.*", "*.b", "a.b")
    assert wire.written == b"SUB *.b 1\r\nSUB a.* 2\r\n", "a.b is covered by a.*"
    tap.data_received(b"MSG a.b 1 3\r\nxyz\r\nMSG a.b 2 3\r\nxyz\r\nMSG a.c 2 2\r\nxy\r\n")
    seen = tap.take()
    assert {topic: count.messages for topic, count in seen.topics.items()} == {"a.b": 1, "a.c": 1}
    assert seen.topics["a.b"].size_bytes == 3


def test_messages_cut_anywhere_are_counted_and_stamps_read() -> None:
    header = b"NATS/1.0\r\nMangrove-Time: %d\r\n\r\n" % (time.time_ns() - 5_000_000)
    message = b"HMSG a %d %d %d\r\n%bxx\r\n" % (1, len(header), len(header) + 2, header)
    for cut in range(1, len(message)):
        tap, _ = tap_on("a")
        tap.data_received(b"PING\r\n" + message[:cut])
        tap.data_received(message[cut:] + message)
        (count,) = tap.take().topics.values()
        assert count.messages == 2
        assert all(5.0 <= latency < 1000.0 for latency in count.latencies_ms)
        assert sum(count.histogram()) == 2


def test_the_budget_ends_the_slice_and_the_count_is_scaled() -> None:
    tap, wire = tap_on("a", budget=10)
    tap.data_received(b"MSG a 1 1\r\nx\r\n" * 11)
    assert wire.written.endswith(b"UNSUB 1\r\n")
    tap.follow(["a"])
    assert wire.written.endswith(b"SUB a 2\r\n"), "the next second has a new budget"
    assert Slice(0.25, {}).scaled(10) == 40
    assert Slice(0.25, {"a": TopicCount(100)}).error_ratio == pytest.approx((0.75 / 100) ** 0.5)
    assert Slice(0.0, {}).error_ratio is None


def test_resting_asks_for_nothing() -> None:
    tap, wire = tap_on("a")
    tap.rest()
    assert wire.written.endswith(b"UNSUB 1\r\n")
    assert tap.take().share == 0.0


def test_counters_that_are_reset_start_anew() -> None:
    counters = Counters()
    assert counters.since("in", 100) == 0
    assert counters.since("in", 130) == 30
    assert counters.since("in", 5) == 5
    assert counters.resets == 1
    assert counters.since_known("old", 1000) == 0, "it was there before the recorder"
    counters.sweep()
    assert counters.since_known("new", 7) == 7
    assert counters.since_known("old", 1003) == 3
    for _ in range(2 * ROUNDS_TO_FORGET):
        counters.sweep()
    assert counters.since("in", 9) == 0, "what was not seen for long is forgotten"


class Rows:
    """A sink that keeps rows in memory."""

    def __init__(self) -> None:
        self.rows: list[Mapping[str, object]] = []

    def add(self, table: Table, rows: Sequence[Mapping[str, object]]) -> None:
        self.rows += rows

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass


async def test_the_tap_rests_while_the_head_broker_is_busy() -> None:
    federation = parse_federation("federation: f\ndomains:\n  a: {edges: 1}\n", "f").require()
    sink = Rows()
    recorder = DomainRecorder(federation, fixed_endpoints(federation.domains["a"]), sink, cores=2)

    def status(cpu_percent: float) -> DomainStatus:
        head = BrokerStatus(name="a-head", role="head", url="", reachable=True, cpu_percent=cpu_percent)
        return DomainStatus(domain="a", brokers=(head,), gateway=None)

    assert recorder.tap_may_listen(status(139.0))
    assert not recorder.tap_may_listen(status(141.0))
    rested = 1
    while not recorder.tap_may_listen(status(10.0)):
        rested += 1
    assert rested == TAP_REST_S
    assert [row["kind"] for row in sink.rows] == ["tap_off", "tap_on"]
