"""Every arm on every experiment, in one process or in several: the result is the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from mangrove.evaluation.fdcc.setting import Setting
from mangrove.evaluation.fdcc.trial import Trial, run_trial
from mangrove.evaluation.fdcc.workload import draw_workload
from mangrove.evaluation.worker_pool import spread_over


def run_seeds(
    seeds: Sequence[int],
    setting: Setting,
    *,
    workers: int = 1,
    on_seed: Callable[[], None] | None = None,
) -> list[Trial]:
    """The experiments of all seeds, in their order."""
    found: list[Trial] = []
    for one in spread_over(partial(run_seed, setting=setting), seeds, min(workers, len(seeds))):
        found.append(one)
        if on_seed is not None:
            on_seed()
    return found


def run_seed(seed: int, setting: Setting) -> Trial:
    """One workload and every arm on it."""
    return run_trial(draw_workload(seed, setting.ranges), setting)
