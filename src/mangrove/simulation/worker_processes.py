"""Seeds that are played in several processes, which end with whoever started them."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import TypeVar

from mangrove.errors import MangroveError

T = TypeVar("T")
R = TypeVar("R")

_context = multiprocessing.get_context("spawn")


CHUNK = 50
"""Seeds that a process plays before it tells what came of them."""


def play_all(play: Callable[[int], R], seeds: Iterable[int], take: Callable[[R], None], workers: int) -> None:
    """Play every seed, here or in several processes, which give their results in any order."""
    seeds = list(seeds)
    if workers > 1 and len(seeds) > CHUNK:
        groups = [seeds[first : first + CHUNK] for first in range(0, len(seeds), CHUNK)]
        play_in_processes(play, groups, take, workers)
    else:
        for seed in seeds:
            take(play(seed))


def play_in_processes(
    play: Callable[[T], R], groups: Iterable[Sequence[T]], take: Callable[[R], None], workers: int
) -> None:
    """Play every seed, or what stands for it, each group in one process; take results in any order."""
    stop = _context.RawValue(ctypes.c_bool, False)
    with ProcessPoolExecutor(workers, _context, _start_worker, (stop,)) as pool:
        try:
            with _interrupts_held_back():
                all_played = as_completed([pool.submit(_play, play, group) for group in groups])
            for played in all_played:
                for result in played.result():
                    take(result)
        except BrokenProcessPool as error:
            raise MangroveError(
                "a process that played trials ended before its time",
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


def _play(play: Callable[[T], R], seeds: Sequence[T]) -> list[R]:
    results = []
    for seed in seeds:
        if _stop.value:
            break
        results.append(play(seed))
    return results
