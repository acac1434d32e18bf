"""Trials: the same bytes wherever they are played, in any order; one that fails does not lose the others."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.errors import InputError, MangroveError
from mangrove.evaluation.trials.campaign import collect
from mangrove.evaluation.trials.experiment import MAIN, Experiment, Played, Task, to_text
from mangrove.evaluation.trials.runner import LocalRunner
from mangrove.evaluation.trials.source_code import code_digest


@dataclass(frozen=True)
class Shape:
    """A setting."""

    scale: float
    failing: tuple[int, ...] = ()


@dataclass(frozen=True)
class Drawn:
    """A result."""

    seed: int
    value: float
    by_radius: dict[float, tuple[int, ...]]


def draw(shape: Shape, seed: int) -> Drawn:
    if seed in shape.failing:
        raise ValueError(f"seed {seed} is out of luck")
    value = float(np.random.default_rng(seed).normal()) * shape.scale
    return Drawn(seed, value, {0.5: (seed,), math.inf: ()})


def trials(**settings: Shape) -> Experiment[Shape, Drawn]:
    return Experiment("draws", draw, settings or {MAIN: Shape(2.0)}, Drawn)


numbers = st.floats(allow_nan=False)


@given(st.integers(), numbers, st.dictionaries(numbers, st.lists(st.integers()).map(tuple), max_size=3))
def test_results_come_back_bit_for_bit(
    seed: int, value: float, by_radius: dict[float, tuple[int, ...]]
) -> None:
    result = Drawn(seed, value, by_radius)
    text = to_text(result)
    assert trials().read(text) == result
    assert to_text(trials().read(text)) == text


def test_what_is_no_number_comes_back() -> None:
    assert math.isnan(trials().read(to_text(Drawn(1, math.nan, {}))).value)


@given(numbers, numbers)
def test_settings_that_differ_have_other_identities(one: float, other: float) -> None:
    found = trials(one=Shape(one), other=Shape(other)).identities
    assert (found["one"] == found["other"]) == (repr(one) == repr(other))


@given(st.lists(st.integers(0, 500), unique=True), st.integers(1, 7))
def test_order_is_repeatable_and_keeps_together_what_belongs_together(seeds: list[int], parts: int) -> None:
    experiment = replace(trials(), together=lambda seed: seed % parts)
    tasks = experiment.tasks(seeds)
    groups = experiment.in_order(tasks)
    assert groups == experiment.in_order(tasks)
    assert sorted(task for group in groups for task in group) == sorted(tasks)
    kinds = [{task.seed % parts for task in group} for group in groups]
    assert all(len(kind) == 1 for kind in kinds)
    assert len(groups) == len({seed % parts for seed in seeds})


def test_processes_give_the_same_as_this_one() -> None:
    experiment = trials(near=Shape(1.0), far=Shape(1e9))
    tasks = experiment.tasks(range(1, 31))
    here = collect(experiment, tasks)
    assert collect(experiment, tasks, LocalRunner(2)) == here
    assert here.seeds("far") == tuple(range(1, 31))
    assert [one.seed for one in here.of("far")] == list(range(1, 31))


@pytest.mark.parametrize("workers", [1, 2])
def test_a_trial_that_fails_is_told_and_does_not_lose_the_others(workers: int) -> None:
    experiment = trials(main=Shape(1.0, failing=(3, 5)))
    found = collect(experiment, experiment.tasks(range(1, 9)), LocalRunner(workers))
    assert found.seeds(MAIN) == (1, 2, 4, 6, 7, 8)
    assert [str(one.task) for one in found.failed] == ["seed 3", "seed 5"]
    assert found.failed[0].reason == "ValueError: seed 3 is out of luck"
    assert "in draw" in found.failed[0].error


def test_nothing_but_failures_is_an_error() -> None:
    experiment = trials(main=Shape(1.0, failing=(1,)))
    found = collect(experiment, experiment.tasks([1]))
    with pytest.raises(MangroveError, match="seed 1: ValueError: seed 1 is out of luck"):
        found.of(MAIN)


def test_text_of_something_else_is_refused() -> None:
    for text in ("{}", "no JSON", '{"seed": "one"}'):
        with pytest.raises(InputError, match="no result of `evaluate draws`"):
            trials().read(text)


def test_tasks_are_named_by_what_tells_them_apart() -> None:
    assert str(Task(MAIN, 7)) == "seed 7"
    assert str(Task("half", 7)) == "half, seed 7"
    assert Played(Task(MAIN, 7), "").reason == ""


def test_the_digest_of_the_code_is_steady() -> None:
    assert code_digest() == code_digest()
    assert len(code_digest()) == 12
