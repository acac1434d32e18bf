"""Every method on every experiment, in one process or in several: the result is the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mangrove.evaluation.drd.setting import Setting
from mangrove.evaluation.drd.trial import Trial, run_trial
from mangrove.evaluation.drd.workload import REGISTERED_S, draw_workload
from mangrove.evaluation.trials import experiment as trials
from mangrove.evaluation.trials.campaign import collect
from mangrove.evaluation.trials.experiment import MAIN
from mangrove.evaluation.trials.runner import LocalRunner

METHODS = ("drd", "peer", "peer-drd", "drd-optimal")


@dataclass(frozen=True, slots=True)
class Measured:
    """What is compared of one method on one experiment."""

    delay: float
    """The sum of relative offloading delays: Od of the thesis."""
    offloads: int
    delay_after: float
    """The same from when all clients had registered."""
    offloads_after: int
    subscribers: int
    """How many were told to move."""
    overload_s: int
    overhead_capacity: float
    """Detection's messages by matching capacity (table 4-9), in the mean over the edges."""
    overhead_exchange: float
    """The same by the messages that the edges exchanged (the text of §4.5.3)."""


Experiment = dict[str, Measured]
"""All methods on the same workload."""


@dataclass(frozen=True, slots=True)
class Methods:
    """A setting, and the methods that are compared under it."""

    setting: Setting = field(default_factory=Setting)
    methods: tuple[str, ...] = METHODS


def run_seed(given: Methods, seed: int) -> Experiment:
    """One workload, drawn once, and every method on it."""
    workload = draw_workload(seed, given.setting.ranges)
    capacities = workload.capacity_msg_s
    overhead = sum(1 / each for each in capacities) / len(capacities)
    return {
        method: _measured(run_trial(workload, method, given.setting), overhead) for method in given.methods
    }


def run_seeds(
    seeds: Sequence[int], setting: Setting, methods: Sequence[str] = METHODS, *, workers: int = 1
) -> list[Experiment]:
    """The experiments of all seeds, in their order."""
    given = drd_trials({MAIN: Methods(setting, tuple(methods))})
    return collect(given, given.tasks(seeds), LocalRunner(workers)).of(MAIN)


def drd_trials(settings: Mapping[str, Methods]) -> trials.Experiment[Methods, Experiment]:
    """The experiment as trials."""
    return trials.Experiment("drd", run_seed, settings, Experiment)


def _measured(trial: Trial, overhead_capacity: float) -> Measured:
    exchanges = trial.exchange_msg_s
    return Measured(
        delay=trial.delay(),
        offloads=trial.count(),
        delay_after=trial.delay(REGISTERED_S),
        offloads_after=trial.count(REGISTERED_S),
        subscribers=sum(one.subscribers for one in trial.offloads),
        overload_s=trial.overload_s,
        overhead_capacity=overhead_capacity,
        overhead_exchange=sum(1 / each for each in exchanges) / len(exchanges),
    )
