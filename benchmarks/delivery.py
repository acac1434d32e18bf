"""What a gateway tells of the time from publish to delivery, beside what subscribers measure.

Two sites are joined by an emulated link of 10 ms. A plain client publishes at the head of one; subscribers
listen at the head of the other and at its edge, each to a topic of its own. The gateway knows when a message
came from its own head broker and how long it was on the way; what it was inside both sites is estimated by
markers. The subscriber knows all of it: the time of sending is in the message, and both read one clock.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

import msgspec
from rich.console import Console

from mangrove.agent.inspection import gateway_status, wait_for_interest
from mangrove.cli.running import run_async
from mangrove.cli.tables.table import Table, name_column, number_column
from mangrove.config import parse_federation
from mangrove.errors import MangroveError
from mangrove.model.endpoints import BrokerEndpoints
from mangrove.testbed.accounting import Span, figures
from mangrove.testbed.load import PLAIN_OPTIONS, BrokerAddress
from mangrove.testbed.local_federation import LocalFederation
from mangrove.testbed.probe_traffic import ProbeTopic, ProbeTraffic

DELAY_MS = 10.0
DEADLINE_MS = 500.0
RATE_MSG_S = 200.0
SECONDS = 10.0
QUICK_SECONDS = 5.0
PROBED_S = 4.0
"""So long the sites measure themselves before anything is compared."""
BAR_MS = 5.0
PLACES = ("head", "edge")

PAIR = f"""
federation: pair
domains: {{a: {{edges: 1}}, b: {{edges: 1}}}}
links: [{{between: [a, b], delay_ms: {DELAY_MS}}}]
topics:
  - {{match: probe.head, deadline_ms: {DEADLINE_MS}}}
  - {{match: probe.edge, deadline_ms: {DEADLINE_MS}}}
"""


class Row(msgspec.Struct, frozen=True):
    """One subscriber: the median that it measured, and what the gateway told."""

    measured_ms: float
    told_ms: float
    ingress_ms: float
    egress_ms: float

    @property
    def difference_ms(self) -> float:
        """By how much the gateway is wrong."""
        return self.told_ms - self.measured_ms


def run(seed: int, quick: bool) -> dict[str, object]:
    """One run. The seed is the emulator's; the link has neither jitter nor loss."""
    seconds = QUICK_SECONDS if quick else SECONDS
    with tempfile.TemporaryDirectory(prefix="mangrove-bench-") as directory:
        rows = run_async(_run(Path(directory), seconds, seed), asyncio.new_event_loop)
    return {"seed": seed, "seconds": seconds, "delay_ms": DELAY_MS, "rows": msgspec.to_builtins(rows)}


async def _run(directory: Path, seconds: float, seed: int) -> dict[str, Row]:
    federation = parse_federation(PAIR, "pair").require()
    async with LocalFederation(
        federation, directory / "pair", ephemeral=True, seed=seed, agents=False
    ) as pair:
        source, target = pair.endpoints["a"], pair.endpoints["b"]
        listeners = dict(zip(PLACES, (target.head, target.edges[0]), strict=True))
        topics = [
            ProbeTopic(f"probe.{place}", RATE_MSG_S, _address(broker)) for place, broker in listeners.items()
        ]
        await asyncio.sleep(PROBED_S)
        async with ProbeTraffic(_address(source.head), topics) as probes:
            await probes.subscribe()
            if not await wait_for_interest(pair.runtime(), {"b": len(topics)}):
                raise MangroveError("the subscriptions did not reach all sites")
            await probes.publish()
            await asyncio.sleep(seconds)
            # The gateway's figure is smoothed over the last messages: so is what it is compared with.
            until = time.monotonic_ns()
            here, there = await gateway_status(source), await gateway_status(target)
            records = await probes.collect()
        if here is None or there is None:
            raise MangroveError("a gateway does not answer")
        told = {arrival.topic: arrival.observed_ms for arrival in there.arrivals}
        last = Span(until - int(1e9), until)
        return {
            place: Row(
                figures(records[f"probe.{place}"], last, DEADLINE_MS).p50_ms or 0.0,
                told[f"probe.{place}"],
                here.inside.ingress_ms or 0.0,
                max(there.inside.egress_ms.values(), default=0.0),
            )
            for place in PLACES
        }


def _address(broker: BrokerEndpoints) -> BrokerAddress:
    return (broker.host, broker.client_port, PLAIN_OPTIONS)


def _rows(result: dict[str, object]) -> dict[str, Row]:
    return msgspec.convert(result["rows"], dict[str, Row])


def missed(result: dict[str, object]) -> list[str]:
    """What the gateway tells must be what subscribers see."""
    return [
        f"subscriber at the {place}: {row.measured_ms:.1f} ms measured, {row.told_ms:.1f} ms told"
        for place, row in _rows(result).items()
        if abs(row.difference_ms) >= BAR_MS
    ]


def render(result: dict[str, object], console: Console) -> None:
    """One row for each subscriber."""
    table = Table(
        f"From publish to delivery over a link of {result['delay_ms']:g} ms",
        name_column("subscriber at"),
        *map(number_column, ("measured ms", "told ms", "difference ms", "of it in", "of it out")),
    )
    for place, row in _rows(result).items():
        numbers = (row.measured_ms, row.told_ms, row.difference_ms, row.ingress_ms, row.egress_ms)
        table.add(place, *(f"{number:.1f}" for number in numbers))
    table.show(console)
    console.print(f"the gateway may differ by {BAR_MS:g} ms. Seed {result['seed']}.")
