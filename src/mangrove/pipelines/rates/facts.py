"""What a cube holds, apart from the counts themselves: streams, busy minutes, faults."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mangrove.pipelines.reading.lake_scan import Part

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Stream = tuple[str, str, str]
"""(domain, broker, topic)"""
SUMMED = ("rows", "repeated", "differing", "negative")


@dataclass(slots=True)
class Facts:
    """Summed up over all blocks."""

    streams: list[Stream] = field(default_factory=list)
    minutes: dict[str, tuple[NDArray[np.int64], NDArray[np.float64]]] = field(default_factory=dict)
    """messages by minute since 1970, for each domain"""
    first_s: int = 0
    last_s: int = 0
    rows: int = 0
    repeated: int = 0
    differing: dict[Part, int] = field(default_factory=dict)
    """repeated rows that are not the same as the one that is used"""
    negative: dict[Part, int] = field(default_factory=dict)
    parts: dict[int, frozenset[Part]] = field(default_factory=dict)
    """by day since 1970: the directories that rows of that day are in"""


def facts_of(cube: DataFrame) -> Facts:
    """Found by Spark from the small columns."""
    return facts_of_rows(rows_of_facts(cube))


def rows_of_facts(cube: DataFrame) -> pa.Table:
    """What Spark finds: a row for each part, day and set of streams."""
    from pyspark.sql import functions as f

    # Blocks of a day that have the same streams are one row.
    day = f.floor(f.col("start_s") / 86400).alias("day")
    return (
        cube.groupBy("date", "domain", day, f.xxhash64("brokers", "topics"))
        .agg(
            *(f.first(name).alias(name) for name in ("brokers", "topics")),
            *(f.flatten(f.collect_list(name)).alias(name) for name in ("minute", "load")),
            *(f.sum(name).alias(name) for name in SUMMED),
            f.min("first_s").alias("first_s"),
            f.max("last_s").alias("last_s"),
        )
        .toArrow()
    )


def facts_of_rows(table: pa.Table) -> Facts:
    """The rows of all parts put together."""
    found = Facts()
    streams: set[Stream] = set()
    parts: dict[str, list[tuple[NDArray[np.int64], NDArray[np.int64]]]] = {}
    for number, (date, domain) in enumerate(
        zip(table["date"].to_pylist(), table["domain"].to_pylist(), strict=True)
    ):
        row = {name: table[name][number].as_py() for name in (*SUMMED, "day", "brokers", "topics")}
        streams |= {(domain, *pair) for pair in zip(row["brokers"], row["topics"], strict=True)}
        parts.setdefault(domain, []).append(
            (table["minute"][number].values.to_numpy(), table["load"][number].values.to_numpy())
        )
        found.rows += row["rows"]
        found.repeated += row["repeated"]
        own = found.parts.get(row["day"], frozenset())
        found.parts[row["day"]] = own | {Part(date, domain)}
        for name, counted in (("differing", found.differing), ("negative", found.negative)):
            if row[name]:
                part = Part(date, domain)
                counted[part] = counted.get(part, 0) + row[name]
    found.streams = sorted(streams)
    if streams:
        found.first_s, found.last_s = pc.min(table["first_s"]).as_py(), pc.max(table["last_s"]).as_py()
    for domain in sorted({stream[0] for stream in streams}):
        minute, load = (np.concatenate(each) for each in zip(*parts[domain], strict=True))
        distinct, place = np.unique(minute, return_inverse=True)
        found.minutes[domain] = distinct, np.bincount(place, weights=load).astype(np.float64)
    return found
