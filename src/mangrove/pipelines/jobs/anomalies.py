"""Anomalies by robust statistics: surges, silent publishers, bottlenecks.

A topic's load by minute is compared with the median of the hour around it; how far it usually strays is the
median of the absolute differences. Neither is moved by the anomaly itself, and the daily pattern is slower
than an hour. What lasts longer than half an hour becomes the new normal.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mangrove.model.telemetry import BROKER_SAMPLES, TOPIC_RATES
from mangrove.pipelines.reading.repeats import without_repeats

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import Column, DataFrame

FOUND = (
    "start timestamp, minutes bigint, kind string, domain string, subject string, value double, usual double"
)
TOPIC_MINUTES = "topic string, second bigint, load bigint"
SLOW_MINUTES = "broker string, second bigint, slow bigint"
QUEUE_MINUTES = "peer string, second bigint, load bigint"
AROUND_MINUTES = 61
# Deviations, in units of a normal distribution's standard deviation, and the least factor that matters.
FAR = 8.0
SURGE_FACTOR = 1.5
SILENT_MINUTES = 3
# A publisher that sends less than this in a minute may well be silent for some.
STEADY_MESSAGES = 30.0
QUEUE_BYTES = 1 << 20


def topic_minutes(rates: DataFrame, kept: tuple[str, ...] = ()) -> DataFrame:
    """`topic_rates` → messages of each topic in each minute (`second` is its first)."""
    from pyspark.sql import functions as f

    # The same row may be in several files.
    once = without_repeats(rates, TOPIC_RATES)
    minutes = once.groupBy(*kept, "domain", "topic", _minute()).agg(f.sum("msgs_in").alias("load"))
    return minutes.select(*kept, "domain", "topic", "second", "load")


def slow_minutes(brokers: DataFrame, kept: tuple[str, ...] = ()) -> DataFrame:
    """`broker_samples` → minutes in which a broker cut clients off because they did not keep up."""
    from pyspark.sql import functions as f

    some = brokers.where(f.col("slow_consumers") != 0)
    once = without_repeats(some, BROKER_SAMPLES)
    minutes = once.groupBy(*kept, "domain", "broker", _minute()).agg(f.sum("slow_consumers").alias("slow"))
    return minutes.select(*kept, "domain", "broker", "second", "slow")


def queue_minutes(links: DataFrame, kept: tuple[str, ...] = ()) -> DataFrame:
    """`link_samples` → the longest queue of each link in each minute."""
    from pyspark.sql import functions as f

    minutes = links.groupBy(*kept, "domain", "peer", _minute()).agg(f.max("queued_bytes").alias("load"))
    return minutes.select(*kept, "domain", "peer", "second", "load")


def anomalies(topics: DataFrame | None, slow: DataFrame | None, queues: DataFrame | None) -> DataFrame | None:
    """Minutes → surges, silences, clients cut off, and queues that grew far beyond the usual."""
    from pyspark.sql import functions as f

    parts = []
    if topics is not None:
        loads = topics.groupBy("domain", "topic", "second").agg(f.sum("load").alias("load"))
        parts.append(loads.groupBy("domain", "topic").applyInPandas(_topic, FOUND))
    if slow is not None:
        cut_off = slow.groupBy("domain", "broker", "second").agg(f.sum("slow").alias("slow"))
        parts.append(
            cut_off.where(f.col("slow") > 0).select(
                f.timestamp_seconds("second").alias("start"),
                f.lit(1).cast("long").alias("minutes"),
                f.lit("bottleneck").alias("kind"),
                "domain",
                f.col("broker").alias("subject"),
                f.col("slow").cast("double").alias("value"),
                f.lit(0.0).alias("usual"),
            )
        )
    if queues is not None:
        loads = queues.groupBy("domain", "peer", "second").agg(f.max("load").alias("load"))
        parts.append(loads.groupBy("domain", "peer").applyInPandas(_queue, FOUND))
    if not parts:
        return None
    joined = parts[0]
    for part in parts[1:]:
        joined = joined.unionByName(part)
    return joined.orderBy("start", "kind", "domain", "subject")


def _minute() -> Column:
    from pyspark.sql import functions as f

    return (f.floor(f.unix_seconds("ts") / 60) * 60).alias("second")


def _topic(frame: pd.DataFrame) -> pd.DataFrame:
    first, load = _filled(frame)
    usual, far = baseline(load)
    subject = str(frame["topic"].iloc[0])
    surging = (load > usual + far) & (load > SURGE_FACTOR * usual) & (load > STEADY_MESSAGES)
    silent = (load == 0) & (usual >= STEADY_MESSAGES)
    found = [_row("rate_surge", *run, first, load, usual) for run in runs(surging)]
    found += [
        _row("silent_publisher", *run, first, load, usual)
        for run in runs(silent)
        if run[1] - run[0] >= SILENT_MINUTES
    ]
    return _frame(found, str(frame["domain"].iloc[0]), subject)


def _queue(frame: pd.DataFrame) -> pd.DataFrame:
    first, load = _filled(frame)
    usual, far = baseline(load)
    jammed = (load > usual + far) & (load >= QUEUE_BYTES)
    domain = str(frame["domain"].iloc[0])
    found = [_row("bottleneck", *run, first, load, usual) for run in runs(jammed)]
    return _frame(found, domain, f"{domain}--{frame['peer'].iloc[0]}")


def baseline(load: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """The usual load of each minute, and the distance from it that is far."""
    from scipy.ndimage import median_filter

    around = min(AROUND_MINUTES, len(load) if len(load) % 2 else max(len(load) - 1, 1))
    usual = np.asarray(median_filter(load, size=around, mode="nearest"), dtype=np.float64)
    spread = 1.4826 * float(np.median(np.abs(load - usual)))
    return usual, FAR * max(spread, 1.0)


def runs(marked: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """Stretches of marked minutes as (from, until)."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], marked, [False]]).astype(np.int8)))
    yield from ((int(start), int(end)) for start, end in zip(edges[::2], edges[1::2], strict=True))


def _filled(frame: pd.DataFrame) -> tuple[int, NDArray[np.float64]]:
    minute = frame["second"].to_numpy(dtype=np.int64) // 60
    load = np.zeros(int(minute.max() - minute.min()) + 1)
    load[minute - minute.min()] = frame["load"].to_numpy(dtype=np.float64)
    return int(minute.min()), load


def _row(
    kind: str,
    start: int,
    end: int,
    first: int,
    load: NDArray[np.float64],
    usual: NDArray[np.float64],
) -> dict[str, Any]:
    extreme = load[start:end].min() if kind == "silent_publisher" else load[start:end].max()
    return {
        "start": (first + start) * 60,
        "minutes": end - start,
        "kind": kind,
        "value": float(extreme),
        "usual": float(np.median(usual[start:end])),
    }


def _frame(found: list[dict[str, Any]], domain: str, subject: str) -> pd.DataFrame:
    import pandas as pd

    columns = ["start", "minutes", "kind", "domain", "subject", "value", "usual"]
    frame = pd.DataFrame([{**row, "domain": domain, "subject": subject} for row in found], columns=columns)
    frame["start"] = pd.to_datetime(frame["start"].astype("int64"), unit="s")
    return frame.astype({"minutes": "int64", "value": "float64", "usual": "float64"})
