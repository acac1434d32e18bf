"""`profile` of one billion rows against a sixth of them: time by row, memory of Java and of the workers.

Spark writes the rows, 2,000 topics for six days, to the directory for temporary files (some 6 GB). The
product's own settings apply to both runs.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console

from mangrove.cli.tables.table import Table, name_column, number_column
from mangrove.host.process_tree import weighed

FULL = (2000, 6)
QUICK = (40, 6)
DAY_S = 86400
MEMORY_BAR_BYTES = 8 << 30
HERE = Path(__file__).resolve().parents[1]


def run(seed: int, quick: bool) -> dict[str, Any]:
    """Generate, then profile the first day and all days."""
    from mangrove.pipelines.spark_session import session
    from mangrove.pipelines.synthetic.rates import SyntheticRates
    from mangrove.pipelines.synthetic.rates_on_spark import generate_on

    topics, days = QUICK if quick else FULL
    spec = SyntheticRates(topics=topics, seconds=days * DAY_S, seed=seed)
    with tempfile.TemporaryDirectory(prefix="mangrove-bench-") as name:
        base = Path(name)
        started = time.perf_counter()
        with session() as spark:
            rows = generate_on(spark, spec, base / "lake")
        generated_s = time.perf_counter() - started
        lake_bytes = sum(path.stat().st_size for path in (base / "lake").rglob("*.parquet"))
        day = _profile(base, "--days", "1")
        everything = _profile(base)
    return {
        "topics": topics,
        "rows": rows,
        "lake_bytes": lake_bytes,
        "generate_s": generated_s,
        "day": day,
        "all": everything,
        "by_row": (everything["seconds"] / everything["rows"]) / (day["seconds"] / day["rows"]),
    }


def render(result: dict[str, Any], console: Console) -> None:
    """One table."""
    columns = ("rows", "seconds", "rows/s", "processor s", "memory", "Java", "workers")
    table = Table(
        f"profile, {result['topics']} topics, every second counted, a lake of "
        f"{result['lake_bytes'] / 2**30:.1f} GiB",
        name_column("size"),
        *map(number_column, columns),
    )
    for size in ("day", "all"):
        one = result[size]
        table.add(
            size,
            f"{one['rows']:,}",
            f"{one['seconds']:.1f}",
            f"{one['rows'] / one['seconds']:,.0f}",
            f"{one['processor_s']:.1f}",
            *(f"{one[name] / 2**30:.2f} GiB" for name in ("peak_bytes", "java_bytes", "worker_bytes")),
        )
    table.show(console)
    console.print(f"time by row: {result['by_row']:.2f} of the smaller run's")


def missed(result: dict[str, Any]) -> list[str]:
    """Bars: at most linear growth, bounded memory."""
    problems = []
    if result["by_row"] > 1.0:
        problems.append(f"a row took {result['by_row']:.2f} times as long as in the smaller run")
    if result["all"]["peak_bytes"] > MEMORY_BAR_BYTES:
        problems.append(f"{result['all']['peak_bytes'] / 2**30:.1f} GiB of memory; at most 8 are allowed")
    return problems


def _profile(base: Path, *options: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "mangrove.cli.main", "pipeline", "profile"]
    command += ["--input", str(base / "lake"), "--output", str(base / "out"), "--peak", "all"]
    command += ["--capacity", "1e6", "--brokers", "3", "--json", *options]
    found = weighed(command, HERE)
    summary = json.loads(found.pop("answer"))
    return {"rows": summary["rows"], "seconds": summary["seconds"], **found}
