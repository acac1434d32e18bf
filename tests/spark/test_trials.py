"""Trials on Spark's executors: the same bytes as in this process, for every experiment; failures are told."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mangrove.errors import MangroveError
from mangrove.evaluation.allocation import AllocationCase, allocation_trials
from mangrove.evaluation.allocation import Setting as AllocationSetting
from mangrove.evaluation.budgets import budgets_trials
from mangrove.evaluation.drd.runs import Methods, drd_trials
from mangrove.evaluation.failover import failover_trials
from mangrove.evaluation.fdcc.runs import fdcc_trials
from mangrove.evaluation.fdcc.setting import Setting as FdccSetting
from mangrove.evaluation.resilience.year import YearSetting, year_trials
from mangrove.evaluation.separation.backbones import backbone
from mangrove.evaluation.separation.gap import GapCase, GapSetup, backbone_setup, gap_trials
from mangrove.evaluation.trials.experiment import MAIN, Experiment, Played, Task
from mangrove.evaluation.trials.schedules import leaders_trials, schedules_trials, sessions_trials
from mangrove.pipelines.trials.spark_runner import SparkRunner, explained
from mangrove.planning.solvers.genetic import GeneticParams

POLSKA = backbone("sndlib/polska")
SMALL = GapSetup(nodes=60, m=3, overlay=20, pairs=6, regions=10)
EXPERIMENTS: dict[str, tuple[Experiment[Any, Any], int]] = {
    "drd": (drd_trials({MAIN: Methods(methods=("drd", "peer")), "drd": Methods(methods=("drd",))}), 3),
    "fdcc": (fdcc_trials({MAIN: FdccSetting()}), 2),
    "gap": (gap_trials(GapCase(SMALL, with_pairs=True)), 4),
    "gap on a backbone": (gap_trials(GapCase(backbone_setup(POLSKA, 6, 10), POLSKA)), 2),
    "failover": (failover_trials(((6, 9),)), 1),
    "budgets": (budgets_trials(("first",), seconds=0.5), 1),
    "allocation": (
        allocation_trials(
            AllocationCase(AllocationSetting(items=12, round_robin_orders=10), GeneticParams(generations=10))
        ),
        2,
    ),
    "resilience": (year_trials(YearSetting(5 * 86400.0)), 2),
    "schedules": (schedules_trials(), 6),
    "lying": (schedules_trials(lying=True), 2),
    "sessions": (sessions_trials(), 3),
    "leaders": (leaders_trials(), 3),
}


def texts(runner: SparkRunner, experiment: Experiment[Any, Any], tasks: list[Task]) -> dict[Task, str]:
    found: dict[Task, str] = {}

    def take(one: Played) -> None:
        assert not one.error, one.error
        assert one.task not in found
        found[one.task] = one.text

    runner.run(experiment.player, experiment.in_order(tasks), take)
    return found


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_executors_give_the_same_bytes(name: str, spark: SparkSession) -> None:
    experiment, seeds = EXPERIMENTS[name]
    tasks = experiment.tasks(range(1, seeds + 1))
    here = {task: experiment.player(task).text for task in tasks}
    assert texts(SparkRunner(spark), experiment, tasks) == here
    assert all(experiment.read(text) is not None for text in here.values())


def worker(_: None, seed: int) -> int:
    if seed == 40:
        raise ValueError("forty")
    return os.getpid()


def test_many_tasks_in_rounds(spark: SparkSession) -> None:
    """All are played once, by processes other than this; one that fails is told, and the others are there."""
    experiment = Experiment("workers", worker, {MAIN: None}, int)
    tasks = experiment.tasks(range(3000))
    found: dict[int, Played] = {}
    runner = SparkRunner(spark)
    runner.run(experiment.player, experiment.in_order(tasks), lambda one: found.update({one.task.seed: one}))
    assert sorted(found) == list(range(3000))
    assert [seed for seed, one in found.items() if one.error] == [40]
    assert found[40].reason == "ValueError: forty"
    assert str(os.getpid()) not in {one.text for one in found.values()}


def test_chunks_follow_the_time_a_task_takes(spark: SparkSession) -> None:
    runner = SparkRunner(spark)
    tasks = list(range(100_000))
    runner._cores, runner._looked_at = 4, time.monotonic()
    sizes = {}

    def sizes_at(first: int) -> list[int]:
        chunks = runner._next_round(tasks, first, None, busy=False)  # type: ignore[arg-type]
        return [len(chunk) for chunk in chunks]

    for task_s in (0.001, 0.1, 10.0):
        runner._task_s = task_s
        sizes[task_s] = sizes_at(0)
    assert sizes == {0.001: [1000] * 16, 0.1: [10] * 16, 10.0: [1] * 4}
    runner._task_s = 0.001
    assert sizes_at(99_968) == [2] * 16


class Absent:
    """Something whose module executors do not have."""

    def __reduce__(self) -> tuple[Any, ...]:
        return __import__, ("a_library_of_this_machine",)


def test_a_library_that_executors_lack_is_named(spark: SparkSession) -> None:
    with pytest.raises(MangroveError, match="Python lacks a_library_of_this_machine") as error:
        SparkRunner(spark).run(Absent(), [[Task(MAIN, 1)]], print)  # type: ignore[arg-type]
    assert "PYSPARK_PYTHON" in str(error.value.hint)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
            "ModuleNotFoundError: No module named 'pyarrow'\n",
            "the executors' Python lacks pyarrow",
        ),
        ("[PACKAGE_NOT_INSTALLED] PyArrow >= 18.0.0 must be installed; …", "Python lacks PyArrow"),
        (
            "Job aborted due to stage failure:\norg.apache.spark.SparkException: all masters are gone\n\tat",
            "Spark failed: org.apache.spark.SparkException: all masters are gone",
        ),
        (
            "An error occurred while calling o154.collectToPython.\n: org.apache.spark.SparkException: "
            "Job 3 cancelled because SparkContext was shut down\n\tat org.apache.spark.Scheduler",
            "Spark failed: Job 3 cancelled because SparkContext was shut down",
        ),
        ("Connection refused", "Spark failed: Connection refused"),
        ("", "Spark failed: it does not say why"),
    ],
)
def test_what_spark_says_is_told_in_words(text: str, words: str) -> None:
    assert words in str(explained(text))


def nap(_: None, seed: int) -> int:
    time.sleep(0.0 if seed < 2 else 600.0)
    return seed


def test_ctrl_c_ends_what_is_under_way(spark: SparkSession) -> None:
    experiment = Experiment("naps", nap, {MAIN: None}, int)
    groups = [[task] for task in experiment.tasks(range(8))]
    heard: list[Played] = []

    def take(one: Played) -> None:
        heard.append(one)
        if len(heard) == 2:
            threading.Timer(2.0, os.kill, (os.getpid(), signal.SIGINT)).start()

    with pytest.raises(KeyboardInterrupt):
        SparkRunner(spark).run(experiment.player, groups, take)
    # The cores are free again, long before those who nap would wake.
    assert texts(SparkRunner(spark), experiment, experiment.tasks(range(2))) == {
        Task(MAIN, 0): "0",
        Task(MAIN, 1): "1",
    }
