"""What task times tell about serial parts."""

from __future__ import annotations

import pytest
from benchmarks.pipeline_workers import figures


def test_time_without_tasks_and_unbalanced_stages_are_seen() -> None:
    times = [(0, 1.0, 5.0), (0, 1.0, 3.0), (1, 6.0, 8.0), (1, 6.0, 8.0), (2, 90.0, 99.0)]
    events = [
        {
            "Event": "SparkListenerTaskEnd",
            "Stage ID": stage,
            "Task Info": {"Launch Time": launch * 1e3, "Finish Time": finish * 1e3},
        }
        for stage, launch, finish in times
    ]
    found = figures([{"Event": "SparkListenerJobStart"}, *events], 0.0, 10.0, 2)
    assert found["driver_share"] == pytest.approx(0.4)
    assert found["idle_share"] == pytest.approx(0.5)
    assert [stage["balance"] for stage in found["stages"]] == pytest.approx([0.75, 1.0])
