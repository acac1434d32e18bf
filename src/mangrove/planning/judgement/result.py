"""What a solver returns: a checked allocation, how good it is, and how good it could be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mangrove.planning.judgement import feasibility
from mangrove.planning.judgement.assessment import Assessment, assess
from mangrove.planning.problem.arrays import IntArray
from mangrove.planning.problem.problem import Objective, Problem


@dataclass(frozen=True, slots=True)
class Result:
    """An answer, or (with a `reason`) the closest allocation to one.

    `bound` is an upper bound of the objective in its natural unit: a probability for `joint`, else a utility.
    """

    problem: Problem
    assignment: tuple[int, ...]
    assessment: Assessment
    solver: str
    seed: int
    steps: int
    bound: float
    proven_optimal: bool
    reason: str | None = None
    infeasibility_proven: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def feasible(self) -> bool:
        return self.reason is None

    @property
    def value(self) -> float:
        """The objective in its natural unit."""
        return natural(self.problem, self.assessment.score)

    @property
    def known_bound(self) -> float | None:
        """The bound, unless it is what everybody knows: a probability is at most 1, a utility the rewards."""
        if not self.proven_optimal and self.bound >= natural(self.problem, reward_offset(self.problem)):
            return None
        return self.bound

    @property
    def gap(self) -> float:
        """How much better an allocation could at most be, in the unit of the objective."""
        return max(self.bound - self.value, 0.0)

    @property
    def allocation(self) -> dict[str, list[str]]:
        """Items of each broker, in the order of the problem."""
        by_broker: dict[str, list[str]] = {broker: [] for broker in self.problem.brokers}
        for item, broker in zip(self.problem.items, self.assignment, strict=True):
            by_broker[self.problem.brokers[broker]].append(item)
        return by_broker


def natural(problem: Problem, score: float) -> float:
    """A score in the unit people read: the log joint probability becomes a probability."""
    return float(np.exp(score)) if problem.objective is Objective.JOINT else score


def reward_offset(problem: Problem) -> float:
    """What the scorer leaves out: rewards are the same whatever the allocation."""
    return 0.0 if problem.objective is Objective.JOINT else float(problem.reward.sum())


def concluded(
    problem: Problem,
    assignment: IntArray | Sequence[int],
    *,
    solver: str,
    seed: int,
    steps: int,
    score_bound: float,
    optimal: bool = False,
    infeasible: bool = False,
    warnings: tuple[str, ...] = (),
) -> Result:
    """Check and describe the best allocation of a solver.

    `score_bound` is an upper bound of the sum of scores; `optimal` says that nothing better exists, and
    `infeasible` that nothing keeps all constraints. Both are claims of the solver, used where they apply.
    """
    where = tuple(int(broker) for broker in assignment)
    assessment = assess(problem, where)
    offset = reward_offset(problem)
    # No score is above 0: a probability is at most 1, a penalty at least nothing.
    most = min(score_bound, 0.0) + offset
    optimal = optimal or (score_bound > -np.inf and assessment.score >= most)
    bound = assessment.score if optimal else max(most, assessment.score)
    if assessment.feasible:
        reason = None
    else:
        infeasible = infeasible or bool(feasibility.placements(problem).contradictions)
        reason = feasibility.reason(problem, assessment, proven=infeasible)
    return Result(
        problem=problem,
        assignment=where,
        assessment=assessment,
        solver=solver,
        seed=seed,
        steps=steps,
        bound=natural(problem, bound),
        proven_optimal=optimal and assessment.feasible,
        reason=reason,
        infeasibility_proven=infeasible and not assessment.feasible,
        warnings=warnings,
    )
