"""Random failure schedules keep all promises; and the checks would notice if one did not."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, count

import pytest

from mangrove.errors import MangroveError
from mangrove.overlay.delivery.resequencer import Resequencer
from mangrove.overlay.delivery.seen_frames import SeenFrames, Verdict
from mangrove.overlay.links.outgoing import Outgoing
from mangrove.overlay.protocol.frames import Frame
from mangrove.overlay.routes import reconsideration
from mangrove.overlay.routes.path_choice import Choice, choose_paths, judged
from mangrove.overlay.routes.path_pool import candidate_paths
from mangrove.overlay.routes.path_view import PathView, SitePath
from mangrove.simulation.schedules.batch import ScheduleTotals, by_network, run_schedules
from mangrove.simulation.schedules.run import QUIET_EVERY, ScheduleResult, run_schedule
from mangrove.simulation.schedules.schedule import make_schedule

CHUNK = 50


def check(seeds: range, workers: int = 1) -> None:
    totals = run_schedules(seeds, workers=workers)
    assert not totals.broken, "\n".join(str(result) for result in totals.broken)
    assert totals.promised > totals.schedules, "hardly any schedule tests a promise"


@pytest.mark.parametrize("first", range(1, 151, CHUNK))
def test_promises_hold(first: int) -> None:
    check(range(first, first + CHUNK))


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_promises_hold_over_ten_thousand_schedules() -> None:
    check(range(1, 10_001), workers=os.cpu_count() or 1)


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


def test_disorder_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Resequencer, "arrived", lambda _, frame, __: [frame])
    broken = run_schedules([38, 52, 53]).broken
    assert any("out of order" in problem for result in broken for problem in result.problems)


def test_routes_that_go_back_and_forth_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source that takes other paths at every look, though nothing happens."""
    assert not run_schedule(QUIET_EVERY).problems
    turns = count()

    def others(view: PathView, kept: Sequence[SitePath] = ()) -> Choice:
        ways = candidate_paths(view, ())
        pairs = list(combinations(ways, 2))
        return judged(view, pairs[next(turns) % len(pairs)]) if pairs else choose_paths(view, kept)

    monkeypatch.setattr(reconsideration, "choose_paths", others)
    monkeypatch.setattr(reconsideration, "worth_improving", lambda *_: True)
    result = run_schedule(QUIET_EVERY)
    assert any("although all was quiet" in problem for problem in result.problems)


def test_seeds_are_grouped_by_their_networks() -> None:
    groups = by_network(range(1, 401))
    assert sorted(seed for group in groups for seed in group) == list(range(1, 401))
    networks = [{make_schedule(seed).setting for seed in group} for group in groups]
    assert all(len(network) == 1 for network in networks)
    assert len(set.union(*networks)) == len(groups)


def test_totals_do_not_depend_on_the_order() -> None:
    results = [replace(run_schedule(seed), problems=("broken",)) for seed in range(1, 11)]
    upwards, downwards = ScheduleTotals(), ScheduleTotals()
    for up, down in zip(results, reversed(results), strict=True):
        upwards.add(up)
        downwards.add(down)
    assert upwards == downwards
    assert downwards.broken == results


def test_totals_do_not_depend_on_the_number_of_workers() -> None:
    seeds = range(1, 13)
    results: list[ScheduleResult] = []
    assert run_schedules(seeds, results.append, workers=2) == run_schedules(seeds)
    assert sorted(results, key=lambda result: result.seed) == [run_schedule(seed) for seed in seeds]


def test_a_worker_that_dies_is_an_error() -> None:
    others = multiprocessing.active_children()

    def kill_a_worker(_: ScheduleResult) -> None:
        for process in multiprocessing.active_children():
            if process not in others:
                process.kill()
                break

    with pytest.raises(MangroveError, match="ended before its time"):
        run_schedules(range(1, 41), kill_a_worker, workers=2)
    assert multiprocessing.active_children() == others


def test_workers_end_when_the_run_is_interrupted() -> None:
    others = multiprocessing.active_children()

    def interrupt(_: ScheduleResult) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_schedules(range(1, 1001), interrupt, workers=2)
    assert multiprocessing.active_children() == others
