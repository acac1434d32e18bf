"""All tasks of an experiment: those that were played before are read, the others are played, and kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from mangrove.errors import MangroveError
from mangrove.evaluation.trials.experiment import Experiment, Played, Task
from mangrove.evaluation.trials.runner import LocalRunner, Runner

if TYPE_CHECKING:
    from mangrove.evaluation.trials.results_directory import ResultsDirectory

Setting = TypeVar("Setting")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Results(Generic[Result]):
    """What came of all tasks, whoever played them and in whatever order."""

    by_setting: dict[str, dict[int, Result]] = field(default_factory=dict)
    """By the name of the setting and the seed, in the order in which tasks were given."""
    failed: list[Played] = field(default_factory=list)

    def seeds(self, setting: str) -> tuple[int, ...]:
        """Seeds whose trials gave a result."""
        return tuple(self._of(setting))

    def of(self, setting: str) -> list[Result]:
        """The results under a setting, in the order of `seeds`."""
        return list(self._of(setting).values())

    def _of(self, setting: str) -> dict[int, Result]:
        found = self.by_setting.get(setting, {})
        if not found:
            first = next((one for one in self.failed if one.task.setting == setting), None)
            reason = "none was played" if first is None else f"{first.task}: {first.reason}"
            raise MangroveError(f"no trial gave a result: {reason}")
        return found


def play(
    experiment: Experiment[Setting, Result],
    tasks: Sequence[Task],
    runner: Runner,
    take: Callable[[Task, Result], None],
    directory: ResultsDirectory | None = None,
    on_played: Callable[[Played], None] | None = None,
) -> list[Played]:
    """Hand every result to `take`, in any order; those that failed are returned, in the order of tasks.

    Results that the directory has are not played again. `on_played` hears of every one that was played.
    """
    failed: list[Played] = []
    missing: list[Task] = []
    for task in tasks:
        text = None if directory is None else directory.found.get(task)
        if text is None:
            missing.append(task)
        else:
            take(task, experiment.read(text))

    def played(one: Played) -> None:
        if one.error:
            failed.append(one)
        else:
            if directory is not None:
                directory.add([one])
            take(one.task, experiment.read(one.text))
        if on_played is not None:
            on_played(one)

    if missing:
        runner.run(experiment.player, experiment.in_order(missing), played)
    place = {task: number for number, task in enumerate(tasks)}
    return sorted(failed, key=lambda one: place[one.task])


def collect(
    experiment: Experiment[Setting, Result], tasks: Sequence[Task], runner: Runner | None = None
) -> Results[Result]:
    """All results, in the order of tasks; played in this process unless a runner is given."""
    found: dict[Task, Result] = {}
    failed = play(experiment, tasks, runner or LocalRunner(), found.__setitem__)
    return gathered(tasks, found, failed)


def gathered(tasks: Sequence[Task], found: Mapping[Task, Result], failed: list[Played]) -> Results[Result]:
    """What `play` gave, in the order of tasks."""
    results: Results[Result] = Results(failed=failed)
    for task in tasks:
        if task in found:
            results.by_setting.setdefault(task.setting, {})[task.seed] = found[task]
    return results
