"""`profile` over a day of 2,000 topics: rows/s, memory, growth; and pandas and Spark's RowMatrix beside it.

Every profile runs in a process of its own, whose whole tree (Python, Java, Python workers) is weighed twice a
second. With `--before CHECKOUT` that of another checkout runs in turn with this one, and the covariances are
compared. The same rows are read once more by Spark's own scan, which shows what reading with Arrow is worth.
The comparison with others is at a size that pandas can hold: the same rows, the same figures.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from mangrove.cli.tables.table import Table, name_column, number_column
from mangrove.host.process_tree import weighed

FULL = (2000, 86400)
QUICK = (100, 7200)
COMPARED = (300, 7200)
COMPARED_QUICK = (60, 1800)
MEMORY_BAR_BYTES = 8 << 30
HERE = Path(__file__).resolve().parents[1]
PIPELINES = "src/mangrove/pipelines"
BY_SCAN = """
from mangrove.pipelines.rates import cube
cube.readable = lambda rows: False
from mangrove.cli.main import main
main()
"""
"""The command as it is, for lakes that Arrow cannot open."""


def run(seed: int, quick: bool, before: Path | None = None) -> dict[str, Any]:
    """Generate, profile at 1/8 and at full size, compare at the common size."""
    from mangrove.pipelines.synthetic.rates import SyntheticRates, generate

    topics, seconds = QUICK if quick else FULL
    with tempfile.TemporaryDirectory(prefix="mangrove-bench-") as name:
        base = Path(name)
        started = time.perf_counter()
        spec = SyntheticRates(topics=topics, seconds=seconds, seed=seed)
        files = generate(spec, base / "full")
        generated_s = time.perf_counter() - started
        for path in files[: len(files) // 8] or files[:1]:
            copy = base / "eighth" / path.relative_to(base / "full")
            copy.parent.mkdir(parents=True, exist_ok=True)
            os.link(path, copy)
        lake_bytes = sum(path.stat().st_size for path in files)
        eighth = _profile(base / "eighth", base / "out")
        earlier = None if before is None else _profile(base / "full", base / "before", before)
        full = _profile(base / "full", base / "out")
        scan = _profile(base / "full", base / "scan", program=("-c", BY_SCAN))
        same_bytes = (base / "scan" / "covariance.npy").read_bytes() == (
            base / "out" / "covariance.npy"
        ).read_bytes()
        if earlier is not None:
            one, other = (np.load(base / name / "covariance.npy") for name in ("before", "out"))
            earlier["difference"] = float(np.abs(one - other).max() / np.abs(one).max())
        compared_topics, compared_seconds = COMPARED_QUICK if quick else COMPARED
        small = SyntheticRates(topics=compared_topics, seconds=compared_seconds, seed=seed, daily=False)
        shutil.rmtree(base / "full")
        generate(small, base / "small")
        comparison = _compare(base / "small")
    return {
        "topics": topics,
        "seconds_of_history": seconds,
        "rows": spec.rows,
        "lake_bytes": lake_bytes,
        "generate_s": generated_s,
        "eighth": eighth,
        "full": full,
        "before": earlier,
        "scan": {**scan, "same_bytes": same_bytes},
        "growth": full["seconds"] / eighth["seconds"],
        "linear": full["rows"] / eighth["rows"],
        "comparison": {"topics": compared_topics, "rows": small.rows, **comparison},
    }


def render(result: dict[str, Any], console: Console) -> None:
    """Two tables."""
    table = Table(
        f"profile, {result['topics']} topics, every second counted",
        name_column("size"),
        *map(number_column, ("rows", "seconds", "processor s", "rows/s", "memory", "Java", "workers")),
    )
    for size in ("eighth", "full", "scan", "before"):
        one = result[size]
        if one is None:
            continue
        table.add(
            size,
            f"{one['rows']:,}",
            f"{one['seconds']:.1f}",
            f"{one['processor_s']:.1f}",
            f"{one['rows'] / one['seconds']:,.0f}",
            *(f"{one[name] / 2**30:.2f} GiB" for name in ("peak_bytes", "java_bytes", "worker_bytes")),
        )
    table.show(console)
    if earlier := result["before"]:
        full = result["full"]
        console.print(
            f"against before: {full['seconds'] / earlier['seconds']:.2f} of the time, "
            f"{full['processor_s'] / earlier['processor_s']:.2f} of the processor time, "
            f"{full['lines']:,} lines instead of {earlier['lines']:,}; "
            f"largest relative difference {earlier['difference']:.1e}"
        )
    full, scan = result["full"], result["scan"]
    console.print(
        f"against Spark's scan: {scan['seconds'] / full['seconds']:.2f} times as fast, "
        f"{scan['processor_s'] / full['processor_s']:.2f} times less processor time; "
        f"{'the same bytes' if scan['same_bytes'] else 'DIFFERENT RESULTS'}"
    )
    console.print(f"time grew {result['growth']:.2f} times while rows grew {result['linear']:.2f} times")
    same = result["comparison"]
    table = Table(
        f"the same statistics, {same['rows']:,} rows, {same['topics']} topics",
        name_column("way"),
        number_column("seconds"),
        number_column("against profile"),
    )
    for way, label in (
        ("profile", "mangrove profile"),
        ("pandas", "pandas: pivot and cov"),
        ("row_matrix", "Spark: pivot and RowMatrix.computeCovariance"),
        ("correlation", "Spark: pivot and ml.stat.Correlation"),
    ):
        table.add(label, f"{same[way]:.2f}", f"{same[way] / same['profile']:.2f}")
    table.show(console)
    console.print(f"largest relative difference to pandas: {same['difference']:.1e}")


def missed(result: dict[str, Any]) -> list[str]:
    """Bars: at most linear growth, bounded memory, the same numbers."""
    problems = []
    if result["growth"] > result["linear"]:
        problems.append(f"time grew {result['growth']:.2f} times, rows {result['linear']:.2f} times")
    if result["full"]["peak_bytes"] > MEMORY_BAR_BYTES:
        problems.append(f"{result['full']['peak_bytes'] / 2**30:.1f} GiB of memory; at most 8 are allowed")
    if (earlier := result["before"]) and result["full"]["seconds"] > earlier["seconds"]:
        problems.append(f"{result['full']['seconds']:.1f} s; before {earlier['seconds']:.1f} s")
    if earlier and earlier["difference"] > 1e-12:
        problems.append(f"differs from before by {earlier['difference']:.1e}")
    if not result["scan"]["same_bytes"]:
        problems.append("what Spark's scan reads gives another result")
    if result["comparison"]["difference"] > 1e-6:
        problems.append(f"differs from pandas by {result['comparison']['difference']:.1e}")
    return problems


def _profile(
    lake: Path,
    output: Path,
    checkout: Path = HERE,
    program: tuple[str, ...] = ("-m", "mangrove.cli.main"),
) -> dict[str, Any]:
    command = [sys.executable, *program, "pipeline", "profile", "--input", str(lake)]
    command += ["--output", str(output), "--peak", "all", "--capacity", "1e6", "--brokers", "3", "--json"]
    found = weighed(command, checkout)
    summary = json.loads(found.pop("answer"))
    modules = [*checkout.glob(f"{PIPELINES}/rates/*.py"), *checkout.glob(f"{PIPELINES}/jobs/profile*.py")]
    lines = sum(len(module.read_text().splitlines()) for module in modules)
    return {"rows": summary["rows"], "seconds": summary["seconds"], "lines": lines, **found}


def _compare(lake: Path) -> dict[str, float]:
    """Each way twice, the second one counts: by then Spark has its workers and Java its machine code."""
    from mangrove.pipelines.jobs.profile import ProfileSettings, profile
    from mangrove.pipelines.rates.peaks import parse_peak
    from mangrove.pipelines.spark_session import session

    settings = ProfileSettings(peak=parse_peak("all"), shrinkage=0.0)
    with session(memory="3g") as spark:
        ours_s, ours = _second(lambda: profile(spark, str(lake), settings).statistics.covariance)
        pandas_s, plain = _second(lambda: _pandas(lake))
        matrix_s, by_matrix = _second(lambda: _row_matrix(spark, lake))
        correlation_s, _ = _second(lambda: _correlation(spark, lake))
    scale = np.abs(plain).max()
    difference = max(float(np.abs(other - plain).max() / scale) for other in (ours, by_matrix))
    return {
        "profile": ours_s,
        "pandas": pandas_s,
        "row_matrix": matrix_s,
        "correlation": correlation_s,
        "difference": difference,
    }


def _second(work: Any) -> tuple[float, Any]:
    work()
    started = time.perf_counter()
    answer = work()
    return time.perf_counter() - started, answer


def _pandas(lake: Path) -> Any:
    import pandas as pd
    import pyarrow.parquet as pq

    files = sorted((lake / "topic_rates").rglob("*.parquet"))
    columns = ["ts", "broker", "topic", "msgs_in"]
    rows = pd.concat([pq.read_table(path, columns=columns, partitioning=None).to_pandas() for path in files])
    rows["topic"] = rows["topic"].astype(str)
    rows = rows.drop_duplicates(["ts", "broker", "topic"])
    wide = rows.pivot_table(index="ts", columns="topic", values="msgs_in", aggfunc="sum").fillna(0.0)
    return np.cov(wide.sort_index(axis=1).to_numpy(), rowvar=False)


def _vectors(spark: Any, lake: Path) -> Any:
    from pyspark.ml.feature import VectorAssembler

    rows = spark.read.parquet(str(lake / "topic_rates")).select("ts", "broker", "topic", "msgs_in")
    topics = sorted(row["topic"] for row in rows.select("topic").distinct().collect())
    once = rows.dropDuplicates(["ts", "broker", "topic"])
    wide = once.groupBy("ts").pivot("topic", topics).sum("msgs_in").fillna(0)
    renamed = wide.toDF("ts", *(f"t{number}" for number in range(len(topics))))
    names = [f"t{number}" for number in range(len(topics))]
    return VectorAssembler(inputCols=names, outputCol="features").transform(renamed).select("features")


def _row_matrix(spark: Any, lake: Path) -> Any:
    from pyspark.mllib.linalg import Vectors
    from pyspark.mllib.linalg.distributed import RowMatrix

    rows = _vectors(spark, lake).rdd.map(lambda row: Vectors.fromML(row["features"]))
    return RowMatrix(rows).computeCovariance().toArray()


def _correlation(spark: Any, lake: Path) -> Any:
    from pyspark.ml.stat import Correlation

    (row,) = Correlation.corr(_vectors(spark, lake), "features").collect()
    return row[0].toArray()
