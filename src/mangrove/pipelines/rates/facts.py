"""What a cube holds, apart from the counts themselves: streams, busy minutes, faults.

In a state they are kept beside the parts of the cube, and a run asks Spark only for those of new parts. A
part's directory is of one run and its content never changes, so facts that are there are right, and they go
when it goes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.feather as feather
from numpy.typing import NDArray

from mangrove.lake.writer import appearing_whole
from mangrove.pipelines.reading.days import DAY_S
from mangrove.pipelines.reading.lake_scan import Part

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Stream = tuple[str, str, str]
"""(domain, broker, topic)"""
# Spark's readers pass over names that begin so.
KEPT = "_facts.arrow"
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
    day = f.floor(f.col("start_s") / DAY_S).alias("day")
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
    for number, row in enumerate(table.drop_columns(["minute", "load"]).to_pylist()):
        part = Part(row["date"], row["domain"])
        streams |= {(part.domain, *pair) for pair in zip(row["brokers"], row["topics"], strict=True)}
        parts.setdefault(part.domain, []).append(
            (table["minute"][number].values.to_numpy(), table["load"][number].values.to_numpy())
        )
        found.rows += row["rows"]
        found.repeated += row["repeated"]
        found.parts[row["day"]] = found.parts.get(row["day"], frozenset()) | {part}
        for name, counted in (("differing", found.differing), ("negative", found.negative)):
            if row[name]:
                counted[part] = counted.get(part, 0) + row[name]
    found.streams = sorted(streams)
    if streams:
        found.first_s, found.last_s = pc.min(table["first_s"]).as_py(), pc.max(table["last_s"]).as_py()
    for domain in sorted({stream[0] for stream in streams}):
        minute, load = (np.concatenate(each) for each in zip(*parts[domain], strict=True))
        distinct, place = np.unique(minute, return_inverse=True)
        found.minutes[domain] = distinct, np.bincount(place, weights=load).astype(np.float64)
    return found


def kept_facts(
    cube: DataFrame, places: Mapping[Part, Path], since_s: int | None, until_s: int | None
) -> Facts:
    """The facts of whole days of a cube that has all rows of its parts, whose directories these are."""
    found = {part: _read(place / KEPT) for part, place in places.items()}
    if not found:
        return Facts()
    if missing := [part for part, table in found.items() if table is None]:
        computed = rows_of_facts(cube.where(cube["date"].isin(*{part.date for part in missing})))
        for part in missing:
            own = (pc.field("date") == part.date) & (pc.field("domain") == unquote(part.domain))
            found[part] = computed.filter(own).combine_chunks()
            with appearing_whole(places[part] / KEPT) as hidden:
                feather.write_feather(found[part], hidden, compression="uncompressed")
    table = pa.concat_tables(found.values())
    if since_s is not None:
        table = table.filter(pc.field("day") >= since_s // DAY_S)
    if until_s is not None:
        table = table.filter(pc.field("day") < until_s // DAY_S)
    return facts_of_rows(table)


def _read(path: Path) -> pa.Table | None:
    """Kept rows, if they are there and whole."""
    try:
        return feather.read_table(path, memory_map=False)
    except (OSError, pa.ArrowException):
        return None
