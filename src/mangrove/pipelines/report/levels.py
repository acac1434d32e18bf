"""What was promised and what was kept, hour by hour, on the page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from mangrove.pipelines.report.charts import tiles
from mangrove.pipelines.report.page import Section, figure, table
from mangrove.pipelines.report.summary import read_summary

MAX_TOPICS = 30
MAX_HOURS = 24 * 14
READ = ["start", "domain", "topic", "delivered", "dropped", "in_time_ratio"]


@dataclass(slots=True)
class Hour:
    """An hour of a topic in a domain, by whatever routes it came."""

    delivered: int = 0
    judged: int = 0
    """Messages, dropped ones among them, of which it is known what share was in time."""
    in_time: float = 0.0

    def add(self, delivered: int, dropped: int, ratio: float | None) -> None:
        """A route's."""
        self.delivered += delivered
        if ratio is not None:
            self.judged += delivered + dropped
            self.in_time += ratio * (delivered + dropped)

    @property
    def ratio(self) -> float | None:
        """What share was in time; None: nothing was measured."""
        return self.in_time / self.judged if self.judged else None


Hours = dict[datetime, Hour]


def service_levels(directory: Path) -> Section:
    """`slo`: hours and topics in time, the worst, and what was unusual."""
    summary = read_summary(directory)
    target = summary["target"]
    found = _hours(directory)
    worst = sorted(found, key=lambda topic: _worst(found[topic]))[:MAX_TOPICS]
    starts = sorted({start for hours in found.values() for start in hours})[-MAX_HOURS:]

    def share(hour: Hour | None) -> float | None:
        if hour is None or hour.ratio is None:
            return None
        late, allowed = 1.0 - hour.ratio, max(1.0 - target, 1e-9)
        return 1.0 if late <= allowed else max(0.0, 1.0 - np.log10(late / allowed) / 3.0)

    def hover(domain: str, topic: str, start: datetime) -> str:
        hour = found[domain, topic].get(start)
        if hour is None:
            return ""
        in_time = "nothing measured" if hour.ratio is None else f"{hour.ratio:.3%} in time"
        return f"{topic} in {domain}\n{_when(start)}: {in_time}, {hour.delivered:,} delivered"

    drawing = tiles(
        [f"{topic} · {domain}" for domain, topic in worst],
        [_when(start) for start in starts],
        [[share(found[place].get(start)) for start in starts] for place in worst],
        [[hover(*place, start) for start in starts] for place in worst],
    )
    more = f" {len(worst)} of {len(found)} topics, worst first." if len(worst) < len(found) else ""
    body = (
        f"<p>Target: {target:.3%} in time.</p>"
        + figure(
            drawing,
            "Each hour of each topic in a domain, all routes together: red misses the target, darker by "
            f"more.{more}",
        )
        + table(
            summary["routes"],
            ["domain", "topic", "route", "delivered", "in_time_ratio", "budget_burn", "p50_ms", "p99_ms"],
        )
        + "<h3>Worst hours</h3>"
        + table(
            summary["worst_hours"],
            ["start", "domain", "topic", "route", "in_time_ratio", "budget_burn", "p99_ms"],
        )
        + "<h3>Anomalies</h3>"
        + table(
            summary["anomalies"],
            ["start", "minutes", "kind", "domain", "subject", "value", "usual"],
            limit=30,
        )
    )
    return Section("Service levels", body)


def _hours(directory: Path) -> dict[tuple[str, str], Hours]:
    """By domain and topic: a window is of one route, contract and deadline, and an hour may have several."""
    found: dict[tuple[str, str], Hours] = {}
    windows = pq.read_table(directory / "windows.parquet", columns=READ)
    for start, domain, topic, delivered, dropped, ratio in zip(
        *(windows[name].to_pylist() for name in READ), strict=True
    ):
        hours = found.setdefault((domain, topic), {})
        hours.setdefault(start, Hour()).add(delivered, dropped, ratio)
    return found


def _worst(hours: Hours) -> float:
    return min((hour.ratio for hour in hours.values() if hour.ratio is not None), default=1.0)


def _when(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M}"
