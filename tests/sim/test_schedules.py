"""Random failure schedules keep all promises; and the checks would notice if one did not."""

from __future__ import annotations

import pytest

from mangrove.evaluation.schedules import make_schedule, run_schedule, run_schedules
from mangrove.overlay.frames import Frame
from mangrove.overlay.outgoing import Outgoing
from mangrove.overlay.seen_frames import SeenFrames, Verdict

CHUNK = 50


def check(seeds: range) -> None:
    totals = run_schedules(seeds)
    assert not totals.broken, "\n".join(str(result) for result in totals.broken)
    assert totals.promised > totals.schedules, "hardly any schedule tests a promise"


@pytest.mark.parametrize("first", range(1, 251, CHUNK))
def test_promises_hold(first: int) -> None:
    check(range(first, first + CHUNK))


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_promises_hold_over_ten_thousand_schedules() -> None:
    check(range(1, 10_001))


def test_a_seed_repeats_everything() -> None:
    assert make_schedule(7).faults == make_schedule(7).faults
    assert run_schedule(7) == run_schedule(7)
    assert run_schedule(7) != run_schedule(8)


def test_a_failing_seed_comes_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without repair of what was not acknowledged, messages are lost, and the report says how to see it."""

    def forget(self: Outgoing, now: float) -> list[Frame]:
        restart(self, now)
        return []

    restart = Outgoing.restart
    monkeypatch.setattr(Outgoing, "restart", forget)
    broken = run_schedules(range(1, 31)).broken
    assert any("lost" in problem for result in broken for problem in result.problems)
    assert f"mangrove evaluate schedules --seeds 1 --seed {broken[0].seed}" in str(broken[0])


def test_duplicates_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SeenFrames, "check", lambda *_: Verdict.NEW)
    broken = run_schedules(range(1, 6)).broken
    assert any("2 times" in problem for result in broken for problem in result.problems)
