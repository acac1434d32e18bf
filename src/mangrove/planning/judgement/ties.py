"""Which of two allocations is better where the objective cannot tell.

With capacity to spare every allocation has a probability of 1 in double precision, and one that piles all
items on one broker is as good as any. Among allocations that tie in the objective, the largest risk of a
broker decides, by its logarithm; where that ties too, the spread of the brokers' utilisations.
"""

from __future__ import annotations

from mangrove.planning.judgement.assessment import Assessment
from mangrove.planning.judgement.result import reward_offset
from mangrove.planning.problem.problem import Objective, Problem

# A few units in the last place: what summing in another order, and taking the exponential, may change.
_ROUNDING = 2.0**-50


def tie_width(problem: Problem, score: float) -> float:
    """Scores this close to `score` are the same probability, or the same utility, in double precision."""
    if problem.objective is Objective.JOINT:
        return _ROUNDING * max(1.0, abs(score))
    return _ROUNDING * max(abs(score), abs(reward_offset(problem)))


def tied(problem: Problem, one: Assessment, other: Assessment) -> bool:
    """Whether the objective cannot tell the two apart."""
    return abs(one.score - other.score) <= tie_width(problem, one.score)


def rank_among_ties(assessment: Assessment) -> tuple[float, float]:
    """Order of allocations that tie; the least is the best."""
    return assessment.largest_log_risk, assessment.utilisation_spread
