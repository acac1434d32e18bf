"""One message over three gateways is one trace: published, each hop with its wait, delivered."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kit.running import Running
from tests.kit.trace_collector import TraceCollector
from tests.kit.waiting import eventually

import mangrove
from mangrove.config import parse_federation
from mangrove.testbed.local_federation import LocalFederation

LINE = """
federation: line
domains:
  seattle: {}
  denver:  {}
  orlando: {}
links:
  - {between: [seattle, denver], delay_ms: 2}
  - {between: [denver, orlando], delay_ms: 2}
topics:
  - {match: "alert.>", deadline_ms: 500}
"""


async def test_a_message_has_a_span_for_every_hop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    federation = parse_federation(LINE, "line").require()
    with TraceCollector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint)
        monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_on")
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "200")
        async with LocalFederation(federation, tmp_path / "line", agents=False, ephemeral=True) as launched:
            running = Running(launched)
            await running.links_up()
            async with (
                await mangrove.connect(running.head("seattle")) as publisher,
                await mangrove.connect(running.head("orlando")) as subscriber,
            ):
                subscription = await subscriber.subscribe("alert.fire")
                await running.knows_interest("seattle", "orlando", 1)
                await publisher.publish("alert.fire", b"smoke", headers={"colour": "red"})
                message = await subscription.next(10)
                assert message.headers["colour"] == "red"
                context = message.headers["traceparent"].split("-")

                async def complete() -> bool:
                    return len(collector.of(context[1])) >= 5

                await eventually(complete, "all spans should be collected")
        spans = sorted(collector.of(context[1]), key=lambda span: span.start_ns)
        assert sorted(span.name for span in spans) == [
            "denver to orlando",
            "orlando delivers",
            "publish alert.fire",
            "receive alert.fire",
            "seattle to denver",
        ]
        by_name = {span.name: span for span in spans}
        first = by_name["publish alert.fire"]
        assert (first.span_id, first.parent_id) == (context[2], "")
        assert {span.parent_id for span in spans if span is not first} == {first.span_id}
        assert len({span.span_id for span in spans}) == 5
        hop = by_name["denver to orlando"]
        assert hop.service == "mangrove-gateway"
        assert hop.attributes["mangrove.from"] == "seattle"
        assert hop.attributes["mangrove.contract"] == "alert.>"
        waited_ms = hop.attributes["mangrove.wait_ms"]
        assert isinstance(waited_ms, float)
        assert 0 <= waited_ms <= (hop.end_ns - hop.start_ns) / 1e6 + 0.001
        decisions = [span for span in collector.spans if "mangrove.event" in span.attributes]
        assert decisions, "what gateways decide is traced as well"
