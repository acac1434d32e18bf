"""`availability`: how often brokers, links and domains fail and how long repair takes, for routing.

Only seconds that were observed count: a recorder that was away says nothing. A component that was never seen
to fail is not infallible: half a failure of average length is added to each one's account.

What was seen of a component is two bits for each second, observed and down. Bits of several files, of both
ends of a link and of repeated rows are joined by `or`, so they can be kept from run to run, and any period of
whole seconds is exact, over midnight too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mangrove.model.telemetry import BROKER_SAMPLES, EVENTS, LINK_SAMPLES
from mangrove.pipelines.jobs.outages import OUTAGES, Span, outages
from mangrove.pipelines.output import check_output, output_directory, write_json, write_parquet
from mangrove.pipelines.reading.rows import unharmed
from mangrove.pipelines.reading.source import Source, as_source
from mangrove.pipelines.state.following import keep_current
from mangrove.pipelines.state.partial import Partial, Period, Recipe, open_partial, skipped_in
from mangrove.pipelines.state.state import State, open_state, opened_state

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

JOB = "availability"
STATE_VERSION = 1
READ = (BROKER_SAMPLES, LINK_SAMPLES, EVENTS)
# Length of a repair that nobody has seen yet.
ASSUMED_REPAIR_S = 60.0
EVENT = "event"
# Spark's bitmaps have 32,768 bits: room for the seconds of eight hours.
THIRD_S = 8 * 3600
SEEN = "kind string, component string, third_s bigint, observed binary, down binary"


def broker_bits(brokers: DataFrame, kept: tuple[str, ...] = ()) -> DataFrame:
    """`broker_samples` → what was seen of brokers, and of domains, which fail with their head."""
    from pyspark.sql import functions as f

    broker = f.struct(f.lit("broker").alias("kind"), f.col("broker").alias("component"))
    domain = f.struct(f.lit("domain").alias("kind"), f.col("domain").alias("component"))
    of = f.when(f.col("role") == "head", f.array(broker, domain)).otherwise(f.array(broker))
    each = brokers.select(*kept, "domain", "ts", f.explode(of).alias("of"), f.col("reachable").alias("up"))
    return _bits(each.select(*kept, "domain", "ts", "of.kind", "of.component", "up"), kept)


def link_bits(links: DataFrame, kept: tuple[str, ...] = ()) -> DataFrame:
    """`link_samples` → what was seen of links: one is down if either end says so."""
    from pyspark.sql import functions as f

    name = f.concat_ws("--", f.array_sort(f.array("domain", "peer")))
    each = links.select(*kept, "domain", "ts", f.lit("link").alias("kind"), name.alias("component"), "up")
    return _bits(each, kept)


def event_bits(events: DataFrame, kept: tuple[str, ...] = ()) -> DataFrame:
    """`events` → seconds in which a failure was reported; both ends of a link report the same one."""
    from pyspark.sql import functions as f

    downs = events.where(f.col("kind").isin("broker_down", "link_down"))
    kind = f.concat(f.lit(f"{EVENT} "), "kind").alias("kind")
    up = f.lit(True).alias("up")
    return _bits(downs.select(*kept, "domain", "ts", kind, f.col("subject").alias("component"), up), kept)


RECIPES = (
    Recipe(BROKER_SAMPLES, ("ts", "domain", "broker", "role", "reachable"), broker_bits, SEEN),
    Recipe(LINK_SAMPLES, ("ts", "domain", "peer", "up"), link_bits, SEEN),
    Recipe(EVENTS, ("ts", "domain", "subject", "kind"), event_bits, SEEN),
)


def counted(seen: DataFrame, period: Period) -> DataFrame:
    """Bits → outages of each component over the period; events know of those too short for a sample."""
    names = [part.split()[0] for part in OUTAGES.split(", ")]

    def count(frame: pd.DataFrame) -> pd.DataFrame:
        import pandas as pd

        spans: dict[str, list[Span]] = {}
        columns = (frame[name] for name in ("kind", "third_s", "observed", "down"))
        for kind, start, observed, down in zip(*columns, strict=True):
            spans.setdefault(kind, []).append(Span(int(start), bytes(observed), bytes(down)))
        component = str(frame.iloc[0]["component"])
        rows = []
        for kind in sorted(kind for kind in spans if not kind.startswith(EVENT)):
            reports = spans.get(f"{EVENT} {kind}_down", ())
            found = outages(spans[kind], period.since_s, period.until_s, reports=reports)
            rows.append({"kind": kind, "component": component, **asdict(found)})
        return pd.DataFrame(rows, columns=names)

    return seen.groupBy("component").applyInPandas(count, OUTAGES)


def availability(counts: DataFrame) -> DataFrame:
    """Outages of components → one row for each."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    observed = counts.where(f.col("observed_s") > 0)
    counted = observed.withColumn("failures", f.col("fell") + f.col("reported"))
    every = Window.partitionBy(f.lit(0))
    repair = f.sum("down_s").over(every) / f.sum("failures").over(every)
    typical = f.when(f.sum("failures").over(every) > 0, repair).otherwise(ASSUMED_REPAIR_S)
    return counted.select(
        "kind",
        "component",
        "observed_s",
        "down_s",
        "failures",
        (f.col("down_s") / f.col("observed_s")).alias("unavailability"),
        ((f.col("down_s") + 0.5 * typical) / (f.col("observed_s") + typical)).alias("failure_probability"),
        f.when(f.col("failures") > 0, f.col("down_s") / f.col("failures")).alias("mean_repair_s"),
        f.when(f.col("failures") > 0, (f.col("observed_s") - f.col("down_s")) / f.col("failures")).alias(
            "mean_up_s"
        ),
    ).orderBy("kind", "component")


def failures_document(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What routing reads of the rows: probabilities of domains and links, in the format of a topology.

    Brokers within a domain are no nodes of the overlay; theirs stay in the table of all rows.
    """
    return {
        "node_failure": {r["component"]: r["failure_probability"] for r in rows if r["kind"] == "domain"},
        "edge_failure": [
            [*r["component"].split("--"), r["failure_probability"]] for r in rows if r["kind"] == "link"
        ],
    }


def run(
    spark: SparkSession,
    source: Source | str,
    output: Path,
    *,
    state: Path | State | None = None,
    period: Period | None = None,
) -> dict[str, Any]:
    """Read, compute, write `availability.parquet` and `failures.json` (for `route paths --failures`).

    With a `state`, only days and domains whose files changed are read; the result is the same.
    """
    check_output(output, JOB)
    origin, bounds = as_source(source), period or Period()
    with opened_state(state, JOB, STATE_VERSION, origin) as held:
        parts: list[Partial | None] = []
        for recipe in RECIPES:
            needed = recipe.table is LINK_SAMPLES and (parts[0] is None or parts[0].empty)
            parts.append(open_partial(spark, origin, recipe, state=held, period=bounds, required=needed))
        if held is not None:
            held.publish()
        found = unharmed(lambda: _found(parts, bounds), *(part.rows for part in parts if part))
        skipped = skipped_in(parts)
    rows = found.to_pylist()
    summary = {
        "components": len(rows),
        "failures": sum(row["failures"] for row in rows),
        "rows": rows,
        "skipped": skipped,
    }
    with output_directory(output, JOB) as directory:
        write_parquet(directory / "availability.parquet", found)
        write_json(directory / "failures.json", failures_document(rows))
        write_json(directory / "summary.json", summary)
    return summary


def follow(
    spark: SparkSession,
    source: Source | str,
    output: Path,
    state: Path,
    *,
    period: Period | None = None,
    seconds: float | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Keep state and output current while files arrive; the result is that of `run`."""
    check_output(output, JOB)
    origin = as_source(source)
    with open_state(state, JOB, STATE_VERSION, origin) as held:

        def once() -> dict[str, Any]:
            return run(spark, origin, output, state=held, period=period)

        return keep_current(spark, held, READ, once, seconds=seconds, progress=progress)


def _found(parts: Sequence[Partial | None], period: Period) -> pa.Table:
    names = [part.split()[0] for part in SEEN.split(", ")]
    frames = [part.frame().select(*names) for part in parts if part is not None]
    seen = frames[0]
    for more in frames[1:]:
        seen = seen.unionByName(more)
    # One row for each component: small, and asked twice.
    counts = seen.sparkSession.createDataFrame(counted(seen, period).toArrow())
    return availability(counts).toArrow()


def _bits(samples: DataFrame, kept: tuple[str, ...]) -> DataFrame:
    """(domain, ts, kind, component, up) → bits of eight hours each."""
    from pyspark.sql import functions as f

    second = f.unix_seconds("ts")
    third: Column = f.floor(second / THIRD_S) * THIRD_S
    place = second - third
    return (
        samples.groupBy(*kept, "domain", "kind", "component", third.alias("third_s"))
        .agg(
            f.bitmap_construct_agg(place).alias("observed"),
            f.bitmap_construct_agg(f.when(~f.col("up"), place)).alias("down"),
        )
        .select(*kept, "domain", "kind", "component", "third_s", "observed", "down")
    )
