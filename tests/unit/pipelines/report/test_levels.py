"""Hours of a topic, whatever the routes by which it came."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kit.job_outputs import Elements

from mangrove.pipelines.output import write_json
from mangrove.pipelines.report.sections import SECTIONS

START = datetime(2026, 3, 2, 10, tzinfo=UTC)


def window(route: str, delivered: int, dropped: int, ratio: float | None) -> dict[str, Any]:
    return {
        "start": START,
        "domain": "north",
        "topic": "billing.eu",
        "route": route,
        "delivered": delivered,
        "dropped": dropped,
        "in_time_ratio": ratio,
    }


def tiles(directory: Path, windows: list[dict[str, Any]]) -> list[tuple[str | None, str | None]]:
    directory.mkdir()
    summary = {"target": 0.99, "routes": [], "worst_hours": [], "anomalies": []}
    write_json(directory / "summary.json", summary)
    pq.write_table(pa.Table.from_pylist(windows), directory / "windows.parquet")
    elements = Elements(SECTIONS["slo"](directory).body).found
    return [(each.get("class"), each.get("data-t")) for tag, each in elements if tag == "rect"]


FAR, NEAR = window("*>north", 90, 10, 0.5), window("north>north", 300, 0, 1.0)
UNKNOWN = window("-", 0, 0, None)


@pytest.mark.parametrize("windows", [[FAR, NEAR, UNKNOWN], [UNKNOWN, NEAR, FAR]])
def test_a_route_that_is_late_is_not_hidden_by_another(windows: list[dict[str, Any]], tmp_path: Path) -> None:
    hover = "billing.eu in north\n2026-03-02 10:00: 87.500% in time, 390 delivered"
    assert tiles(tmp_path / "slo", windows) == [("low", hover)]


def test_an_hour_of_which_nothing_is_known_has_no_tile(tmp_path: Path) -> None:
    assert tiles(tmp_path / "slo", [UNKNOWN, UNKNOWN]) == []
