"""A second relaxation, tight where there are many items: what a set must vary by, from sums over its items.

With `Σ = diag(D) + R`, D ≥ 0 and R semi-definite (see `relaxation`), a set with indicator x varies by
`Dᵀx + xᵀRx`. Let p = R·1, how each item varies with all others together, and P = 1ᵀR1. By Cauchy and Schwarz
`xᵀRx ≥ (pᵀx)²/P`, which is at least its tangent at an equal share, pᵀx = P/k:

    variance ≥ sᵀx − P/k²,   s = D + 2p/k.

At an equal split between k brokers nothing is lost. Mean m = μᵀx and s are sums over items, so over a
partition they add up to Σμ and Σs *exactly*; and which s a set of mean m can have lies between the two
fractional knapsacks that fill m with the items of the least, or the largest, s per mean. Two more limits hold
far from the equal split: a set's own variance is at least that of the knapsack over D, its shared variance at
least `b·m²`, `b = max(0, 1/(μᵀR⁻¹μ), min_ij R_ij/(μ_i·μ_j))`; and both are at most the other knapsacks.

The bound is the Lagrangian dual of choosing (m, s) freely for each broker under these two sums, valid for all
multipliers ≥ 0. The inner maximum is taken over cells, as in `relaxation`: coarse ones while the multipliers
are looked for, then those that matter are divided.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.optimize import minimize

from mangrove.planning.bounds.relaxation import grid_edges, least_penalty_per_rate, own_variances
from mangrove.planning.judgement import risk
from mangrove.planning.judgement.scoring import MIN_MARGIN, TOLERANCE
from mangrove.planning.problem.arrays import FloatArray, IntArray
from mangrove.planning.problem.problem import Objective, Problem

# Part of the own variance that is used for b, so that the rest of the matrix stays clear of singular.
_KEPT = 0.98
# Knapsacks are met by rounded sums: cells this much outside of one still count as reached.
_ROUNDING = 1e-9
# Cells divided at a time, into how many along each side, and how often.
_DIVIDED, _PARTS, _DIVISIONS = 1024, 4, 4


def score_bound(problem: Problem, own_variance: FloatArray | None = None) -> float:
    """Upper bound of the total score of any allocation that keeps the risk bounds; −∞ if there is none.

    `own_variance` is `own_variances` of the covariance, for callers that have it already. Without own
    variance, or for a matrix that is not semi-definite, nothing is known: ∞.
    """
    rates = problem.mean_rate_msg_s
    if not problem.semidefinite or rates.sum() <= 0:
        return np.inf
    found = own_variances(problem.covariance) if own_variance is None else own_variance
    own = np.maximum(found, 0.0)
    if own.sum() <= 0:
        return np.inf
    sets = _Sets(problem, own)
    classes = problem.broker_classes()
    cells = sets.grid()
    kinds = [
        _Kind(
            int(count), int(np.argmax(classes == kind)), sets.scores(int(np.argmax(classes == kind)), cells)
        )
        for kind, count in enumerate(np.bincount(classes))
    ]
    multipliers = _multipliers(kinds, cells, sets.total)
    if multipliers is None:
        return -np.inf
    divided = sum(kind.count * _divided_maximum(sets, kind, cells, multipliers) for kind in kinds)
    return float(min(divided - multipliers @ sets.total, _dual(np.zeros(2), kinds, cells, sets.total)))


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


@dataclass(frozen=True, slots=True)
class _Cells:
    """Rectangles of (m, s), one entry each."""

    min_mean: FloatArray
    max_mean: FloatArray
    min_s: FloatArray
    max_s: FloatArray

    def price(self, multipliers: FloatArray) -> FloatArray:
        return np.asarray(multipliers[0] * self.max_mean + multipliers[1] * self.max_s, dtype=np.float64)

    def divided(self, chosen: IntArray) -> _Cells:
        """Some of the cells, each in equal parts."""
        mean = _steps(self.min_mean[chosen], self.max_mean[chosen])
        s = _steps(self.min_s[chosen], self.max_s[chosen])
        shape = (len(chosen), _PARTS, _PARTS)

        def flat(part: FloatArray) -> FloatArray:
            return np.broadcast_to(part, shape).ravel()

        return _Cells(
            flat(mean[:, :-1, None]), flat(mean[:, 1:, None]), flat(s[:, None, :-1]), flat(s[:, None, 1:])
        )


def _steps(low: FloatArray, high: FloatArray) -> FloatArray:
    edges = low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, _PARTS + 1)
    edges[:, -1] = high
    return np.asarray(edges, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class _Kind:
    """Equal brokers: how many, one of them, and what a set in each cell can score there."""

    count: int
    broker: int
    scores: FloatArray


class _Knapsack:
    """Least and most `valueᵀx` over `0 ≤ x ≤ 1` with `ratesᵀx = m`, for any m."""

    def __init__(self, rates: FloatArray, value: FloatArray) -> None:
        live = rates > 0
        per_rate = value[live] / rates[live]
        self._ends: dict[bool, tuple[FloatArray, FloatArray, float]] = {}
        for most in (False, True):
            order = np.argsort(-per_rate if most else per_rate)
            means = np.concatenate([[0.0], np.cumsum(rates[live][order])])
            values = np.concatenate([[0.0], np.cumsum(value[live][order])])
            idle = value[~live].clip(min=0.0) if most else value[~live].clip(max=0.0)
            # Convex from below, concave from above: the turning point is where the sign of a ratio changes.
            turn = means[int((per_rate > 0).sum() if most else (per_rate < 0).sum())]
            self._ends[most] = (means, values + float(idle.sum()), float(turn))

    def least(self, min_mean: FloatArray, max_mean: FloatArray) -> FloatArray:
        """Least value of a set whose mean lies in the interval."""
        means, values, turn = self._ends[False]
        return np.asarray(np.interp(np.clip(turn, min_mean, max_mean), means, values), dtype=np.float64)

    def most(self, min_mean: FloatArray, max_mean: FloatArray) -> FloatArray:
        """Most value of a set whose mean lies in the interval."""
        means, values, turn = self._ends[True]
        return np.asarray(np.interp(np.clip(turn, min_mean, max_mean), means, values), dtype=np.float64)


class _Sets:
    """What is known of a set of items from its sums (m, s)."""

    def __init__(self, problem: Problem, own: FloatArray) -> None:
        rates, brokers = problem.mean_rate_msg_s, problem.broker_count
        rest = problem.covariance - np.diag(own)
        covered = rest.sum(axis=1)
        weight = own + 2.0 * covered / brokers
        self._problem = problem
        self._tangent = max(float(covered.sum()), 0.0) / brokers**2
        self._s = _Knapsack(rates, weight)
        self._own = _Knapsack(rates, own)
        self._deviation = _Knapsack(rates, np.sqrt(np.clip(np.diag(rest), 0.0, None)))
        self._shared = shared_variance(problem, _KEPT * own)
        self.total = np.array([float(rates.sum()), float(weight.sum())])
        self._s_range = float(weight.clip(max=0.0).sum()), float(weight.clip(min=0.0).sum())
        self._scale = float(np.abs(weight).sum())

    def grid(self) -> _Cells:
        """Fine cells around what a broker is likely to carry, coarse ones up to all it could."""
        brokers = self._problem.broker_count
        likely_mean = 1.5 * max(self.total[0] / brokers, float(self._problem.best_capacity_msg_s.max()))
        mean = grid_edges(likely_mean, float(self.total[0]))
        low, high = self._s_range
        likely_s = 3.0 * max(abs(float(self.total[1])), 1e-3 * self._scale) / brokers
        s = grid_edges(likely_s, max(high, 1e-12 * self._scale))
        if low < 0:
            s = np.concatenate([-grid_edges(likely_s, -low)[:0:-1], s])
        shape = (len(mean) - 1, len(s) - 1)

        def flat(part: FloatArray) -> FloatArray:
            return np.broadcast_to(part, shape).ravel()

        return _Cells(flat(mean[:-1, None]), flat(mean[1:, None]), flat(s[None, :-1]), flat(s[None, 1:]))

    def scores(self, broker: int, cells: _Cells) -> FloatArray:
        """Most that a set in each cell can score: at the least mean, at one of the ends of the variance."""
        problem = self._problem
        mean, max_mean = cells.min_mean, cells.max_mean
        reached = (cells.max_s >= self._s.least(mean, max_mean) - _ROUNDING * self._scale) & (
            cells.min_s <= self._s.most(mean, max_mean) + _ROUNDING * self._scale
        )
        best = np.full(len(mean), -np.inf)
        mean, max_mean = mean[reached], max_mean[reached]
        apart = _KEPT * self._own.least(mean, max_mean) + self._shared * mean**2
        least = np.maximum(np.maximum(cells.min_s[reached] - self._tangent, apart), 0.0)
        most = self._own.most(mean, max_mean) + self._deviation.most(mean, max_mean) ** 2
        capacity = problem.utilisation_threshold * problem.best_capacity_msg_s[broker]
        scores: list[FloatArray] = []
        log_risks: list[FloatArray] = []
        for variance in (least * (1 - _ROUNDING), np.maximum(most, least) * (1 + _ROUNDING)):
            z = np.maximum(risk.margin(capacity, mean, variance), MIN_MARGIN)
            log_risks.append(risk.log_risk(z))
            if problem.objective is Objective.JOINT:
                scores.append(risk.log_ok(z))
            elif problem.objective is Objective.CONSTANT_PENALTY:
                scores.append(-risk.constant_penalty(z, least_penalty_per_rate(problem) * mean))
            else:
                excess = risk.expected_excess(z, np.asarray(capacity - mean), variance)
                scores.append(-problem.penalty_per_message * excess)
        hopeless = np.minimum(*log_risks) > np.log(problem.constraints.max_risk[broker]) + TOLERANCE
        best[reached] = np.where(hopeless, -np.inf, np.maximum(*scores))
        empty = (cells.min_mean <= 0) & (cells.min_s <= 0) & (cells.max_s >= 0)
        return np.where(empty, np.maximum(best, 0.0), best)


def _dual(multipliers: FloatArray, kinds: list[_Kind], cells: _Cells, total: FloatArray) -> float:
    price = cells.price(multipliers)
    most = sum(kind.count * float((kind.scores + price).max()) for kind in kinds)
    return float(most - multipliers @ total)


def _multipliers(kinds: list[_Kind], cells: _Cells, total: FloatArray) -> FloatArray | None:
    """Good multipliers by the coarse cells; any pair is valid. None when no set fits anywhere."""
    if _dual(np.zeros(2), kinds, cells, total) == -np.inf:
        return None
    # Cells that no set reaches cannot be the maximum.
    unit = 1.0 / np.maximum(np.abs(total), 1e-300)
    live = np.flatnonzero(np.maximum.reduce([kind.scores for kind in kinds]) > -np.inf)
    kept = _Cells(cells.min_mean[live], cells.max_mean[live], cells.min_s[live], cells.max_s[live])
    fewer = [_Kind(kind.count, kind.broker, kind.scores[live]) for kind in kinds]

    def value(exponents: FloatArray) -> float:
        return _dual(unit * np.exp(np.clip(exponents, -60.0, 30.0)), fewer, kept, total)

    starts = ((0.0, 0.0), (-3.0, -3.0), (3.0, 0.0), (0.0, -8.0))
    found = [
        minimize(value, np.array(s), method="Nelder-Mead", options={"maxfev": 100, "fatol": 1e-12})
        for s in starts
    ]
    best = min(found, key=lambda outcome: float(outcome.fun))
    return np.asarray(unit * np.exp(np.clip(best.x, -60.0, 30.0)), dtype=np.float64)


def _divided_maximum(sets: _Sets, kind: _Kind, cells: _Cells, multipliers: FloatArray) -> float:
    """Upper bound of `score + price` over all sets: the cells that decide it are divided again and again."""
    values = kind.scores + cells.price(multipliers)
    others = -np.inf
    for _ in range(_DIVISIONS):
        order: IntArray = np.argsort(values)
        chosen, rest = order[-_DIVIDED:], order[:-_DIVIDED]
        others = max(others, float(values[rest].max(initial=-np.inf)))
        cells = cells.divided(chosen)
        values = sets.scores(kind.broker, cells) + cells.price(multipliers)
        if float(values.max()) <= others:
            break
    return max(others, float(values.max()))
