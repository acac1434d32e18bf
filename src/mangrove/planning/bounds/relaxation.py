"""An upper bound for problems of any size: relax the items, keep what they sum to.

Whatever the partition, the brokers' means add up to the total mean M, and their variances to at least

    V = d·(1 − 1/k) + Var(all)/k,   d = Σ_i D_i,   for any D that leaves `R = Σ − diag(D)` semi-definite:

over the sets of a partition D contributes exactly d, and R, a convex quadratic, at least k times its value at
the mean indicator, which is `1ᵀR1 / k` in all.

The bound is the Lagrangian dual of "choose (M_b, V_b) freely for each broker, subject to Σ M_b = M and
Σ V_b ≥ V". By weak duality *every* pair of multipliers λ, ν ≥ 0 gives a valid bound,

    Σ_b max_{(m, v)} [score_b(m, v) + λ·m + ν·v] − λ·M − ν·V,

so the search for good multipliers need not be exact. The inner maximum is taken over cells of a grid. In a
cell the score is at most its value at the least mean and one of the two ends of the variance (it falls with
the mean and is monotone in the variance at a fixed mean), and m and v are at most the cell's upper ends:
the maximum over cells is never too low. Capacities that depend on the set are replaced by the largest.

Cells that no set of items can reach are left out. A set with indicator x and mean m = μᵀx deviates by at most
m times the largest deviation per rate, and, with a D as above, varies by at least
`m·min(D_i/μ_i) + m²/(μᵀR⁻¹μ)`: the last is the least of xᵀRx over *all* real x with μᵀx = m.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh
from scipy.optimize import minimize

from mangrove.planning.judgement import risk
from mangrove.planning.judgement.scoring import MIN_MARGIN, TOLERANCE
from mangrove.planning.problem.arrays import FloatArray, IntArray
from mangrove.planning.problem.problem import Objective, Problem

_FINE, _COARSE = 240, 40


def own_variances(covariance: FloatArray) -> FloatArray:
    """D such that `covariance − diag(D)` is semi-definite: variance that no grouping of items can cancel.

    D is a share t of some positive weights; the largest valid t is the least eigenvalue of the covariance
    scaled by them. As weights, the variances of the items, or, better where items share a few common causes,
    what is left of each when all others are known (`1/(Σ⁻¹)_ii`); the larger sum wins.
    """
    variance = np.diag(covariance)
    best = np.zeros(len(variance))
    live = np.flatnonzero(variance > 0)
    if live.size == 0:
        return best
    block = covariance[np.ix_(live, live)]
    candidates = [variance[live]]
    try:
        factor = cho_factor(block, lower=True)
        candidates.append(1.0 / np.diag(cho_solve(factor, np.eye(live.size))))
    except LinAlgError:  # singular: nothing is left of some item
        pass
    totals = []
    for weights in candidates:
        scale = np.sqrt(weights)
        least = eigh(block / np.outer(scale, scale), eigvals_only=True, subset_by_index=[0, 0])
        totals.append((float(least[0]) - 1e-9) * weights)
    best[live] = max(totals, key=lambda own: float(own.sum()))
    return best


def least_total_variance(problem: Problem, own: FloatArray) -> float:
    """Lower bound of the sum of the brokers' variances over all partitions (see the module's text)."""
    brokers = problem.broker_count
    total = float(own.sum()) * (1.0 - 1.0 / brokers) + float(problem.covariance.sum()) / brokers
    return max(total, 0.0)


def least_variance_by_mean(problem: Problem, own: FloatArray) -> tuple[float, float]:
    """`(a, b)` such that a set with mean m varies by at least `a·m + b·m²` (see the module's text)."""
    rates = problem.mean_rate_msg_s
    if (own <= 0).any() or (rates <= 0).any():
        return 0.0, 0.0
    kept = 0.95 * own
    try:
        factor = cho_factor(problem.covariance - np.diag(kept), lower=True)
    except LinAlgError:  # too close to singular to be sure of anything
        return 0.0, 0.0
    strength = float(rates @ cho_solve(factor, rates))
    return float((kept / rates).min()) * (1 - 1e-9), (1 - 1e-6) / strength


def least_penalty_per_rate(problem: Problem) -> float:
    """A set with mean m has a penalty of at least this times m."""
    rates = problem.mean_rate_msg_s
    live = rates > 0
    return float((problem.penalty[live] / rates[live]).min()) if live.any() else 0.0


def most_deviation_per_rate(problem: Problem) -> float:
    """A set deviates at most by the sum of its items' deviations, so by this times its mean."""
    rates = problem.mean_rate_msg_s
    deviation = np.sqrt(np.clip(np.diag(problem.covariance), 0.0, None))
    if ((rates <= 0) & (deviation > 0)).any():
        return np.inf
    live = rates > 0
    return float((deviation[live] / rates[live]).max()) if live.any() else 0.0


class Relaxation:
    """Grid, multipliers and the bound of a problem; also bounds partial allocations (`remaining`)."""

    def __init__(self, problem: Problem, own_variance: FloatArray | None = None) -> None:
        self.problem = problem
        self.classes: IntArray = problem.broker_classes()
        self.total_mean = float(problem.mean_rate_msg_s.sum())
        own = own_variances(problem.covariance) if own_variance is None else own_variance
        self.total_variance = least_total_variance(problem, own)
        self._variance_by_mean = least_variance_by_mean(problem, own)
        self._mean_edges, self._variance_edges = self._edges()
        representatives = [int(np.argmax(self.classes == c)) for c in range(int(self.classes.max()) + 1)]
        self._cells = [self._cell_scores(broker) for broker in representatives]
        self._multiplicity = np.bincount(self.classes)
        self._multipliers = self._best_multipliers()
        price = self._price(self._multipliers)
        self._tables = [_suffix_maximum(cells + price) for cells in self._cells]
        self.value = min(self._dual(self._multipliers), self._dual(np.zeros(2)))
        self._dues = self._multipliers @ [self.total_mean, self.total_variance]

    def remaining(self, broker: int, mean: float, least_variance: float) -> float:
        """Most that a broker can contribute once it carries `mean` and cannot vary less than given.

        Summed over the brokers, minus `dues`, this bounds every completion of a partial allocation.
        """
        row = int(np.searchsorted(self._mean_edges, mean * (1 - 1e-12), side="right")) - 1
        column = int(np.searchsorted(self._variance_edges, least_variance * (1 - 1e-12), side="right")) - 1
        table = self._tables[self.classes[broker]]
        return float(table[min(max(row, 0), table.shape[0] - 1), min(max(column, 0), table.shape[1] - 1)])

    @property
    def dues(self) -> float:
        return float(self._dues)

    def _edges(self) -> tuple[FloatArray, FloatArray]:
        """Fine cells around what a broker is likely to carry, coarse ones up to all it could."""
        brokers = self.problem.broker_count
        likely_mean = 1.5 * max(self.total_mean / brokers, float(self.problem.best_capacity_msg_s.max()))
        most_variance = float(np.clip(self.problem.covariance, 0.0, None).sum())
        likely_variance = 4.0 * max(self.total_variance, most_variance * 1e-6) / brokers
        return grid_edges(likely_mean, self.total_mean), grid_edges(likely_variance, most_variance)

    def _cell_scores(self, broker: int) -> FloatArray:
        problem = self.problem
        capacity = problem.utilisation_threshold * problem.best_capacity_msg_s[broker]
        mean = self._mean_edges[:-1, None]
        scores: list[FloatArray] = []
        log_risks: list[FloatArray] = []
        for variance in (self._variance_edges[None, :-1], self._variance_edges[None, 1:]):
            z = np.maximum(risk.margin(capacity, mean, variance), MIN_MARGIN)
            log_risks.append(risk.log_risk(z))
            if problem.objective is Objective.JOINT:
                scores.append(risk.log_ok(z))
            elif problem.objective is Objective.CONSTANT_PENALTY:
                scores.append(-risk.constant_penalty(z, least_penalty_per_rate(problem) * mean))
            else:
                slack = np.broadcast_to(capacity - mean, z.shape)
                excess = risk.expected_excess(z, slack, np.broadcast_to(variance, z.shape))
                scores.append(-problem.penalty_per_message * excess)
        cells = np.maximum(*scores)
        # No set in the cell keeps the risk bound, or none varies as little, or as much, with such a mean.
        hopeless = np.minimum(*log_risks) > np.log(problem.constraints.max_risk[broker]) + TOLERANCE
        cells[hopeless] = -np.inf
        linear, quadratic = self._variance_by_mean
        least = linear * mean + quadratic * mean**2
        cells[self._variance_edges[None, 1:] < least] = -np.inf
        if problem.semidefinite:
            most_deviation = most_deviation_per_rate(problem) * self._mean_edges[1:, None]
            cells[self._variance_edges[None, :-1] > most_deviation**2 * (1 + 1e-9)] = -np.inf
        cells[0, 0] = max(cells[0, 0], 0.0)  # an empty broker
        return cells

    def _price(self, multipliers: FloatArray) -> FloatArray:
        return np.asarray(
            multipliers[0] * self._mean_edges[1:, None] + multipliers[1] * self._variance_edges[None, 1:],
            dtype=np.float64,
        )

    def _dual(self, multipliers: FloatArray) -> float:
        price = self._price(multipliers)
        total = sum(
            count * float((cells + price).max())
            for count, cells in zip(self._multiplicity, self._cells, strict=True)
        )
        return float(total - multipliers @ [self.total_mean, self.total_variance])

    def _best_multipliers(self) -> FloatArray:
        """Nelder–Mead on two logarithms; the dual is convex, and any outcome is valid."""
        spread = max(
            (float(-c[np.isfinite(c)].min()) for c in self._cells if np.isfinite(c).any()), default=1.0
        )
        scale = np.array([1.0 / max(self.total_mean, 1e-300), 1.0 / max(self.total_variance, 1e-300)])
        scale *= min(max(spread, 1e-12), 10.0 * self.problem.broker_count)

        def dual(exponents: FloatArray) -> float:
            value = self._dual(scale * np.exp(np.clip(exponents, -60.0, 30.0)))
            return value if np.isfinite(value) else -1e300

        best = min(
            (
                minimize(dual, np.array(start), method="Nelder-Mead", options={"maxfev": 60, "fatol": 1e-12})
                for start in ((0.0, 0.0), (0.0, -6.0), (-6.0, -6.0))
            ),
            key=lambda found: float(found.fun),
        )
        return np.asarray(scale * np.exp(np.clip(best.x, -60.0, 30.0)), dtype=np.float64)


def grid_edges(likely: float, most: float) -> FloatArray:
    """Cell ends from 0 to `most`: equal steps up to `likely`, growing ones beyond."""
    top = max(most, 1e-300)
    if not 0 < likely < top:
        return np.linspace(0.0, top * (1 + 1e-9), _FINE + 1)
    fine = np.linspace(0.0, likely, _FINE + 1)
    return np.concatenate([fine, np.geomspace(likely, top * (1 + 1e-9), _COARSE + 1)[1:]])


def _suffix_maximum(cells: FloatArray) -> FloatArray:
    """`[i, j]` → maximum over all cells from row i and column j on."""
    down = np.maximum.accumulate(cells[::-1], axis=0)[::-1]
    return np.asarray(np.maximum.accumulate(down[:, ::-1], axis=1)[:, ::-1], dtype=np.float64)
