"""Six items on three brokers: the risks of two allocations and the gain between them (thesis figure 4-6).

The gain of a broker is the share of its risk under round robin that the risk-aware allocation takes away. The
figure shows it for the printed risks, which do not follow from the printed means, covariances and capacities;
so beside it stand the gains that do follow, for the printed allocations and for ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mangrove.planning.judgement.assessment import assess
from mangrove.planning.problem.document import read_problem
from mangrove.planning.problem.problem import Problem
from mangrove.planning.solvers import exact, round_robin
from mangrove.planning.solvers.stop import Never

MEAN_RATE_MSG_S = (150, 300, 350, 200, 100, 130)  # table 4-1
COVARIANCE = (  # table 4-2
    (5310, 2456, 962, 1071, 840, 409),
    (2456, 7544, 611, 418, 1237, 542),
    (962, 611, 6972, -1622, 3401, 2387),
    (1071, 418, -1622, 7538, -102, 4266),
    (840, 1237, 3401, -102, 4992, 3626),
    (409, 542, 2387, 4266, 3626, 4202),
)
CAPACITY_MSG_S = (700, 750, 600)  # table 4-4, and the printed allocations and risks
PRINTED_ROUND_ROBIN = (1, 0, 1, 2, 2, 0)
PRINTED_RISK_AWARE = (0, 0, 1, 2, 1, 2)
PRINTED_ROUND_ROBIN_RISK = (0.0068, 0.0054, 0.0170)
PRINTED_RISK_AWARE_RISK = (0.0018, 0.0016, 0.0010)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two allocations: items of each broker, its risk under both, and the gain."""

    name: str
    before: tuple[tuple[int, ...], ...]
    after: tuple[tuple[int, ...], ...]
    risk_before: tuple[float, ...]
    risk_after: tuple[float, ...]
    joint_ok_before: float | None
    joint_ok_after: float | None
    """Probability that no broker is overloaded; None for printed risks."""

    @property
    def gain(self) -> tuple[float, ...]:
        """By broker; negative where the risk has grown."""
        return tuple(
            (before - after) / before for before, after in zip(self.risk_before, self.risk_after, strict=True)
        )


def six_items_problem() -> Problem:
    """The printed inputs, used as they are: the covariance is not positive semi-definite, but every set of
    items has a positive variance under it.
    """
    document = {
        "items": [f"item{number}" for number in range(1, 7)],
        "mean_rate": list(MEAN_RATE_MSG_S),
        "covariance": [list(row) for row in COVARIANCE],
        "brokers": [f"broker{number}" for number in range(1, 4)],
        "capacity": list(CAPACITY_MSG_S),
    }
    return read_problem(document, "tables 4-1, 4-2 and 4-4").problem


def run_six_items(seed: int = 1) -> tuple[Comparison, ...]:
    """The printed risks; the same allocations judged; round robin by the printed rule against the optimum.

    The optimum is proven, whatever the seed of the search that it begins with.
    """
    problem = six_items_problem()
    by_rule = round_robin.by_reserve(problem, np.arange(problem.item_count))
    best = exact.solve(problem, Never(), seed, exact.ExactParams())
    return (
        Comparison(
            "printed risks",
            _items(PRINTED_ROUND_ROBIN),
            _items(PRINTED_RISK_AWARE),
            PRINTED_ROUND_ROBIN_RISK,
            PRINTED_RISK_AWARE_RISK,
            None,
            None,
        ),
        _judged("printed allocations, judged", problem, PRINTED_ROUND_ROBIN, PRINTED_RISK_AWARE),
        _judged("round robin by its rule, optimum", problem, by_rule.tolist(), best.assignment),
    )


def _judged(name: str, problem: Problem, before: Sequence[int], after: Sequence[int]) -> Comparison:
    first, second = assess(problem, before), assess(problem, after)
    return Comparison(
        name,
        _items(before),
        _items(after),
        tuple(float(load.risk) for load in first.loads),
        tuple(float(load.risk) for load in second.loads),
        first.joint_ok,
        second.joint_ok,
    )


def _items(assignment: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Numbers of the items of each broker."""
    return tuple(
        tuple(item + 1 for item, where in enumerate(assignment) if where == broker)
        for broker in range(len(CAPACITY_MSG_S))
    )
