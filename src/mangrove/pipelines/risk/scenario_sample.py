"""Scenarios for `plan allocate --risk empirical`, chosen from all windows of a history on the workers.

The windows of largest excess are kept each, the others by a sample (`planning.empirical.sampling`). A window
travels as its rates in single precision; only those that are kept reach the driver. Windows without any row
are not drawn: those that are drawn stand for them, which errs on the safe side.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mangrove.errors import InputError
from mangrove.model.telemetry import TOPIC_RATES
from mangrove.pipelines.reading.rows import open_rows, unharmed
from mangrove.pipelines.risk.topic_items import TopicItems
from mangrove.pipelines.risk.windows import COLUMNS, Windows, bounded_batches, mapped, window_frame
from mangrove.planning.empirical.sampling import weights_of
from mangrove.planning.empirical.scenarios import MIN_SCENARIOS, Scenarios

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from mangrove.pipelines.jobs.profile import Profile
    from mangrove.pipelines.rates.peaks import Periods
    from mangrove.pipelines.reading.source import Source
    from mangrove.planning.problem.arrays import FloatArray

CHOSEN = "window long, excess double, rates binary"
# Rates of so many windows and items are brought to the driver.
MAX_CELLS = 100_000_000


def scenario_sample(
    rows: DataFrame, items: TopicItems, periods: Periods, mean_rate: FloatArray, count: int, seed: int
) -> Scenarios:
    """At most `count` windows of the history with the probability that each stands for, in order of time."""
    if not MIN_SCENARIOS <= count <= MAX_CELLS // max(len(items.items), 1):
        raise InputError(
            f"--scenarios: {count}",
            hint=f"between {MIN_SCENARIOS} and {MAX_CELLS // max(len(items.items), 1):,} for these items",
        )
    from pyspark.sql import functions as f

    spark = rows.sparkSession
    with bounded_batches(spark, len(items.items)):
        frame = window_frame(rows, items, periods)
        rated = mapped(frame, len(items.items), periods.window_s, _rated(mean_rate), CHOSEN)
        extreme = _collected(rated.orderBy(f.desc("excess"), "window").limit((count + 1) // 2))
        # Of the first `count` by a hash at least half are not among the extreme ones.
        shuffled = _collected(rated.orderBy(f.xxhash64("window", f.lit(seed)), "window").limit(count))
    taken = {window for window, _ in extreme}
    drawn = [each for each in shuffled if each[0] not in taken][: count - len(extreme)]
    kept = len(extreme) + len(drawn)
    if kept < MIN_SCENARIOS:
        raise InputError(
            f"{kept} windows with rows; scenarios need {MIN_SCENARIOS} or more",
            hint="record longer, or choose a shorter --window",
        )
    windows = max(periods.windows, kept)
    # A history that is taken whole needs no weights.
    whole = kept < count or windows == kept
    weights = np.full(kept, 1.0 / kept) if whole else weights_of(windows, len(extreme), len(drawn))
    chosen = extreme + drawn
    order = np.argsort([window for window, _ in chosen], kind="stable")
    rates = np.stack([np.frombuffer(chosen[place][1], dtype=np.float32) for place in order], axis=1)
    return Scenarios(rates.astype(np.float64), weights[order])


def profile_scenarios(
    spark: SparkSession,
    source: Source,
    found: Profile,
    count: int,
    seed: int,
    *,
    since_s: float | None = None,
    until_s: float | None = None,
) -> Scenarios:
    """Scenarios for the items of a profile, from the windows of its periods."""
    domains = sorted({domain for domain, _ in found.topics})
    rows = open_rows(
        spark, source, TOPIC_RATES, columns=COLUMNS, domains=domains, since_s=since_s, until_s=until_s
    )
    numbered = [(*topic, place) for place, members in enumerate(found.topics_of_items) for topic in members]
    items = TopicItems(tuple(found.members), tuple(numbered))
    rate = found.statistics.mean_rate
    mean = np.array([sum(float(rate[topic]) for topic in members) for members in found.members.values()])
    return unharmed(lambda: scenario_sample(rows.frame, items, found.periods, mean, count, seed), rows)


def _rated(mean_rate: FloatArray) -> Callable[[Windows], pa.RecordBatch]:
    def each(windows: Windows) -> pa.RecordBatch:
        excess = np.maximum(windows.rates_msg_s - mean_rate, 0.0).sum(axis=1)
        single = windows.rates_msg_s.astype(np.float32)
        return pa.RecordBatch.from_pydict(
            {
                "window": pa.array(windows.start_s),
                "excess": pa.array(excess),
                "rates": pa.array([row.tobytes() for row in single], pa.binary()),
            }
        )

    return each


def _collected(frame: DataFrame) -> list[tuple[int, bytes]]:
    return [(row["window"], bytes(row["rates"])) for row in frame.collect()]
