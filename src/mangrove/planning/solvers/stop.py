"""When a solver should stop. Solvers ask after every step; the clock, if any, is handed in by the shell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a solver is. `score` is of the best allocation that keeps all constraints; −∞ before one is."""

    solver: str
    step: int
    score: float
    bound: float = np.inf


class Stop(Protocol):
    """Asked after each step (a generation, a descent, a thousand nodes); True ends the solve."""

    def __call__(self, progress: Progress) -> bool: ...


@dataclass(frozen=True, slots=True)
class Never:
    """Leave the end to the solver's own limits."""

    def __call__(self, progress: Progress) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """Stop when `clock()` reaches `until_s`. A result found under it may differ on a faster machine."""

    clock: Callable[[], float]
    until_s: float

    def __call__(self, progress: Progress) -> bool:
        return self.clock() >= self.until_s
