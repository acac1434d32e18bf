"""What `profile` found, and its files: `problem.json`, `covariance.npy`, `topics.parquet`, `summary.json`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from mangrove.lake.files import Skipped
from mangrove.pipelines.grouping.dealt_cube import Dealt
from mangrove.pipelines.grouping.risk_error import risk_error
from mangrove.pipelines.output import output_directory, write_json, write_parquet
from mangrove.pipelines.rates import items as grouping
from mangrove.pipelines.rates.brokers import Brokers
from mangrove.pipelines.rates.peaks import Periods, Span, clock
from mangrove.pipelines.rates.statistics import RateStatistics, semidefinite
from mangrove.pipelines.risk.scenario_file import write_scenarios
from mangrove.planning.problem.arrays import FloatArray

if TYPE_CHECKING:
    from mangrove.planning.empirical.scenarios import Scenarios

JOB = "profile"


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
    windows_without_messages: int
    skipped: list[Skipped]
    warnings: list[str] = field(default_factory=list)
    dealt: Dealt | None = None
    """With very many topics: `topics` are items, and this tells the topics of each."""

    @property
    def topics_of_items(self) -> list[list[tuple[str, str]]]:
        """(domain, topic) pairs of each item."""
        if self.dealt is None:
            return [[self.topics[number] for number in each] for each in self.members.values()]
        pairs = self.dealt.totals.topics
        return [[pairs[number] for number in each] for each in self.dealt.members]

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
                {
                    item: [topic for _, topic in each]
                    for item, each in zip(self.members, self.topics_of_items, strict=True)
                }
            ),
            "data_until": self.data_until,
        }


def write_profile(
    found: Profile, brokers: Brokers, output: Path, scenarios: Scenarios | None = None
) -> dict[str, Any]:
    """Write `problem.json`, `covariance.npy`, `topics.parquet` and `summary.json`; returns the summary.

    With scenarios (`risk.scenario_sample`) also `scenarios.npz`; with very many topics `members.parquet`, and
    what dealing them to items costs in risk is in the summary.
    """
    summary = summarised(found)
    with output_directory(output, JOB) as directory:
        write_json(directory / "problem.json", found.problem(brokers))
        np.save(directory / "covariance.npy", found.statistics.covariance)
        write_parquet(directory / "topics.parquet", topic_table(found))
        if found.dealt is not None:
            write_parquet(directory / "members.parquet", found.dealt.table())
            error = risk_error(found.statistics.mean_rate, found.statistics.covariance, len(brokers.names))
            summary["risk_error"] = None if error is None else error.document()
        if scenarios is not None:
            summary["scenarios"] = scenarios.count
            write_scenarios(directory, list(found.members), scenarios)
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
        "topics": len(found.topics if found.dealt is None else found.dealt.totals.topics),
        "items": len(found.members),
        "peaks": {domain: [clock(span) for span in spans] for domain, spans in found.peaks.items()},
        "window_s": found.periods.window_s,
        "windows": figures.windows,
        "windows_without_messages": found.windows_without_messages,
        "mean_rate_msg_s": float(figures.mean_rate.sum()),
        "shrinkage": figures.shrinkage,
        "repeated_rows": found.repeated,
        "skipped": [{"path": s.path, "reason": s.reason, "rows": s.rows} for s in found.skipped],
        "warnings": found.warnings,
    }
