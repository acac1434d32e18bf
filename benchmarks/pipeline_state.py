"""`profile --state` after one new day of thirty, against a full run: time, and the same bytes.

Both run in one Spark session that has done the same work before, so that neither pays for starting Java. The
session's memory and cores are the same.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from mangrove.cli.tables.table import Table, name_column, number_column

DAYS = 30
TOPICS, TOPICS_QUICK = 40, 4
BAR = 0.1
LAST = "date=2026-03-31"


def run(seed: int, quick: bool) -> dict[str, Any]:
    """Generate thirty days, keep the state of all but the last, and add the last one."""
    from mangrove.pipelines.jobs.profile import Brokers, ProfileSettings, profile, write_profile
    from mangrove.pipelines.rates.peaks import parse_peak
    from mangrove.pipelines.spark_session import session
    from mangrove.pipelines.synthetic.rates import SyntheticRates, generate

    settings = ProfileSettings(peak=parse_peak("all"))
    with tempfile.TemporaryDirectory(prefix="mangrove-bench-") as name, session(memory="3g") as spark:
        base = Path(name)
        spec = SyntheticRates(
            topics=TOPICS_QUICK if quick else TOPICS,
            seconds=DAYS * 86400,
            file_s=3 * 3600,
            start=datetime(2026, 3, 2, tzinfo=UTC),
            seed=seed,
        )
        generate(spec, base / "lake")
        last = base / "lake" / "topic_rates" / LAST

        def result(place: str, state: Path | None) -> dict[str, bytes]:
            found = profile(spark, str(base / "lake"), settings, state=state)
            write_profile(found, Brokers(("a", "b"), (1e6, 1e6)), base / place)
            return {path.name: path.read_bytes() for path in (base / place).iterdir()}

        last.rename(base / "aside")
        _, first_s = _timed(lambda: result("kept", base / "state"))
        shutil.move(str(base / "aside"), last)
        kept, kept_s = _timed(lambda: result("kept", base / "state"))
        full, full_s = _timed(lambda: result("full", None))
        state_bytes = sum(path.stat().st_size for path in (base / "state").rglob("*") if path.is_file())
        lake_bytes = sum(path.stat().st_size for path in (base / "lake").rglob("*") if path.is_file())
    return {
        "rows": spec.rows,
        "topics": spec.topics,
        "lake_bytes": lake_bytes,
        "state_bytes": state_bytes,
        "first_s": first_s,
        "incremental_s": kept_s,
        "full_s": full_s,
        "share": kept_s / full_s,
        "identical": kept == full,
    }


def render(result: dict[str, Any], console: Console) -> None:
    """One table."""
    table = Table(
        f"profile of {DAYS} days, {result['rows']:,} rows of {result['topics']} topics",
        name_column("run"),
        number_column("seconds"),
        number_column("of the full run"),
    )
    for label, key in (
        ("all rows", "full_s"),
        ("29 days into a new state", "first_s"),
        ("one new day", "incremental_s"),
    ):
        table.add(label, f"{result[key]:.1f}", f"{result[key] / result['full_s']:.3f}")
    table.show(console)
    console.print(
        f"state {result['state_bytes'] / 2**20:.0f} MiB, lake {result['lake_bytes'] / 2**20:.0f} MiB; "
        f"{'the same bytes' if result['identical'] else 'DIFFERENT RESULTS'}"
    )


def missed(result: dict[str, Any]) -> list[str]:
    """Bars: a tenth of the time, the same bytes."""
    problems = [] if result["identical"] else ["the results of the state and of the full run differ"]
    if result["share"] > BAR:
        problems.append(f"one new day took {result['share']:.1%} of the full run's time; at most {BAR:.0%}")
    return problems


def _timed(work: Callable[[], dict[str, bytes]]) -> tuple[dict[str, bytes], float]:
    started = time.perf_counter()
    answer = work()
    return answer, time.perf_counter() - started
