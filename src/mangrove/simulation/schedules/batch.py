"""Many failure schedules, one after the other or spread over several processes, and what came of them."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import threading
from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field

from mangrove.errors import MangroveError
from mangrove.simulation.schedules.run import ScheduleResult, run_schedule
from mangrove.simulation.schedules.schedule import network_number

_context = multiprocessing.get_context("spawn")


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
        if result.problems:
            insort(self.broken, result, key=lambda broken: broken.seed)


def run_schedules(
    seeds: Iterable[int],
    on_result: Callable[[ScheduleResult], None] | None = None,
    workers: int = 1,
) -> ScheduleTotals:
    """Play the schedules of all seeds; several workers are processes, and their results come in any order.

    All schedules on one network are played by one worker, so that no network is started twice.
    """
    totals = ScheduleTotals()

    def take(result: ScheduleResult) -> None:
        totals.add(result)
        if on_result is not None:
            on_result(result)

    seeds = list(seeds)
    groups = by_network(seeds)
    workers = min(workers, len(groups))
    if workers > 1:
        _play_in_processes(groups, take, workers)
    else:
        for seed in seeds:
            take(run_schedule(seed))
    return totals


def by_network(seeds: Iterable[int]) -> list[list[int]]:
    """Seeds whose schedules are played on the same network, the largest group first."""
    groups: dict[int, list[int]] = {}
    for seed in seeds:
        groups.setdefault(network_number(seed), []).append(seed)
    return sorted(groups.values(), key=len, reverse=True)


def _play_in_processes(
    groups: Iterable[Sequence[int]], take: Callable[[ScheduleResult], None], workers: int
) -> None:
    stop = _context.RawValue(ctypes.c_bool, False)
    with ProcessPoolExecutor(workers, _context, _start_worker, (stop,)) as pool:
        try:
            with _interrupts_held_back():
                all_played = as_completed([pool.submit(_play, group) for group in groups])
            for played in all_played:
                for result in played.result():
                    take(result)
        except BrokenProcessPool as error:
            raise MangroveError(
                "a process that played schedules ended before its time",
                hint="it may have been killed for lack of memory; try fewer workers",
            ) from error
        finally:
            stop.value = True
            pool.shutdown(cancel_futures=True)


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Ctrl-C waits until the end of the block; processes that are started in it never see one."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# -- in a worker ------------------------------------------------------------------------------------------

_stop: ctypes.c_bool
"""Shared by all, true when nobody wants more results; without a lock, which a dead process could hold."""


def _start_worker(stop: ctypes.c_bool) -> None:
    global _stop
    _stop = stop
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A worker whose parent was killed would wait for ever for the next group."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _play(seeds: Sequence[int]) -> list[ScheduleResult]:
    results = []
    for seed in seeds:
        if _stop.value:
            break
        results.append(run_schedule(seed))
    return results
