"""Several agents keep all promises under crashes, stalls and partitions; the checks would notice if not."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from mangrove.control.election.election import Election
from mangrove.control.election.standing import Standing
from mangrove.control.instructions import Instruction
from mangrove.control.policies.holdings import Holdings
from mangrove.control.policies.phases import Phase
from mangrove.control.policies.replication import Replication
from mangrove.simulation.agents.several.batch import run_schedules
from mangrove.simulation.agents.several.run import run_schedule
from mangrove.simulation.agents.several.schedule import make_schedule
from mangrove.simulation.agents.several.store import SharedStore

CHUNK = 15


@pytest.mark.parametrize("first", range(1, 61, CHUNK))
def test_promises_hold(first: int) -> None:
    totals = run_schedules(range(first, first + CHUNK))
    assert not totals.broken, "\n".join(map(str, totals.broken))
    assert totals.terms > totals.schedules, "hardly anybody took over"
    assert totals.policies > totals.schedules, "hardly any policy came in force"


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_promises_hold_over_ten_thousand_schedules() -> None:
    totals = run_schedules(range(1, 10_001), workers=os.cpu_count() or 1)
    assert not totals.broken, "\n".join(map(str, totals.broken))
    assert totals.completed > 100
    assert totals.refused_writes > 100


def test_a_seed_repeats_everything() -> None:
    assert make_schedule(7) == make_schedule(7)
    assert run_schedule(7) == run_schedule(7)


def first_problem(about: str, seeds: range) -> bool:
    """Whether some schedule breaks a promise of this kind; the rest need not be played."""
    return any(about in problem for seed in seeds for problem in run_schedule(seed).problems)


def test_a_leader_that_does_not_look_at_its_lease_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def held(self: Election, _now: float) -> bool:
        return self.standing in (Standing.LEADING, Standing.UNSURE)

    monkeypatch.setattr(Election, "held", held)
    assert first_problem("acts", range(1, 30))


def test_a_store_without_a_fence_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = SharedStore.__init__

    def without(self: SharedStore, problem: Callable[[str], None]) -> None:
        begin(self, problem)
        self.fenced = False

    monkeypatch.setattr(SharedStore, "__init__", without)
    assert first_problem("came about in term", range(1, 60))


def test_a_policy_that_is_in_force_before_the_store_says_so_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def commit(self: Replication, _before: list[object], now: float) -> list[Instruction]:
        self._become(Phase.COMMITTING)
        return self._committed(now)

    monkeypatch.setattr(Replication, "_commit", commit)
    assert first_problem("the store does not", range(1, 10))


def test_an_agent_that_asks_for_no_policy_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Holdings, "_want", lambda *_args, **_kinds: None)
    assert first_problem("ends with", range(1, 10))
