"""The experiment on leading subscribers to publishers, on a small federation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mangrove.evaluation.drawings.steering import draw_steering
from mangrove.evaluation.steering.experiment import (
    SteeringResult,
    steering_trials,
    summarise,
    summarise_variant,
)
from mangrove.evaluation.steering.trial import Trial, run_seed
from mangrove.evaluation.steering.workload import Setting, draw_workload
from mangrove.evaluation.trials.campaign import collect
from mangrove.evaluation.trials.experiment import MAIN
from mangrove.evaluation.trials.runner import LocalRunner

SMALL = Setting(domains=3, topics=6, subscribers=12)
SEEDS = (1, 2)


@pytest.fixture(scope="module")
def found() -> tuple[Trial, ...]:
    given = steering_trials({MAIN: SMALL})
    return tuple(collect(given, given.tasks(SEEDS), LocalRunner(1)).of(MAIN))


@pytest.fixture(scope="module")
def result(found: tuple[Trial, ...]) -> SteeringResult:
    return summarise(SEEDS, SMALL, found)


def test_a_trial_is_a_function_of_its_seed(found: tuple[Trial, ...]) -> None:
    assert run_seed(SMALL, 2) == found[1]
    assert draw_workload(1, SMALL) == draw_workload(1, SMALL) != draw_workload(2, SMALL)


def test_all_domains_of_a_workload_are_joined() -> None:
    for seed in range(20):
        workload = draw_workload(seed, Setting(domains=9))
        federation = workload.federation(steer=True)
        assert len(federation.reachable("d0", frozenset())) == 8


def test_links_are_spared_and_nothing_gets_worse(result: SteeringResult) -> None:
    assert result.missed() == []
    assert result.moved_mean > 0
    assert result.measures["link_msg_s"].less.wins == len(SEEDS)
    worse = replace(result, most_orders=3, overload_s=(0.0, 1.0))
    assert worse.missed() == [
        "edges are overloaded for longer with steering",
        "a subscriber was moved 3 times",
    ]


def test_it_is_drawn_and_varied(result: SteeringResult, found: tuple[Trial, ...], tmp_path: Path) -> None:
    (file,) = draw_steering(result, tmp_path)
    assert file.stat().st_size > 10_000
    variant = summarise_variant("small", found)
    assert variant.steered["link_msg_s"] < variant.home["link_msg_s"]
