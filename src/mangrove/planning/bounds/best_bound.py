"""The best upper bound that can be had without a search, for solvers that prove nothing themselves."""

from __future__ import annotations

import numpy as np

from mangrove.planning.bounds import own_variance_bound
from mangrove.planning.bounds.relaxation import Relaxation, own_variances
from mangrove.planning.bounds.subsets import SubsetBound
from mangrove.planning.judgement.feasibility import placements
from mangrove.planning.judgement.scoring import Scorer
from mangrove.planning.problem.problem import Problem

# Tables over all sets of so many items are made in some hundredths of a second.
TABULATED_ITEMS = 14


def score_bound(problem: Problem) -> float:
    """Upper bound of the total score of any allocation that keeps the constraints; −∞ if none can."""
    found = placements(problem)
    own = own_variances(problem.covariance)
    bound = min(Relaxation(problem, own).value, own_variance_bound.score_bound(problem, own))
    single = found.open.sum(axis=1) == 1
    free = np.flatnonzero(~single)
    if found.contradictions or len(free) > TABULATED_ITEMS:
        return bound
    fixed = np.where(single, found.open.argmax(axis=1), -1).astype(np.int64)
    return min(bound, SubsetBound(Scorer(problem), found.open, free, fixed).root)
