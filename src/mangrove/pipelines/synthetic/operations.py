"""Synthetic broker and link samples, deliveries and events with known failure rates and latencies.

Each broker and link alternates between up and down with exponential times of known mean; latencies are
log-normal. One domain's topic can be made late for an hour, which is what `slo` must find.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mangrove.lake.schemas import arrow_schema
from mangrove.lake.writer import write_whole
from mangrove.model.telemetry import (
    BROKER_SAMPLES,
    DELIVERIES,
    EVENTS,
    LATENCY_BINS,
    LATENCY_BOUNDS_MS,
    LINK_SAMPLES,
    Table,
)
from mangrove.pipelines.synthetic.rates import START

ALERT_DEADLINE_MS = 100.0


@dataclass(frozen=True, slots=True)
class SyntheticOperations:
    """What to generate. Times in seconds."""

    seconds: int = 86400
    seed: int = 1
    start: datetime = START
    domains: tuple[str, ...] = ("seattle", "denver")
    brokers: int = 2
    mean_up_s: float = 3600.0
    mean_down_s: float = 60.0
    median_latency_ms: float = 20.0
    spread: float = 0.5
    """standard deviation of the logarithm of a latency"""
    rate: int = 50
    late_hour: int | None = 10
    """hour in which the first domain's alerts take ten times as long"""


def generate_operations(spec: SyntheticOperations, lake: Path) -> None:
    """Write the tables, a file for each day and domain."""
    rng = np.random.default_rng([spec.seed, 4711])
    start_s = int(spec.start.timestamp())
    second = start_s + np.arange(spec.seconds, dtype=np.int64)
    for domain in spec.domains:
        events: list[dict[str, Any]] = []
        samples = [
            _broker(spec, f"{domain}-edge{number + 1}", domain, second, rng, events)
            for number in range(spec.brokers)
        ]
        _write(lake, BROKER_SAMPLES, domain, _joined(samples))
        _write(lake, DELIVERIES, domain, _deliveries(spec, domain, second, rng))
        if events:
            _write(lake, EVENTS, domain, {n: [e[n] for e in events] for n in events[0]})
    for one, other in pairwise(spec.domains):
        up = _states(spec, len(second), rng)
        for end, peer in ((one, other), (other, one)):
            _write(lake, LINK_SAMPLES, end, _link(end, peer, second, up, rng))


def _states(spec: SyntheticOperations, count: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    up = np.ones(count, dtype=bool)
    now = float(rng.exponential(spec.mean_up_s))
    while now < count:
        end = now + rng.exponential(spec.mean_down_s)
        up[int(now) : max(int(now) + 1, int(end))] = False
        now = end + rng.exponential(spec.mean_up_s)
    return up


def _broker(
    spec: SyntheticOperations,
    name: str,
    domain: str,
    second: NDArray[np.int64],
    rng: np.random.Generator,
    events: list[dict[str, Any]],
) -> dict[str, Any]:
    up = _states(spec, len(second), rng)
    for place in np.flatnonzero(np.diff(up.astype(np.int8))) + 1:
        kind = "broker_up" if up[place] else "broker_down"
        row = {"ts": int(second[place]) * 1_000_000, "domain": domain, "subject": name, "kind": kind}
        events.append(row | {"detail": ""})
    count = len(second)
    load = np.where(up, rng.poisson(1000, count), 0)
    zeros = np.zeros(count, dtype=np.int64)
    return {
        "ts": second * 1_000_000,
        "domain": [domain] * count,
        "broker": [name] * count,
        "role": ["edge"] * count,
        "reachable": up,
        "connections": np.where(up, 10, 0),
        "subscriptions": np.where(up, 40, 0),
        "msgs_in": load,
        "msgs_out": load * 3,
        "bytes_in": load * 200,
        "bytes_out": load * 600,
        "slow_consumers": zeros,
        "memory_bytes": np.where(up, 30_000_000, 0),
        "cpu_percent": np.where(up, 20.0 + rng.normal(0, 1, count), 0.0),
        "tap_share": np.zeros(count),
        "tap_messages": zeros,
        "tap_error_ratio": pa.nulls(count, pa.float64()),
    }


def _link(
    domain: str, peer: str, second: NDArray[np.int64], up: NDArray[np.bool_], rng: np.random.Generator
) -> dict[str, Any]:
    count = len(second)
    frames = np.where(up, rng.poisson(200, count), 0)
    return {
        "ts": second * 1_000_000,
        "domain": [domain] * count,
        "peer": [peer] * count,
        "up": up,
        "frames_out": frames,
        "frames_in": frames,
        "bytes_out": frames * 4000,
        "bytes_in": frames * 4000,
        "queued_bytes": np.zeros(count, dtype=np.int64),
        "reconnects": np.zeros(count, dtype=np.int64),
        "rtt_ms": np.where(up, rng.gamma(4.0, 5.0, count), np.nan),
    }


def _deliveries(
    spec: SyntheticOperations, domain: str, second: NDArray[np.int64], rng: np.random.Generator
) -> dict[str, Any]:
    count = len(second)
    delivered = rng.poisson(spec.rate, count)
    scale = np.full(count, spec.median_latency_ms)
    if spec.late_hour is not None and domain == spec.domains[0]:
        scale[second % 86400 // 3600 == spec.late_hour] *= 10.0
    owner = np.repeat(np.arange(count), delivered)
    latency = np.exp(rng.normal(np.log(scale[owner]), spec.spread))
    place = np.searchsorted(np.array(LATENCY_BOUNDS_MS), latency, side="left")
    histogram = np.bincount(owner * LATENCY_BINS + place, minlength=count * LATENCY_BINS)
    in_time = np.bincount(owner, weights=latency <= ALERT_DEADLINE_MS, minlength=count).astype(np.int64)
    offsets = np.arange(count + 1, dtype=np.int32) * LATENCY_BINS
    return {
        "ts": second * 1_000_000,
        "domain": [domain] * count,
        "topic": ["alert.tsunami"] * count,
        "route": [f"*>{domain}"] * count,
        "contract": ["alert.>"] * count,
        "deadline_ms": np.full(count, ALERT_DEADLINE_MS),
        "delivered": delivered,
        "measured": delivered,
        "in_time": in_time,
        "dropped": np.zeros(count, dtype=np.int64),
        "latency_histogram": pa.ListArray.from_arrays(offsets, pa.array(histogram.astype(np.int64))),
    }


def _joined(parts: list[dict[str, Any]]) -> dict[str, Any]:
    return {name: pa.concat_arrays([pa.array(part[name]) for part in parts]) for name in parts[0]}


def _write(lake: Path, table: Table, domain: str, columns: dict[str, Any]) -> None:
    schema = arrow_schema(table)
    arrays = []
    for field in schema:
        array = pa.array(columns[field.name])
        arrays.append(
            array.cast(pa.int64()).cast(field.type) if field.name == "ts" else array.cast(field.type)
        )
    whole = pa.table(arrays, schema=schema)
    days = np.asarray(whole.column("ts").cast(pa.int64())) // 86_400_000_000
    for day in np.unique(days):
        part = whole.filter(pa.array(days == day))
        date = np.datetime64(int(day), "D")
        folder = lake / table.name / f"date={date}" / f"domain={domain}"
        number = len(list(folder.glob("*.parquet"))) if folder.is_dir() else 0
        write_whole(part, folder / f"samples-{number}.parquet")
