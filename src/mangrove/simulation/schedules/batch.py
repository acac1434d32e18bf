"""Many failure schedules, one after the other or spread over several processes, and what came of them."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from mangrove.simulation.schedules.run import (
    ScheduleResult,
    run_changing_schedule,
    run_lying_schedule,
    run_schedule,
)
from mangrove.simulation.schedules.schedule import network_number
from mangrove.simulation.worker_processes import play_in_processes


@dataclass(slots=True)
class ScheduleTotals:
    """What came of many schedules; the order in which they are added does not matter."""

    schedules: int = 0
    faults: int = 0
    virtual_s: float = 0.0
    """In whole microseconds."""
    sent: int = 0
    lost: int = 0
    promised: int = 0
    changes: int = 0
    broken: list[ScheduleResult] = field(default_factory=list)
    """Results of the schedules that broke a promise, in the order of their seeds."""

    def add(self, result: ScheduleResult) -> None:
        """Count one schedule."""
        self.schedules += 1
        self.faults += len(result.faults)
        self.virtual_s = round(self.virtual_s + round(result.virtual_s, 6), 6)
        self.sent += result.sent
        self.lost += result.lost
        self.promised += result.promised
        self.changes += result.changes
        if result.problems:
            insort(self.broken, result, key=lambda broken: broken.seed)


def run_schedules(
    seeds: Iterable[int],
    on_result: Callable[[ScheduleResult], None] | None = None,
    workers: int = 1,
    *,
    lying: bool = False,
    changing: bool = False,
) -> ScheduleTotals:
    """Play the schedules of all seeds; several workers are processes, and their results come in any order.

    With `lying`, gateways have keys, and one of them lies. With `changing`, contracts change meanwhile.

    All schedules on one network are played by one worker, so that no network is started twice.
    """
    totals = ScheduleTotals()

    def take(result: ScheduleResult) -> None:
        totals.add(result)
        if on_result is not None:
            on_result(result)

    seeds = list(seeds)
    play = run_lying_schedule if lying else run_changing_schedule if changing else run_schedule
    groups = by_network(seeds)
    workers = min(workers, len(groups))
    if workers > 1:
        play_in_processes(play, groups, take, workers)
    else:
        for seed in seeds:
            take(play(seed))
    return totals


def by_network(seeds: Iterable[int]) -> list[list[int]]:
    """Seeds whose schedules are played on the same network, the largest group first."""
    groups: dict[int, list[int]] = {}
    for seed in seeds:
        groups.setdefault(network_number(seed), []).append(seed)
    return sorted(groups.values(), key=len, reverse=True)
