"""Wins, tests and intervals, against values worked out apart; and the bars of the experiment."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mangrove.evaluation.drd.comparison import pairing, spread
from mangrove.evaluation.drd.experiment import DrdResult, summarise
from mangrove.evaluation.drd.runs import METHODS, Experiment, Measured
from mangrove.evaluation.drd.setting import Setting


def test_pairing_counts_ties_and_ranks() -> None:
    found = pairing([1.0, 2.0, 3.0, 4.0, 9.0], [2.0, 4.0, 6.0, 4.0, 5.0])
    assert (found.wins, found.ties, found.losses) == (3, 1, 1)
    # ranks of 1, 2, 3 (wins) and 4 (loss): W- = 6, W+ = 4 of 10; P(W+ <= 4) = 7/16
    assert found.effect == pytest.approx(0.2)
    assert found.p == pytest.approx(7 / 16)
    assert found.win_share == pytest.approx(0.6)
    assert found.mean_difference == pytest.approx((-1 - 2 - 3 + 0 + 4) / 5)


def test_no_difference_at_all_is_no_evidence() -> None:
    found = pairing([1.0, 2.0], [1.0, 2.0])
    assert (found.ties, found.p, found.effect) == (2, 1.0, 0.0)


def test_always_less_is_the_largest_effect() -> None:
    found = pairing(list(range(60)), [each + 1 + each % 7 for each in range(60)])
    assert found.effect == 1.0
    assert found.p < 1e-10


def test_intervals_hold_the_mean_and_do_not_depend_on_when_they_are_drawn() -> None:
    values = [float(each % 10) for each in range(200)]
    found = spread(values, 1)
    assert found == spread(values, 1)
    assert found.mean == pytest.approx(4.5)
    assert found.mean_95[0] < found.mean < found.mean_95[1]
    assert found.median_95[0] <= found.median <= found.median_95[1]
    assert found.largest == 9.0


def measured(delay: float, offloads: int) -> Measured:
    return Measured(delay, offloads, delay, offloads, 1, 0, 1e-4, 1e-4)


def result(count: int = 60, **changed: tuple[float, int]) -> DrdResult:
    given = {"drd": (0.1, 1), "peer": (5.0, 20), "peer_drd": (2.0, 22), "drd_optimal": (0.05, 1), **changed}
    one: Experiment = {method: measured(*given[method.replace("-", "_")]) for method in METHODS}
    experiments = tuple(
        {name: replace(each, delay=each.delay * (1 + seed / 1000)) for name, each in one.items()}
        for seed in range(count)
    )
    return summarise(tuple(range(1, count + 1)), Setting(), experiments)


def test_bars_are_reached_or_named() -> None:
    assert result().missed() == []
    assert any("offloads" in line for line in result(drd=(0.1, 20)).missed())
    assert any("less delay" in line for line in result(drd=(6.0, 1)).missed())
    assert any("between" in line for line in result(peer_drd=(7.0, 22)).missed())
    assert any("drd-optimal" in line for line in result(drd_optimal=(0.2, 1)).missed())


def test_a_few_experiments_are_not_held_against_the_significance() -> None:
    assert result(5).missed() == []
    assert result(5).pairs["drd-peer"].delay.p > 1e-3


def test_what_differs_from_the_thesis_is_said_apart_from_the_bars() -> None:
    assert result().differs() == []
    unlike = result(drd=(0.1, 20))
    assert any("offloads" in line and "97.6%" in line for line in unlike.differs())
    assert any("not between" in line for line in result(peer_drd=(7.0, 22)).differs())
