"""Contracts change while links and gateways fail: all promises hold, and versions never contradict."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Collection, Sequence

import pytest

from mangrove.overlay.versions import council
from mangrove.simulation.schedules.batch import run_schedules
from mangrove.simulation.schedules.run import run_changing_schedule


def check(seeds: range, workers: int = 1) -> None:
    totals = run_schedules(seeds, workers=workers, changing=True)
    assert not totals.broken, "\n".join(str(result) for result in totals.broken)
    assert totals.promised > totals.schedules, "hardly any schedule tests a promise"
    assert totals.changes > totals.schedules, "hardly anything changes"


def test_promises_hold_while_contracts_change() -> None:
    check(range(1, 21))


@pytest.mark.parametrize("seed", [165, 690, 732, 3471, 6177, 7450])
def test_what_was_forgotten_between_two_attempts_is_sent_again(seed: int) -> None:
    """Several domains propose at once, give up, and try again: nobody has their documents any more.

    In two, a document comes just before it would be forgotten, and what speaks of it just after that.
    """
    assert run_changing_schedule(seed).problems == ()


@pytest.mark.parametrize("seed", [4049, 8135, 20_165, 72_931])
def test_what_is_stuck_in_a_link_that_loses_packets_keeps_its_turn(seed: int) -> None:
    """The contract gets other ways meanwhile; the link is given up late, and only its ends can know.

    In two, what was sent before comes through at last, and only then does the link fall silent.
    """
    assert run_changing_schedule(seed).problems == ()


def test_what_waited_for_a_gateway_that_was_away_keeps_its_turn() -> None:
    """It had moved to a flow of which that gateway had never heard, and back; it goes round by others."""
    assert run_changing_schedule(20_469).problems == ()


@pytest.mark.parametrize("seed", [7050, 7250])
def test_routes_come_to_rest_after_changes(seed: int) -> None:
    """One has a contract that another one before it hides; one is mended before it is improved."""
    assert run_changing_schedule(seed).problems == ()


def test_a_seed_means_the_same_in_every_process() -> None:
    """Whatever order sets have there. In two, somebody knows of a failure by a link that was removed."""
    told = (
        "from mangrove.simulation.schedules.run import run_changing_schedule\n"
        "print([run_changing_schedule(seed) for seed in (12, 3381, 5274)])"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", told],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONHASHSEED": each},
            text=True,
        )
        for each in ("1", "2")
    ]
    first, second = (process.communicate()[0] for process in processes)
    assert first == second
    assert "seed=5274" in first
    assert first.count("problems=()") == 3


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_promises_hold_over_ten_thousand_schedules_while_contracts_change() -> None:
    check(range(1, 10_001), workers=os.cpu_count() or 1)


def test_without_a_quorum_two_texts_of_one_version_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def anybody(domains: Collection[str], members: Sequence[str]) -> bool:
        return bool(domains)

    monkeypatch.setattr(council, "is_quorum", anybody)
    monkeypatch.setattr(council, "PREPARE_S", 0.0)
    problems = [each for seed in range(1, 8) for each in run_changing_schedule(seed).problems]
    assert any("in force in two texts" in each for each in problems)
    assert any("means two things" in each for each in problems)
