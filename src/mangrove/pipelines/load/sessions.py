"""Offload sessions as they were recorded: what agents did, beside what methods would have done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from mangrove.model.telemetry import OFFLOAD_SESSIONS
from mangrove.pipelines.state.partial import Recipe

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ENDED = (
    "session string, second bigint, broker string, scope string, outcome string, seconds double, "
    "topics bigint, subscriptions bigint, moved bigint, held_ms double"
)


def sessions(rows: DataFrame, kept: tuple[str, ...] = ()) -> DataFrame:
    """Each session once, as it was first seen to have ended."""
    from pyspark.sql import functions as f

    rest = [part.split()[0] for part in ENDED.split(", ")][1:]
    seconds = rows.withColumn("second", f.unix_seconds("ts"))
    alone = seconds.groupBy(*kept, "domain", "session").agg(f.min(f.struct(*rest)).alias("row"))
    return alone.select(*kept, "domain", "session", "row.*")


SESSIONS = Recipe(
    OFFLOAD_SESSIONS,
    tuple(column.name for column in OFFLOAD_SESSIONS.columns if column.name != "metrics"),
    sessions,
    ENDED,
)


def done(ended: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What all sessions together did."""
    rows = list(ended)
    return {
        "sessions": len(rows),
        "moved": sum(row["moved"] for row in rows),
        "not_moved": sum(max(0, row["subscriptions"] - row["moved"]) for row in rows),
        "without_a_move": sum(row["moved"] == 0 for row in rows),
        "worst_held_ms": max((row["held_ms"] for row in rows), default=None),
        "brokers": dict(sorted(Counter(row["broker"] for row in rows if row["moved"]).items())),
    }
