"""`profile`: from `topic_rates` to an allocation problem.

Two passes over the files. The first finds streams, busy minutes and faults; the second adds up a Gram
matrix over the windows of the peak periods. Everything after that is small and happens in the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from mangrove.errors import InputError
from mangrove.lake.files import Skipped, list_table
from mangrove.model.federation import Federation
from mangrove.model.plans.topology import hosts_of, topology_fingerprint
from mangrove.model.telemetry import TOPIC_RATES
from mangrove.model.topics import Mirror
from mangrove.pipelines.output import output_directory, write_json, write_parquet
from mangrove.pipelines.rates import items as grouping
from mangrove.pipelines.rates.blocks import FloatArray, Periods
from mangrove.pipelines.rates.gram import Plan, collect_sums
from mangrove.pipelines.rates.peaks import Span, clock, find_peaks, periods
from mangrove.pipelines.rates.scan import Scan, scan
from mangrove.pipelines.rates.statistics import RateStatistics, semidefinite, statistics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOB = "profile"
# A Gram matrix of more topics than this does not fit beside others in a worker's memory.
MAX_TOPICS = 6000


@dataclass(frozen=True, slots=True)
class Brokers:
    """What the items are to be allocated to: capacities in messages per second, or a model of the brokers."""

    names: tuple[str, ...]
    capacity: tuple[float, ...] | None = None
    model: Mapping[str, float] | None = None
    max_risk: float | None = None
    federation: Federation | None = None
    """Whose brokers they are, if a file says so."""
    domain: str = ""
    """Of which domain all of them are, if they are of one."""

    def fields(self) -> dict[str, object]:
        """Their part of a problem document."""
        fields: dict[str, object] = {"brokers": list(self.names)}
        if self.model is not None:
            fields["model"] = dict(self.model)
        else:
            fields["capacity"] = list(self.capacity or ())
        if self.max_risk is not None:
            fields["constraints"] = {"max_risk": self.max_risk}
        return fields

    def origin(self, topics: Mapping[str, Sequence[str]]) -> dict[str, object]:
        """What an answer must carry to be put in force: for whom it is, and what contracts ask of items."""
        fields: dict[str, object] = {"topics": {item: list(each) for item, each in topics.items()}}
        if self.federation is None:
            return fields
        rules = self.federation.topics
        modes = {item: [rules.contract_of(topic).mirror for topic in each] for item, each in topics.items()}
        fields["federation"] = self.federation.name
        fields["mirrored"] = {
            item: max(asked, key=list(Mirror).index).value for item, asked in modes.items() if any(asked)
        }
        if not self.domain:
            return fields
        hosts: dict[str, list[str]] = {}
        for broker, host in hosts_of(self.federation, self.domain).items():
            if broker in self.names:
                hosts.setdefault(host, []).append(broker)
        if all(hosts):
            fields["hosts"] = hosts
        topology = topology_fingerprint(self.federation, self.domain)
        return {**fields, "domain": self.domain, "topology": topology}


@dataclass(frozen=True, slots=True)
class ProfileSettings:
    """What the user may choose."""

    peak: tuple[Span, ...] | None = None
    """None: found"""
    window_s: int = 1
    domains: frozenset[str] | None = None
    shrinkage: float | None = None
    """None: estimated for short histories"""
    groups: Mapping[str, Sequence[str]] | None = None
    cluster: bool = False


@dataclass(frozen=True, slots=True)
class Profile:
    """Everything that the job found."""

    topics: list[tuple[str, str]]
    statistics: RateStatistics
    members: dict[str, list[int]]
    peaks: dict[str, tuple[Span, ...]]
    periods: Periods
    rows: int
    data_until: int
    """Seconds since 1970, after the last row."""
    repeated: int
    empty_windows_in_blocks_without_rows: int
    skipped: list[Skipped]
    warnings: list[str] = field(default_factory=list)

    def problem(self, brokers: Brokers) -> dict[str, object]:
        """The allocation problem, as `mangrove plan allocate` reads it."""
        figures = self.statistics
        matrix = grouping.membership(self.members, len(self.topics))
        mean = matrix @ figures.mean_rate
        grouped = len(self.members) < len(self.topics)
        covariance = matrix @ figures.covariance @ matrix.T if grouped else figures.covariance

        def weighted(values: FloatArray) -> list[float]:
            """Average over an item's topics by rate; plain where none has any."""
            total = matrix @ (values * figures.mean_rate)
            plain = (matrix @ values) / matrix.sum(axis=1)
            return [float(v) for v in np.where(mean > 0, total / np.where(mean > 0, mean, 1.0), plain)]

        return {
            "items": list(self.members),
            "mean_rate": mean.tolist(),
            "covariance": semidefinite((covariance + covariance.T) / 2).tolist(),
            "replication": weighted(figures.replication),
            "filters": weighted(figures.filters),
            "size_bytes": weighted(figures.message_bytes),
            **brokers.fields(),
            **brokers.origin(
                {item: [self.topics[number][1] for number in each] for item, each in self.members.items()}
            ),
            "data_until": self.data_until,
        }


def profile(
    spark: SparkSession,
    lake: str,
    settings: ProfileSettings | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Profile:
    """Read the lake and compute the figures."""
    settings = settings or ProfileSettings()
    listing = list_table(lake, TOPIC_RATES, domains=settings.domains).require()
    progress(f"{len(listing.files)} files, {listing.rows:,} rows; looking for streams and peak periods")
    seen = scan(spark, listing, settings.domains)
    _check(seen, settings)
    peaks = {
        domain: find_peaks(*minutes) if settings.peak is None else settings.peak
        for domain, minutes in seen.minutes.items()
    }
    when = periods(peaks, seen.first_s, seen.last_s, settings.window_s)
    if when.windows < 2:
        raise InputError(
            f"{lake}: {when.windows} window{'' if when.windows == 1 else 's'} of {settings.window_s} s in "
            f"the peak periods, from {seen.rows} rows; a covariance needs two or more",
            hint="record longer, choose a shorter --window, or use --peak all",
        )
    shift = _shift(seen, settings.window_s)
    plan = Plan(seen.streams, shift, when)
    progress(f"{len(plan.topics):,} topics; adding up {when.windows:,} windows of {settings.window_s} s")
    sums = collect_sums(spark, lake, seen.files, plan)
    figures = statistics(sums, shift, plan.topic_of_stream, when, settings.shrinkage)
    if settings.groups is not None:
        members = grouping.given_groups(settings.groups, plan.topics)
    elif settings.cluster:
        members = grouping.found_groups(figures.mean_rate, figures.covariance, plan.topics)
    else:
        members = {name: [number] for number, name in enumerate(grouping.item_names(plan.topics))}
    return Profile(
        topics=plan.topics,
        statistics=figures,
        members=members,
        peaks=peaks,
        periods=when,
        rows=seen.rows,
        data_until=seen.last_s + 1,
        repeated=sums.repeated,
        empty_windows_in_blocks_without_rows=when.windows - sums.windows,
        skipped=seen.skipped,
        warnings=_warnings(figures),
    )


def write_profile(found: Profile, brokers: Brokers, output: Path) -> dict[str, Any]:
    """Write `problem.json`, `covariance.npy`, `topics.parquet` and `summary.json`; returns the summary."""
    summary = summarised(found)
    with output_directory(output, JOB) as directory:
        write_json(directory / "problem.json", found.problem(brokers))
        np.save(directory / "covariance.npy", found.statistics.covariance)
        write_parquet(directory / "topics.parquet", topic_table(found))
        write_json(directory / "summary.json", summary)
    return summary


def topic_table(found: Profile) -> pa.Table:
    """Figures of each topic, in the order of the covariance matrix."""
    figures = found.statistics
    item_of = {number: item for item, numbers in found.members.items() for number in numbers}
    return pa.table(
        {
            "domain": [domain for domain, _ in found.topics],
            "topic": [topic for _, topic in found.topics],
            "item": [item_of[number] for number in range(len(found.topics))],
            "mean_rate": figures.mean_rate,
            "variance": figures.variance,
            "burst_factor": figures.burst_factor,
            "replication": figures.replication,
            "filters": figures.filters,
            "subscribers": figures.subscribers,
            "message_bytes": figures.message_bytes,
        }
    )


def summarised(found: Profile) -> dict[str, Any]:
    """The job's summary as plain data."""
    figures = found.statistics
    return {
        "rows": found.rows,
        "topics": len(found.topics),
        "items": len(found.members),
        "peaks": {domain: [clock(span) for span in spans] for domain, spans in found.peaks.items()},
        "window_s": found.periods.window_s,
        "windows": figures.windows,
        "windows_in_stretches_without_rows": found.empty_windows_in_blocks_without_rows,
        "mean_rate_msg_s": float(figures.mean_rate.sum()),
        "shrinkage": figures.shrinkage,
        "repeated_rows": found.repeated,
        "skipped": [{"path": s.path, "reason": s.reason, "rows": s.rows} for s in found.skipped],
        "warnings": found.warnings,
    }


def _check(seen: Scan, settings: ProfileSettings) -> None:
    domains = {stream[0] for stream in seen.streams}
    if settings.domains is not None and (missing := sorted(settings.domains - domains)):
        raise InputError(f"the lake has no rows of the domain {', '.join(missing)}")
    topics = len({(stream[0], stream[2]) for stream in seen.streams})
    if topics > MAX_TOPICS:
        raise InputError(
            f"{topics} topics; a covariance matrix of more than {MAX_TOPICS} does not fit in memory",
            hint="profile the domains one by one with --domain",
        )


def _shift(seen: Scan, window_s: int) -> FloatArray:
    """A whole number near each topic's mean: subtracted from every window, it keeps the sums exact."""
    seconds = seen.last_s - seen.first_s + 1
    totals: dict[tuple[str, str], int] = {}
    for (domain, _, topic), messages in zip(seen.streams, seen.msgs_in, strict=True):
        totals[domain, topic] = totals.get((domain, topic), 0) + messages
    return np.rint(np.array([totals[key] for key in sorted(totals)]) * window_s / seconds)


def _warnings(figures: RateStatistics) -> list[str]:
    warnings = []
    if constant := int((figures.variance == 0).sum()):
        warnings.append(f"{constant} topics never change their rate: no variance, no covariance")
    if figures.shrinkage:
        warnings.append(
            f"{figures.windows} windows for {len(figures.mean_rate)} topics: covariances were reduced by "
            f"{figures.shrinkage:.1%}"
        )
    return warnings
