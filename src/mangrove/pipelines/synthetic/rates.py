"""Synthetic `topic_rates` with known parameters, from thousands to hundreds of millions of rows.

In peak hours a topic's count in a second is

    μ·(1 + v·(√ρ·z_group + √(1−ρ)·z_own)) + burst,    rounded, never below zero

with standard normal z's, so means and covariances are known in closed form. Off peak everything is scaled
down along a cosine of the day. Faults come on request, and none of them changes the true parameters when the
reader treats them as documented: files copied, rows repeated in a late file, rows with a negative count from
a reset counter, whole minutes without rows at night, damaged files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from mangrove.errors import InputError
from mangrove.lake.schemas import arrow_schema
from mangrove.lake.writer import write_whole
from mangrove.model.telemetry import TOPIC_RATES

FloatArray = NDArray[np.float64]

START = datetime(2026, 3, 2, tzinfo=UTC)
PEAKS_H = ((9, 11), (14, 16))
GAP_AT_H = 3
GAP_S = 600


@dataclass(frozen=True, slots=True)
class SyntheticRates:
    """What to generate."""

    topics: int = 20
    seconds: int = 86400
    seed: int = 1
    start: datetime = START
    domains: tuple[str, ...] = ("seattle",)
    brokers: int = 2
    group_size: int = 4
    correlation: float = 0.6
    variation: float = 0.15
    burst_probability: float = 0.002
    burst_size: float = 2.0
    off_peak: float = 0.4
    daily: bool = True
    file_s: int = 600
    copied_files: int = 0
    late_rows: int = 0
    reset_rows: int = 0
    damaged_files: int = 0
    gap: bool = False

    def __post_init__(self) -> None:
        bad = [
            name
            for name in ("topics", "seconds", "brokers", "group_size", "file_s")
            if getattr(self, name) < 1
        ]
        if bad:
            raise InputError(f"{bad[0]}: {getattr(self, bad[0])}; one or more is needed")

    @property
    def rows(self) -> int:
        """Rows of all domains, faults aside."""
        return self.topics * self.seconds * len(self.domains)


@dataclass(frozen=True, slots=True)
class Truth:
    """The parameters behind the rows, at peak, in the order of topic names."""

    topics: tuple[str, ...]
    mean_rate: FloatArray
    covariance: FloatArray
    replication: NDArray[np.int64]
    filters: NDArray[np.int64]
    message_bytes: NDArray[np.int64]


def truth(spec: SyntheticRates) -> Truth:
    """The true parameters; the same for every domain."""
    base = _base(spec)
    p, size = spec.burst_probability, spec.burst_size
    deviation = spec.variation * base
    group = np.arange(spec.topics) // spec.group_size
    same = group[:, None] == group[None, :]
    covariance = np.where(same, spec.correlation, 0.0) * np.outer(deviation, deviation)
    own = deviation**2 + p * (1 - p) * (size * base) ** 2 + 1.0 / 12.0
    np.fill_diagonal(covariance, own)
    numbers = np.arange(spec.topics)
    return Truth(
        topics=topic_names(spec.topics),
        mean_rate=base * (1 + p * size),
        covariance=covariance,
        replication=1 + numbers % 5,
        filters=1 + numbers % 3,
        message_bytes=64 + 16 * (numbers % 20),
    )


def topic_names(count: int) -> tuple[str, ...]:
    """Names whose order is their number's."""
    return tuple(f"plant.line{number // 100:03d}.sensor{number % 100:02d}" for number in range(count))


def generate(
    spec: SyntheticRates, lake: Path, progress: Callable[[int], None] = lambda _: None
) -> list[Path]:
    """Write the lake; returns the files. Nothing may be there before."""
    if lake.exists() and any(lake.iterdir()):
        raise InputError(f"{lake} is not empty", hint="give a new directory")
    written: list[Path] = []
    for number, domain in enumerate(spec.domains):
        rng = np.random.default_rng([spec.seed, number])
        for path, table in rate_tables(spec, domain, lake, rng):
            write_whole(table, path)
            written.append(path)
            progress(table.num_rows)
        written += _faults(spec, domain, lake, written, rng)
    return written


def daily_factor(spec: SyntheticRates, second_of_day: NDArray[np.int64]) -> FloatArray:
    """The load by time of day: 1 in the peaks, at most 0.6 + … outside."""
    if not spec.daily:
        return np.ones(len(second_of_day))
    hour = second_of_day / 3600.0
    factor = spec.off_peak * (1.0 - 0.5 * np.cos(2 * np.pi * (hour - 1.0) / 24.0))
    for start, end in PEAKS_H:
        factor[(hour >= start) & (hour < end)] = 1.0
    return np.asarray(factor)


def _base(spec: SyntheticRates) -> FloatArray:
    rng = np.random.default_rng([spec.seed, 77])
    return np.rint(np.exp(rng.normal(np.log(120.0), 0.6, spec.topics))) + 20.0


def rate_tables(
    spec: SyntheticRates, domain: str, lake: Path, rng: np.random.Generator
) -> Iterator[tuple[Path, pa.Table]]:
    """The rows of one domain, faults aside, each file's with its path."""
    facts = truth(spec)
    base = _base(spec)
    topics = pa.array(facts.topics)
    brokers = pa.array([f"{domain}-edge{number + 1}" for number in range(spec.brokers)])
    groups = np.arange(spec.topics) // spec.group_size
    start_s = int(spec.start.timestamp())
    for offset in range(0, spec.seconds, spec.file_s):
        seconds = np.arange(
            start_s + offset, start_s + min(offset + spec.file_s, spec.seconds), dtype=np.int64
        )
        if spec.gap:
            into = seconds % 86400 - GAP_AT_H * 3600
            seconds = seconds[(into < 0) | (into >= GAP_S)]
        if not len(seconds):
            continue
        # A file must not span midnight: its rows belong to one date.
        for day in np.unique(seconds // 86400):
            part = seconds[seconds // 86400 == day]
            counts = _counts(spec, base, groups, part, rng)
            yield _path(lake, domain, part), _table(spec, facts, topics, brokers, domain, part, counts)


def _counts(
    spec: SyntheticRates,
    base: FloatArray,
    groups: NDArray[np.int64],
    seconds: NDArray[np.int64],
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    shape = (len(seconds), spec.topics)
    own = rng.standard_normal(shape, dtype=np.float32)
    shared = rng.standard_normal((len(seconds), int(groups.max()) + 1), dtype=np.float32)
    noise = np.sqrt(spec.correlation) * shared[:, groups] + np.sqrt(1 - spec.correlation) * own
    burst = rng.random(shape, dtype=np.float32) < spec.burst_probability
    factor = daily_factor(spec, seconds % 86400)[:, None]
    rates = base * factor * (1.0 + spec.variation * noise + spec.burst_size * burst)
    return np.asarray(np.maximum(np.rint(rates), 0), dtype=np.int64)


def _table(
    spec: SyntheticRates,
    facts: Truth,
    topics: pa.Array,
    brokers: pa.Array,
    domain: str,
    seconds: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> pa.Table:
    topic = np.tile(np.arange(spec.topics, dtype=np.int32), len(seconds))
    msgs_in = counts.reshape(-1)
    msgs_out = msgs_in * facts.replication[topic]
    size = facts.message_bytes[topic]
    columns = [
        pa.array(np.repeat(seconds, spec.topics) * 1_000_000).cast(pa.timestamp("us", tz="UTC")),
        pa.DictionaryArray.from_arrays(np.zeros(len(topic), dtype=np.int32), pa.array([domain])),
        pa.DictionaryArray.from_arrays(topic % spec.brokers, brokers),
        pa.DictionaryArray.from_arrays(topic, topics),
        pa.array(msgs_in),
        pa.array(msgs_in * size),
        pa.array(msgs_out),
        pa.array(msgs_out * size),
        pa.array(facts.replication[topic]),
        pa.array(facts.filters[topic]),
    ]
    schema = arrow_schema(TOPIC_RATES)
    return pa.table(columns, names=schema.names).replace_schema_metadata(schema.metadata)


def _path(lake: Path, domain: str, seconds: NDArray[np.int64]) -> Path:
    first = datetime.fromtimestamp(int(seconds[0]), UTC)
    folder = lake / TOPIC_RATES.name / f"date={first.date().isoformat()}" / f"domain={domain}"
    return folder / f"rates-{first:%H%M%S}.parquet"


def _faults(
    spec: SyntheticRates, domain: str, lake: Path, written: list[Path], rng: np.random.Generator
) -> Iterator[Path]:

    own = [path for path in written if path.parent.name == f"domain={domain}"]
    for number in range(min(spec.copied_files, len(own))):
        original = own[number * len(own) // spec.copied_files]
        copy = original.with_name(f"copy-{number}-{original.name}")
        copy.write_bytes(original.read_bytes())
        yield copy
    late: list[pa.Table] = []
    if spec.late_rows:
        some = pq.read_table(own[len(own) * 10 // 24], partitioning=None)
        rows = rng.choice(some.num_rows, size=min(spec.late_rows, some.num_rows), replace=False)
        late.append(some.take(pa.array(np.sort(rows))))
    if spec.reset_rows:
        some = pq.read_table(own[-1], partitioning=None).slice(0, spec.reset_rows)
        place = some.schema.get_field_index("msgs_in")
        late.append(
            some.set_column(place, "msgs_in", pa.array(np.full(some.num_rows, -12345, dtype=np.int64)))
        )
    for number, table in enumerate(late):
        path = own[-1].with_name(f"late-{number}.parquet")
        write_whole(table, path)
        yield path
    for number in range(spec.damaged_files):
        path = own[-1].with_name(f"damaged-{number}.parquet")
        path.write_bytes(own[-1].read_bytes()[: 1000 + number])
        yield path
