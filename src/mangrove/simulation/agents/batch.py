"""Many schedules of bursts and faults, in one process or several, and what came of them."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from mangrove.simulation.agents.run import SessionsResult, run_schedule
from mangrove.simulation.worker_processes import play_all


@dataclass(slots=True)
class SessionsTotals:
    """What came of many schedules; the order in which they are added does not matter."""

    schedules: int = 0
    faults: int = 0
    sessions: int = 0
    moved: int = 0
    between_domains: int = 0
    deaths: int = 0
    resumed: int = 0
    stale: int = 0
    cuts: int = 0
    limited: int = 0
    relieved: int = 0
    broken: list[SessionsResult] = field(default_factory=list)
    """Results of the schedules that broke a promise, in the order of their seeds."""

    def add(self, result: SessionsResult) -> None:
        """Count one schedule."""
        self.schedules += 1
        self.faults += len(result.faults)
        self.sessions += result.sessions
        self.moved += result.moved
        self.between_domains += result.between_domains
        self.deaths += result.deaths
        self.resumed += result.resumed
        self.stale += result.stale
        self.cuts += len(result.cuts)
        self.limited += result.limited
        self.relieved += result.relieved
        if result.problems:
            insort(self.broken, result, key=lambda broken: broken.seed)


def run_schedules(
    seeds: Iterable[int], on_result: Callable[[SessionsResult], None] | None = None, workers: int = 1
) -> SessionsTotals:
    """Play the schedules of all seeds; several workers are processes, and their results come in any order."""
    totals = SessionsTotals()

    def take(result: SessionsResult) -> None:
        totals.add(result)
        if on_result is not None:
            on_result(result)

    play_all(run_schedule, seeds, take, workers)
    return totals
