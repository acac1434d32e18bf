"""Many schedules of several agents, in one process or several, and what came of them."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from mangrove.simulation.agents.several.run import SeveralResult, run_schedule
from mangrove.simulation.worker_processes import play_all


@dataclass(slots=True)
class SeveralTotals:
    """What came of many schedules; the order in which they are added does not matter."""

    schedules: int = 0
    agents: int = 0
    faults: int = 0
    terms: int = 0
    handed_over: int = 0
    policies: int = 0
    completed: int = 0
    discarded: int = 0
    refused_writes: int = 0
    actions: int = 0
    brokers_failed: int = 0
    broken: list[SeveralResult] = field(default_factory=list)
    """Results of the schedules that broke a promise, in the order of their seeds."""

    def add(self, result: SeveralResult) -> None:
        """Count one schedule."""
        self.schedules += 1
        self.agents += result.agents
        self.faults += len(result.faults)
        self.terms += result.terms
        self.handed_over += result.handed_over
        self.policies += result.policies
        self.completed += result.completed
        self.discarded += result.discarded
        self.refused_writes += result.refused_writes
        self.actions += result.actions
        self.brokers_failed += result.brokers_failed
        if result.problems:
            insort(self.broken, result, key=lambda broken: broken.seed)


def run_schedules(
    seeds: Iterable[int], on_result: Callable[[SeveralResult], None] | None = None, workers: int = 1
) -> SeveralTotals:
    """Play the schedules of all seeds; several workers are processes, and their results come in any order."""
    totals = SeveralTotals()

    def take(result: SeveralResult) -> None:
        totals.add(result)
        if on_result is not None:
            on_result(result)

    play_all(run_schedule, seeds, take, workers)
    return totals
