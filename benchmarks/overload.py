"""Mixed deadlines over three hops, each at twice its bandwidth: laxity, budgets, and first in, first out.

Four sites in a row are joined by emulated links of 20 Mbit/s and 10 ms. Messages go the whole way and over
each single hop, some with tight deadlines, some with loose ones, and best effort for the rest. What has a
deadline fits into every link, everything together is twice what it carries: somebody must wait, and the
question is who.

The same load is offered in each order of the queues (`urgency` in the federation file): total laxity, budgets
for each hop by load, and first in, first out. Best effort is measured against the loose deadline.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

import msgspec
from rich.console import Console

from mangrove.agent.inspection import gateway_status, wait_for_interest
from mangrove.cli.running import run_async
from mangrove.cli.tables.table import Table, name_column, number_column
from mangrove.config import parse_federation
from mangrove.errors import MangroveError
from mangrove.model.federation import Urgency
from mangrove.model.status import Drop
from mangrove.testbed.accounting import Figures, Record, Span, figures
from mangrove.testbed.load import PLAIN_OPTIONS, BrokerAddress
from mangrove.testbed.local_federation import LocalFederation
from mangrove.testbed.probe_traffic import ProbeTopic, ProbeTraffic

BANDWIDTH_MBPS = 20.0
DELAY_MS = 10.0
OVERLOAD = 2.0
SIZE_BYTES = 4000
QUEUE_BYTES = 8 << 20  # three seconds of the link: a run sees it fill up, and what happens then
SECONDS = 20.0
QUICK_SECONDS = 6.0
IN_TIME_BAR = 0.99
SITES = "abcd"
ORDERS = {"laxity": Urgency.LAXITY, "budgets": Urgency.BUDGET, "FIFO": Urgency.ARRIVAL}
CONFIGURED, FIFO = "laxity", "FIFO"
"""The default order, and the one that knows no deadlines."""


class TopicClass(NamedTuple):
    """A subject, its deadline in the federation file if it has one, its share of each link's load."""

    subject: str
    deadline_ms: float | None
    judged_by_ms: float
    load_share: float
    hops: tuple[tuple[str, str], ...]
    """From which site to which; the same subject with the source's name behind it."""

    @property
    def streams(self) -> list[tuple[str, str, str]]:
        """Subject, source and destination of every stream."""
        return [(f"{self.subject}.{source}", source, target) for source, target in self.hops]


WHOLE_WAY = (("a", "d"),)
EACH_HOP = (("a", "b"), ("b", "c"), ("c", "d"))
CLASSES = {
    "tight, 3 hops": TopicClass("alarm.far", 300.0, 300.0, 0.05, WHOLE_WAY),
    "tight, 1 hop": TopicClass("alarm.near", 150.0, 150.0, 0.05, EACH_HOP),
    "loose, 3 hops": TopicClass("reading.far", 2000.0, 2000.0, 0.15, WHOLE_WAY),
    "loose, 1 hop": TopicClass("reading.near", 1000.0, 1000.0, 0.15, EACH_HOP),
    "best effort, 1 hop": TopicClass("bulk.near", None, 2000.0, 0.6, EACH_HOP),
}

CHAIN = f"""
federation: narrow
domains: {{a: {{}}, b: {{}}, c: {{}}, d: {{}}}}
links:
  - {{between: [a, b], delay_ms: {DELAY_MS}, bandwidth_mbps: {BANDWIDTH_MBPS}}}
  - {{between: [b, c], delay_ms: {DELAY_MS}, bandwidth_mbps: {BANDWIDTH_MBPS}}}
  - {{between: [c, d], delay_ms: {DELAY_MS}, bandwidth_mbps: {BANDWIDTH_MBPS}}}
queue_bytes: {QUEUE_BYTES}
"""


def run(seed: int, quick: bool) -> dict[str, object]:
    """All runs, one after the other. The seed is the emulator's; the links have neither jitter nor loss."""
    seconds = QUICK_SECONDS if quick else SECONDS
    runs: dict[str, object] = {}
    for name, order in ORDERS.items():
        with tempfile.TemporaryDirectory(prefix="mangrove-bench-") as directory:
            runs[name] = run_async(
                _run(Path(directory), _federation_file(order), seconds, seed), asyncio.new_event_loop
            )
    return {
        "seed": seed,
        "bandwidth_mbps": BANDWIDTH_MBPS,
        "overload": OVERLOAD,
        "seconds": seconds,
        "runs": runs,
    }


def _federation_file(order: Urgency) -> str:
    contracts = [
        f"  - {{match: {kind.subject}.*, deadline_ms: {kind.deadline_ms}}}\n"
        for kind in CLASSES.values()
        if kind.deadline_ms is not None
    ]
    return f"{CHAIN}urgency: {order.value}\ntopics:\n" + "".join(contracts)


async def _run(directory: Path, text: str, seconds: float, seed: int) -> dict[str, dict[str, object]]:
    federation = parse_federation(text, "narrow").require()
    async with LocalFederation(
        federation, directory / "narrow", ephemeral=True, seed=seed, agents=False
    ) as chain:
        topics: dict[str, list[ProbeTopic]] = {}
        wanted = dict.fromkeys(SITES, 0)
        for kind in CLASSES.values():
            for subject, source, target in kind.streams:
                rate = _rate_msg_s(kind, subject)
                topics.setdefault(source, []).append(
                    ProbeTopic(subject, rate, _head(chain, target), SIZE_BYTES)
                )
                wanted[target] += 1
        async with AsyncExitStack() as stack:
            probes = [
                await stack.enter_async_context(ProbeTraffic(_head(chain, source), of_source))
                for source, of_source in topics.items()
            ]
            for each in probes:
                await each.subscribe()
            if not await wait_for_interest(chain.runtime(), wanted):
                raise MangroveError("the subscriptions did not reach all sites")
            start = time.monotonic_ns()
            await asyncio.gather(*(each.publish() for each in probes))
            await asyncio.sleep(seconds)
            for each in probes:
                each.stop_publishing()
            records = {
                subject: record for each in probes for subject, record in (await each.collect()).items()
            }
        statuses = [await gateway_status(endpoints) for endpoints in chain.endpoints.values()]
    drops = [drop for status in statuses if status is not None for drop in status.drops]
    whole = Span(start, time.monotonic_ns())
    return {name: _class_figures(kind, records, whole, drops) for name, kind in CLASSES.items()}


def _class_figures(
    kind: TopicClass, records: dict[str, Record], whole: Span, drops: list[Drop]
) -> dict[str, object]:
    """The worst of a class's streams in time and latency, the sum of what is counted."""
    subjects = [subject for subject, _, _ in kind.streams]
    each = [figures(records[subject], whole, kind.judged_by_ms) for subject in subjects]
    worst = min(each, key=lambda one: one.in_time_ratio or 0.0)
    counted = ("sent", "delivered", "lost", "duplicated", "out_of_order", "late")
    return {
        **msgspec.structs.asdict(worst),
        **{name: sum(getattr(one, name) for one in each) for name in counted},
        "deadline_ms": kind.deadline_ms,
        "dropped": _by_reason(drops, subjects),
    }


def _head(chain: LocalFederation, domain: str) -> BrokerAddress:
    head = chain.endpoints[domain].head
    return (head.host, head.client_port, PLAIN_OPTIONS)


def _rate_msg_s(kind: TopicClass, subject: str) -> float:
    """The share in messages; a message takes its payload and its line (`LMSG subject size`) on the link."""
    line_bytes = len(f"LMSG {subject} {SIZE_BYTES}\r\n\r\n")
    return kind.load_share * OVERLOAD * BANDWIDTH_MBPS * 1e6 / 8 / (SIZE_BYTES + line_bytes)


def _by_reason(drops: Iterable[Drop], subjects: list[str]) -> dict[str, int]:
    reasons: dict[str, int] = {}
    for drop in drops:
        if drop.topic in subjects:
            reasons[drop.reason] = reasons.get(drop.reason, 0) + drop.count
    return reasons


class _Row(NamedTuple):
    run: str
    name: str
    figures: Figures
    dropped: dict[str, int]


def _rows(result: dict[str, object]) -> list[_Row]:
    runs = msgspec.convert(result["runs"], dict[str, dict[str, dict[str, object]]])
    return [
        _Row(run, name, msgspec.convert(row, Figures), msgspec.convert(row["dropped"], dict[str, int]))
        for run, classes in runs.items()
        for name, row in classes.items()
    ]


def _in_time(result: dict[str, object], run: str) -> float:
    """The worst of the tight classes of a run."""
    return min(
        row.figures.in_time_ratio or 0.0
        for row in _rows(result)
        if row.run == run and row.name.startswith("tight")
    )


def missed(result: dict[str, object]) -> list[str]:
    """Tight deadlines must hold in the default order, and whatever is lost must be accounted for."""
    lines = [
        f"{row.run}, {row.name}: {row.figures.lost:,} lost, {sum(row.dropped.values()):,} counted as dropped"
        for row in _rows(result)
        if row.figures.lost != sum(row.dropped.values())
    ]
    ratio = _in_time(result, CONFIGURED)
    if ratio <= IN_TIME_BAR:
        lines.append(
            f"{CONFIGURED}: {ratio:.2%} of the messages with tight deadlines in time, not {IN_TIME_BAR:.0%}"
        )
    return lines


def render(result: dict[str, object], console: Console) -> None:
    """One table, a section for each run, and the drops below it."""
    table = Table(
        f"Three links of {result['bandwidth_mbps']:g} Mbit/s at {result['overload']:g}× their bandwidth "
        f"for {result['seconds']:g} s",
        name_column("order, class"),
        *map(number_column, ("sent", "delivered", "in time", "p50 ms", "p99 ms", "dropped")),
    )
    before = ""
    for row in _rows(result):
        if row.run != before:
            table.section(row.run)
            before = row.run
        found = row.figures
        table.add(
            f"  {row.name}",
            f"{found.sent:,}",
            f"{found.delivered:,}",
            "–" if found.in_time_ratio is None else f"{found.in_time_ratio:.1%}",
            "–" if found.p50_ms is None else f"{found.p50_ms:,.0f}",
            "–" if found.p99_ms is None else f"{found.p99_ms:,.0f}",
            f"{sum(row.dropped.values()):,}",
        )
    table.show(console)
    for row in _rows(result):
        for reason, count in row.dropped.items():
            console.print(f"{row.run}, {row.name}: {count:,} dropped: {reason}")
    told = ", ".join(f"{_in_time(result, name):.2%} {name}" for name in ORDERS)
    console.print(f"tight deadlines in time, the worst stream: {told}. Seed {result['seed']}.")
