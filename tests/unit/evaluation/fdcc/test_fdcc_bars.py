"""The bars of the experiment can be missed, each by itself; and what differs from the thesis is said."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from mangrove.evaluation.fdcc.experiment import FdccResult, summarise
from mangrove.evaluation.fdcc.measures import Measures
from mangrove.evaluation.fdcc.setting import Setting
from mangrove.evaluation.fdcc.trial import ARMS, Trial

PLAIN = Measures(**{each.name: 0.5 for each in fields(Measures)})


def result(count: int = 60, **fdcc: Any) -> FdccResult:
    """Experiments as they are printed, but for what is given for the controlled arm."""
    without = {"qoe": 0.2671, "uo": 0.40, "ui": 0.40, "um": 0.40, "utility_s": 100.0}
    under = {"qoe": 0.3348, "uo": 0.208, "ui": 0.243, "um": 0.239, "utility_s": 140.0} | fdcc
    experiments = []
    for seed in range(1, count + 1):
        arms = {arm: replace(PLAIN, **without) for arm in ARMS}
        arms["fdcc"] = replace(PLAIN, **under)
        arms = {
            name: replace(one, **{each: getattr(one, each) * (1 + seed / 10_000) for each in without})
            for name, one in arms.items()
        }
        experiments.append(Trial(seed, arms, dict.fromkeys(ARMS, 1.0), 2, 7, 10, 0, 20, 5, 0.01))
    return summarise(tuple(range(1, count + 1)), Setting(), tuple(experiments))


def test_what_is_printed_reaches_all_bars_and_differs_in_nothing() -> None:
    found = result()
    assert found.missed() == []
    assert found.differs() == []
    assert abs(found.qoe_gain - 0.2535) < 1e-3
    assert abs(found.load_reduced["uo"].points.mean - 0.192) < 1e-3
    assert abs(found.load_reduced["uo"].relative - 0.48) < 1e-3
    assert abs(found.utility_ratio["random"].mean - 1.4) < 1e-9


def test_each_bar_can_be_missed() -> None:
    assert any("ui" in line and "7.0%" in line for line in result(ui=0.33).missed())
    assert any("uo" in line for line in result(uo=0.1).missed())
    assert any("QoE" in line for line in result(qoe=0.27).missed())
    assert any("QoE" in line for line in result(qoe=0.40).missed())
    assert any("1.20" in line for line in result(utility_s=120.0).missed())
    assert any(line.startswith("qoe: p") for line in result(qoe=0.25).missed())


def test_a_few_experiments_are_not_held_against_the_significance() -> None:
    assert result(5).missed() == []
    assert result(5).tests["uo"].p > 1e-3


def test_how_often_control_failed_is_counted() -> None:
    found = result(4)
    failed = tuple(replace(one, relief_s=None, clear_s=None) for one in found.experiments[:1])
    control = summarise(found.seeds, Setting(), (*failed, *found.experiments[1:])).control
    assert (control.never_relieved, control.never_clear) == (1, 1)
    assert (control.relief_s, control.clear_s) == (2.0, 7.0)
    assert control.limited == 0.5


def test_what_differs_from_the_thesis_is_said() -> None:
    assert any("ui" in line and "15.7%" in line for line in result(ui=0.28).differs())
    assert any("0.3348" in line for line in result(qoe=0.36).differs())
