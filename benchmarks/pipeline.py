"""`profile` over a day of 2,000 topics: rows/s, memory, growth; and pandas and Spark's RowMatrix beside it.

Every profile runs in a process of its own, whose whole tree (Python, Java, Python workers) is weighed twice a
second. The comparison is at a size that pandas can hold: the same rows, the same means and covariances.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from mangrove.cli.tables.table import Table, name_column, number_column

FULL = (2000, 86400)
QUICK = (100, 7200)
COMPARED = (300, 7200)
COMPARED_QUICK = (60, 1800)
MEMORY_BAR_BYTES = 8 << 30


def run(seed: int, quick: bool) -> dict[str, Any]:
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
        full = _profile(base / "full", base / "out")
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
        "growth": full["seconds"] / eighth["seconds"],
        "linear": full["rows"] / eighth["rows"],
        "comparison": {"topics": compared_topics, "rows": small.rows, **comparison},
    }


def render(result: dict[str, Any], console: Console) -> None:
    """Two tables."""
    table = Table(
        f"profile, {result['topics']} topics, every second counted",
        name_column("size"),
        *map(number_column, ("rows", "seconds", "rows/s", "peak memory")),
    )
    for size in ("eighth", "full"):
        one = result[size]
        table.add(
            size,
            f"{one['rows']:,}",
            f"{one['seconds']:.1f}",
            f"{one['rows'] / one['seconds']:,.0f}",
            f"{one['peak_bytes'] / 2**30:.2f} GiB",
        )
    table.show(console)
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
    if result["comparison"]["difference"] > 1e-6:
        problems.append(f"differs from pandas by {result['comparison']['difference']:.1e}")
    return problems


def _profile(lake: Path, output: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "mangrove.cli.main", "pipeline", "profile", "--input", str(lake)]
    command += ["--output", str(output), "--peak", "all", "--capacity", "1e6", "--brokers", "3", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    peak = [0]
    done = threading.Event()

    def weigh() -> None:
        while not done.wait(0.5):
            peak[0] = max(peak[0], tree_bytes(process.pid))

    watcher = threading.Thread(target=weigh, daemon=True)
    watcher.start()
    answer, errors = process.communicate()
    done.set()
    watcher.join()
    if process.returncode:
        raise RuntimeError(f"profile failed: {errors[-2000:]}")
    summary = json.loads(answer)
    return {"rows": summary["rows"], "seconds": summary["seconds"], "peak_bytes": peak[0]}


def tree_bytes(root: int) -> int:
    """Resident memory of a process and its descendants, shared pages counted once (by PSS where allowed)."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = int(fields[1])
            except (OSError, ValueError, IndexError):
                continue
    wanted = {root}
    while grown := {child for child, parent in parents.items() if parent in wanted} - wanted:
        wanted |= grown
    return sum(_process_bytes(process) for process in wanted)


def _process_bytes(process: int) -> int:
    try:
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return 0


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
