"""The recorder: when its tap may listen, and what it says of rows that were lost."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest
from tests.kit.waiting import eventually

from mangrove.agent.recorder.domain_recorder import TAP_REST_S, DomainRecorder
from mangrove.agent.recorder.recorder import Recorder
from mangrove.config import parse_federation
from mangrove.model.endpoints import fixed_endpoints
from mangrove.model.hosting.broker_status import BrokerStatus
from mangrove.model.status import DomainStatus
from mangrove.model.telemetry import Table


class Rows:
    """A sink that keeps rows in memory."""

    def __init__(self) -> None:
        self.rows: list[Mapping[str, object]] = []
        self.refused = 0

    def add(self, table: Table, rows: Sequence[Mapping[str, object]]) -> None:
        self.rows += rows

    def flush(self) -> None:
        pass

    def take_refused(self) -> int:
        refused, self.refused = self.refused, 0
        return refused

    def close(self, merge_until: float | None = None) -> None:
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


async def test_rows_that_could_not_be_kept_are_an_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mangrove.agent.recorder.recorder.FLUSH_S", 0.01)
    federation = parse_federation("federation: f\ndomains:\n  a: {edges: 1}\n", "f").require()
    sink = Rows()
    sink.refused = 12
    recorder = Recorder(federation, [fixed_endpoints(federation.domains["a"])], sink)
    await recorder.start()

    async def told() -> bool:
        return "rows_lost" in [row["kind"] for row in sink.rows if "kind" in row]

    await eventually(told, "it should be told")
    await recorder.stop()
    kinds = [row["kind"] for row in sink.rows if "kind" in row]
    assert kinds[0] == "recorder_started"
    assert kinds[-1] == "recorder_stopped"
    (lost,) = [row for row in sink.rows if row.get("kind") == "rows_lost"]
    assert lost["detail"] == "12 rows of all domains"


class BrokenSink(Rows):
    """A sink with a fault that nobody foresaw."""

    def flush(self) -> None:
        raise ValueError("not foreseen")


async def test_an_error_that_nobody_expected_ends_the_recorder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mangrove.agent.recorder.recorder.FLUSH_S", 0.01)
    federation = parse_federation("federation: f\ndomains:\n  a: {edges: 1}\n", "f").require()
    recorder = Recorder(federation, [fixed_endpoints(federation.domains["a"])], BrokenSink())
    await recorder.start()
    with pytest.raises(ValueError, match="not foreseen"):
        await asyncio.wait_for(recorder.run(), 10)
    await recorder.stop()
