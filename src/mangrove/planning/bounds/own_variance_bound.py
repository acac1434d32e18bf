"""A second relaxation, tight where items share few causes: each item brings variance of its own.

With `Σ = diag(D) + R` and D ≥ 0 (see `relaxation`), a set with indicator x, mean m = μᵀx and own variance
q = Dᵀx varies by

    xᵀΣx = q + xᵀRx ≥ q + b·m²,   b = max(0, 1/(μᵀR⁻¹μ), min_ij R_ij/(μ_i·μ_j)):

the least of xᵀRx over all real x with μᵀx = m, or, since x ≥ 0, the least entry of R per unit of both means.
Both m and q are sums over items, so over a partition they add up to M = Σμ and d = ΣD *exactly*, and no
broker can carry q without m: q/m lies between the least and the largest D_i/μ_i. The bound is the Lagrangian
dual of choosing (m_b, q_b) freely under these two sums, over the cells of a grid, as in `relaxation`: valid
for all multipliers λ, ν ≥ 0.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.optimize import minimize

from mangrove.planning.bounds.relaxation import (
    grid_edges,
    least_penalty_per_rate,
    most_deviation_per_rate,
    own_variances,
)
from mangrove.planning.judgement import risk
from mangrove.planning.judgement.scoring import LEAST_MARGIN, TOLERANCE
from mangrove.planning.problem.arrays import FloatArray, IntArray
from mangrove.planning.problem.problem import Objective, Problem

# Part of the own variance that is used, so that the rest of the matrix stays clear of singular.
_KEPT = 0.98


def score_bound(problem: Problem, own_variance: FloatArray | None = None) -> float:
    """Upper bound of the total score of any allocation that keeps the risk bounds; −∞ if there is none.

    `own_variance` is `own_variances` of the covariance, for callers that have it already.
    """
    rates = problem.mean_rate_msg_s
    own = np.zeros(len(rates))
    if problem.semidefinite:
        found = own_variances(problem.covariance) if own_variance is None else own_variance
        own = np.maximum(found, 0.0) * _KEPT
    if rates.sum() <= 0 or own.sum() <= 0:
        return np.inf
    shared = shared_variance(problem, own)
    live = rates > 0
    ratio = own[live] / rates[live]
    most_ratio = np.inf if (own[~live] > 0).any() else float(ratio.max())
    total = np.array([float(rates.sum()), float(own.sum())])
    brokers = problem.broker_count
    likely_mean = 1.5 * max(total[0] / brokers, float(problem.best_capacity_msg_s.max()))
    mean_edges = grid_edges(likely_mean, total[0])
    own_edges = grid_edges(3.0 * total[1] / brokers, total[1])
    least_mean, most_mean = mean_edges[:-1, None], mean_edges[1:, None]
    least_own, most_own = own_edges[None, :-1], own_edges[None, 1:]
    unreachable = (most_own < float(ratio.min()) * least_mean * (1 - 1e-9)) | (
        least_own > most_ratio * most_mean * (1 + 1e-9)
    )
    least_variance = least_own + shared * least_mean**2
    most_deviation = most_deviation_per_rate(problem) * most_mean
    ceiling = float(np.clip(problem.covariance, 0.0, None).sum())
    most_variance = np.maximum(np.minimum(most_deviation**2, ceiling), least_variance)
    classes = problem.broker_classes()
    cells = []
    for kind in range(int(classes.max()) + 1):
        broker = int(np.argmax(classes == kind))
        scores = _cell_scores(problem, broker, least_mean, least_variance, most_variance)
        scores[unreachable] = -np.inf
        scores[0, 0] = max(scores[0, 0], 0.0)  # an empty broker
        cells.append(scores)
    return _dual_bound(cells, np.bincount(classes), most_mean, most_own, total)


def shared_variance(problem: Problem, own: FloatArray) -> float:
    """b of the module's text."""
    rates = problem.mean_rate_msg_s
    rest = problem.covariance - np.diag(own)
    if (rates <= 0).any():
        return 0.0
    found = max(0.0, float((rest / np.outer(rates, rates)).min()) * (1 - 1e-9))
    try:
        strength = float(rates @ cho_solve(cho_factor(rest, lower=True), rates))
    except LinAlgError:  # too close to singular to be sure of anything
        return found
    return max(found, (1 - 1e-6) / strength) if strength > 0 else found


def _cell_scores(
    problem: Problem, broker: int, mean: FloatArray, least_variance: FloatArray, most_variance: FloatArray
) -> FloatArray:
    """Most that a set in each cell can score: at the least mean, at one of the ends of the variance."""
    capacity = problem.utilisation_threshold * problem.best_capacity_msg_s[broker]
    scores: list[FloatArray] = []
    log_risks: list[FloatArray] = []
    for variance in (least_variance, most_variance):
        z = np.maximum(risk.margin(capacity, mean, variance), LEAST_MARGIN)
        log_risks.append(risk.log_risk(z))
        if problem.objective is Objective.JOINT:
            scores.append(risk.log_ok(z))
        elif problem.objective is Objective.CONSTANT_PENALTY:
            scores.append(-risk.constant_penalty(z, least_penalty_per_rate(problem) * mean))
        else:
            excess = risk.expected_excess(z, np.broadcast_to(capacity - mean, z.shape), variance)
            scores.append(-problem.penalty_per_message * excess)
    best = np.maximum(*scores)
    best[np.minimum(*log_risks) > np.log(problem.constraints.max_risk[broker]) + TOLERANCE] = -np.inf
    return best


def _dual_bound(
    cells: list[FloatArray],
    multiplicity: IntArray,
    mean: FloatArray,
    own: FloatArray,
    total: FloatArray,
) -> float:
    """The least dual value met; any pair of multipliers is valid, so none need be the best."""

    def dual(multipliers: FloatArray) -> float:
        price = multipliers[0] * mean + multipliers[1] * own
        most = sum(c * float((s + price).max()) for c, s in zip(multiplicity, cells, strict=True))
        return float(most - multipliers @ total)

    unit = 1.0 / total

    def by_exponents(exponents: FloatArray) -> float:
        return dual(np.asarray(unit * np.exp(np.clip(exponents, -60.0, 30.0))))

    best = dual(np.zeros(2))
    if best == -np.inf:
        return best
    for start in ((0.0, 0.0), (-3.0, -3.0), (3.0, 0.0), (0.0, -8.0)):
        found = minimize(
            by_exponents,
            np.array(start),
            method="Nelder-Mead",
            options={"maxfev": 80, "fatol": 1e-12},
        )
        best = min(best, float(found.fun))
    return best
