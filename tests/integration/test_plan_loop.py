"""The closed loop on real brokers: load, Spark's profile, allocation, plan, and less overload as promised."""

from __future__ import annotations

from pathlib import Path

import pytest

from mangrove.testbed.plans.scenario import PlanLoop
from mangrove.testbed.plans.workload import GROUPS


@pytest.mark.soak
@pytest.mark.timeout(600)
async def test_a_plan_does_to_brokers_what_it_promised(tmp_path: Path) -> None:
    report = await PlanLoop(tmp_path, seed=1, seconds=60.0).run()
    assert report.account.exact
    assert report.moved_topics >= GROUPS
    for name in ("predicted", "measured"):
        before = sum(getattr(edge, name) for edge in report.before)
        after = sum(getattr(edge, name) for edge in report.after)
        assert after < before, name
