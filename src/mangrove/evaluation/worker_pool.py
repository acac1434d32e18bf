"""Experiments of many seeds in one process or in several: the result is the same."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from mangrove.errors import MangroveError

Found = TypeVar("Found")


def spread_over(play: Callable[[int], Found], seeds: Sequence[int], workers: int) -> Iterator[Found]:
    """What each seed gives, in the order of the seeds."""
    if workers <= 1:
        yield from map(play, seeds)
        return
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, context, _end_with_parent)
    try:
        yield from pool.map(play, seeds, chunksize=4)
    except BrokenProcessPool as error:
        raise MangroveError(
            "a process that ran experiments ended before its time",
            hint="it may have been killed for lack of memory; try fewer workers",
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _end_with_parent() -> None:
    """A worker whose parent was killed has nobody to work for."""

    def wait() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
