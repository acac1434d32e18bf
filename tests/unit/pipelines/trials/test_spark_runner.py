"""How many cores a cluster has, asked while it works: an answer may have to wait behind rounds under way."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from mangrove.errors import MangroveError
from mangrove.pipelines.trials import spark_runner as module
from mangrove.pipelines.trials.spark_runner import ROUNDS, SparkRunner


class Session:
    """Counts how often everything under way was ended."""

    def __init__(self) -> None:
        self.interrupted = 0

    def interruptAll(self) -> None:  # noqa: N802
        self.interrupted += 1


class Cluster(SparkRunner):
    """Executors that play at once, but for the question after the first few: that waits until it is let."""

    def __init__(self, session: Session, silent_after: int) -> None:
        super().__init__(cast("Any", session))
        self.silent_after = silent_after
        self.answers = threading.Event()
        self.questions = 0
        self.waiting = 0
        self.rounds = 0
        self.together = threading.Barrier(ROUNDS, self.answers.set)

    def _ask_cores(self) -> int:
        self.questions += 1
        if self.questions > self.silent_after:
            self.waiting += 1
            assert self.waiting == 1, "one question at a time"
            assert self.answers.wait(10)
            self.waiting -= 1
        return 2 * self.questions

    def _play(self, payload: bytes, chunks: Sequence[Sequence[Any]]) -> list[Any]:
        self.rounds += 1
        if 1 < self.rounds <= 1 + ROUNDS:
            self.together.wait(10)
        self._task_s = 10.0
        return [task for chunk in chunks for task in chunk]


@pytest.fixture(autouse=True)
def always_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_AGAIN_S", 0.0)


def test_executors_that_are_busy_are_not_taken_for_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE_S", 2.0)
    # Asked before the first round, before the second, and once more while that is under way.
    cluster = Cluster(Session(), silent_after=2)
    played: list[int] = []
    cluster.run(int, [[number] for number in range(60)], played.append)
    assert sorted(played) == list(range(60))
    assert cluster.answers.is_set(), "as many rounds as ever were under way beside the question"


def test_an_answer_that_came_late_counts() -> None:
    cluster = Cluster(Session(), silent_after=1)
    with ThreadPoolExecutor(1) as threads:
        assert cluster._count_cores(threads, busy=False) == 2
        assert [cluster._count_cores(threads, busy=True) for _ in range(3)] == [2, 2, 2]
        cluster.answers.set()
        assert cluster._count_cores(threads, busy=False) == 4
    assert cluster.questions == 2


@pytest.mark.parametrize("answers", [0, 1])
def test_silence_when_nothing_is_under_way_is_told(answers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session()
    cluster = Cluster(session, silent_after=answers)
    with ThreadPoolExecutor(1) as threads:
        for _ in range(answers):
            assert cluster._count_cores(threads, busy=False) == 2
    monkeypatch.setattr(module, "PATIENCE_S", 0.05)
    with pytest.raises(MangroveError, match="no executor of the cluster has answered"):
        cluster.run(print, [[1]], print)
    assert session.interrupted == 1
    cluster.answers.set()
