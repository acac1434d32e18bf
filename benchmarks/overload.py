"""Topics with tight deadlines on a link loaded at twice its bandwidth, beside first in, first out.

Two sites are joined by an emulated link of 20 Mbit/s and 10 ms. Three classes of topics together offer twice
what it carries: `tight` (a deadline of 100 ms; a tenth of the load), `loose` (2 s; three tenths) and
`best effort` (the rest). What has a deadline fits into the link, everything together does not: somebody must
wait, and the question is who.

The run is made twice: as configured, and with a federation file without deadlines, where all classes are
equal. Both are measured against the same deadlines; best effort, which has none, against the loose one.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import msgspec
from rich.console import Console

from mangrove.agent.inspection import gateway_status, wait_for_interest
from mangrove.cli.tables.table import Table, name_column, number_column
from mangrove.config import parse_federation
from mangrove.errors import MangroveError
from mangrove.model.status import Drop
from mangrove.testbed.accounting import Figures, Span, figures
from mangrove.testbed.load import PLAIN_OPTIONS, BrokerAddress
from mangrove.testbed.local_federation import LocalFederation
from mangrove.testbed.probe_traffic import ProbeTopic, ProbeTraffic

BANDWIDTH_MBPS = 20.0
DELAY_MS = 10.0
OVERLOAD = 2.0
SIZE_BYTES = 1000
QUEUE_BYTES = 8 << 20  # three seconds of the link: a run sees it fill up, and what happens then
SECONDS = 20.0
QUICK_SECONDS = 6.0
IN_TIME_BAR = 0.99
CONFIGURED, FIFO = "as configured", "FIFO"


class TopicClass(NamedTuple):
    """A subject, its deadline in the federation file if it has one, and its share of the load."""

    subject: str
    deadline_ms: float | None
    judged_by_ms: float
    load_share: float


CLASSES = {
    "tight": TopicClass("alarm.probe", 100.0, 100.0, 0.1),
    "loose": TopicClass("reading.probe", 2000.0, 2000.0, 0.3),
    "best effort": TopicClass("bulk.probe", None, 2000.0, 0.6),
}

PAIR = f"""
federation: narrow
domains: {{a: {{}}, b: {{}}}}
links:
  - {{between: [a, b], delay_ms: {DELAY_MS}, bandwidth_mbps: {BANDWIDTH_MBPS}}}
queue_bytes: {QUEUE_BYTES}
"""


def run(seed: int, quick: bool) -> dict[str, object]:
    """Both runs, one after the other. The seed is the emulator's; the link has neither jitter nor loss."""
    seconds = QUICK_SECONDS if quick else SECONDS
    runs: dict[str, object] = {}
    for name in (CONFIGURED, FIFO):
        with tempfile.TemporaryDirectory(prefix="mangrove-bench-") as directory:
            runs[name] = asyncio.run(_run(Path(directory), _federation_file(name), seconds, seed))
    return {
        "seed": seed,
        "bandwidth_mbps": BANDWIDTH_MBPS,
        "overload": OVERLOAD,
        "seconds": seconds,
        "runs": runs,
    }


def _federation_file(name: str) -> str:
    if name == FIFO:
        return PAIR
    contracts = [
        f"  - {{match: {kind.subject}, deadline_ms: {kind.deadline_ms}}}\n"
        for kind in CLASSES.values()
        if kind.deadline_ms is not None
    ]
    return PAIR + "topics:\n" + "".join(contracts)


async def _run(directory: Path, text: str, seconds: float, seed: int) -> dict[str, dict[str, object]]:
    federation = parse_federation(text, "narrow").require()
    async with LocalFederation(federation, directory / "narrow", ephemeral=True, seed=seed) as pair:
        publisher, subscriber = (_head(pair, domain) for domain in "ab")
        topics = [
            ProbeTopic(kind.subject, _rate_msg_s(kind), subscriber, SIZE_BYTES) for kind in CLASSES.values()
        ]
        async with ProbeTraffic(publisher, topics) as probes:
            await probes.subscribe()
            if not await wait_for_interest(pair.runtime(), {"b": len(topics)}):
                raise MangroveError("the subscriptions did not reach all sites")
            start = time.monotonic_ns()
            await probes.publish()
            await asyncio.sleep(seconds)
            records = await probes.collect()
        statuses = [await gateway_status(endpoints) for endpoints in pair.endpoints.values()]
    drops = [drop for status in statuses if status is not None for drop in status.drops]
    whole = Span(start, time.monotonic_ns())
    return {
        name: {
            **msgspec.structs.asdict(figures(records[kind.subject], whole, kind.judged_by_ms)),
            "deadline_ms": kind.deadline_ms,
            "dropped": _by_reason(drops, kind.subject),
        }
        for name, kind in CLASSES.items()
    }


def _head(pair: LocalFederation, domain: str) -> BrokerAddress:
    head = pair.endpoints[domain].head
    return (head.host, head.client_port, PLAIN_OPTIONS)


def _rate_msg_s(kind: TopicClass) -> float:
    """The share in messages; a message takes its payload and its line (`LMSG subject size`) on the link."""
    line_bytes = len(f"LMSG {kind.subject} {SIZE_BYTES}\r\n\r\n")
    return kind.load_share * OVERLOAD * BANDWIDTH_MBPS * 1e6 / 8 / (SIZE_BYTES + line_bytes)


def _by_reason(drops: Iterable[Drop], subject: str) -> dict[str, int]:
    reasons: dict[str, int] = {}
    for drop in drops:
        if drop.topic == subject:
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
    ratios = {(row.run, row.name): row.figures.in_time_ratio for row in _rows(result)}
    return ratios[run, "tight"] or 0.0


def missed(result: dict[str, object]) -> list[str]:
    """Tight deadlines must hold as configured, and whatever is lost must be accounted for."""
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
        f"A link of {result['bandwidth_mbps']:g} Mbit/s at {result['overload']:g}× its bandwidth "
        f"for {result['seconds']:g} s",
        name_column("run, class"),
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
    console.print(
        f"tight deadlines in time: {_in_time(result, CONFIGURED):.2%} as configured, "
        f"{_in_time(result, FIFO):.2%} FIFO. Seed {result['seed']}."
    )
