"""What an allocation means: risks, joint probability, utilities and broken constraints.

Computed from the allocation alone, summing the items of each broker afresh. Solvers keep running sums; what
is reported never comes from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mangrove.planning.judgement import risk
from mangrove.planning.judgement.scoring import TOLERANCE
from mangrove.planning.problem.arrays import FloatArray, IntArray
from mangrove.planning.problem.problem import Objective, Problem


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken constraint: its field in the problem, where, and by how much."""

    constraint: str
    subject: str
    value: float
    bound: float

    def __str__(self) -> str:
        return f"{self.constraint}: {self.subject} is at {self.value:.6g}, the bound is {self.bound:.6g}"


@dataclass(frozen=True, slots=True)
class Load:
    """One broker under an allocation."""

    mean_rate_msg_s: float
    deviation_msg_s: float
    capacity_msg_s: float
    log_risk: float
    log_ok: float
    delay_s: float
    replication: float
    volume: float

    @property
    def risk(self) -> float:
        return float(np.exp(self.log_risk))

    @property
    def utilisation(self) -> float:
        """Share of the capacity that the mean rate takes."""
        return self.mean_rate_msg_s / self.capacity_msg_s


@dataclass(frozen=True, slots=True)
class Assessment:
    """An allocation judged. `score` is what solvers maximise: log joint probability, or a utility."""

    loads: tuple[Load, ...]
    log_joint_ok: float
    utility_constant_penalty: float
    utility_excess_penalty: float
    score: float
    violations: tuple[Violation, ...]

    @property
    def joint_ok(self) -> float:
        return float(np.exp(self.log_joint_ok))

    @property
    def feasible(self) -> bool:
        return not self.violations

    @property
    def largest_log_risk(self) -> float:
        """Logarithm of the largest risk of a broker: tells allocations apart whose probability is 1."""
        return max(load.log_risk for load in self.loads)

    @property
    def utilisation_spread(self) -> float:
        """Standard deviation of the brokers' utilisations."""
        return float(np.std([load.utilisation for load in self.loads]))


def assess(problem: Problem, assignment: IntArray | Sequence[int]) -> Assessment:
    """Judge `assignment[item] = broker`."""
    where = np.asarray(assignment, dtype=np.int64)
    if where.shape != (problem.item_count,) or not ((where >= 0) & (where < problem.broker_count)).all():
        raise ValueError("an assignment names one broker for every item")
    loads: list[Load] = []
    violations: list[Violation] = []
    constant = excess = float(problem.reward.sum())
    for broker in range(problem.broker_count):
        members = np.flatnonzero(where == broker)
        load, excess_msg_s, z = _load(problem, broker, members)
        loads.append(load)
        violations += _broken_bounds(problem, broker, load, members)
        constant -= float(risk.constant_penalty(z, np.asarray(problem.penalty[members].sum())))
        excess -= problem.penalty_per_message * excess_msg_s
    violations += _broken_placements(problem, where)
    log_joint = float(sum(load.log_ok for load in loads))
    score = {
        Objective.JOINT: log_joint,
        Objective.CONSTANT_PENALTY: constant,
        Objective.EXCESS_PENALTY: excess,
    }[problem.objective]
    return Assessment(tuple(loads), log_joint, constant, excess, score, tuple(violations))


def _load(problem: Problem, broker: int, members: IntArray) -> tuple[Load, float, FloatArray]:
    """The broker, how many messages are expected beyond its threshold, and the margin."""
    rates = problem.mean_rate_msg_s[members]
    mean = float(rates.sum())
    variance = max(float(problem.covariance[np.ix_(members, members)].sum()), 0.0)
    delay_s = _delay_s(problem, broker, members)
    threshold_rate = np.asarray(problem.utilisation_threshold / delay_s)
    if problem.scenarios is None:
        z = risk.margin(threshold_rate, np.asarray(mean), np.asarray(variance))
        excess = float(risk.expected_excess(z, threshold_rate - mean, np.asarray(variance)))
    else:
        overload = problem.scenarios.overload(problem.scenarios.loads(members), threshold_rate)
        z, excess = overload.margin[0], float(overload.expected_excess_msg_s[0])
    load = Load(
        mean_rate_msg_s=mean,
        deviation_msg_s=float(np.sqrt(variance)),
        capacity_msg_s=1.0 / delay_s,
        log_risk=float(risk.log_risk(z)),
        log_ok=float(risk.log_ok(z)),
        delay_s=delay_s,
        replication=float(problem.replication[members] @ rates / mean) if mean > 0 else 0.0,
        volume=float(problem.volume[members].sum()),
    )
    return load, excess, z


def _delay_s(problem: Problem, broker: int, members: IntArray) -> float:
    """Mean processing time of a message on the broker: the inverse of its capacity."""
    if problem.capacity_msg_s is not None:
        return float(1.0 / problem.capacity_msg_s[broker])
    assert problem.service_time_s is not None
    times = problem.service_time_s[broker]
    rates = problem.mean_rate_msg_s[members]
    if rates.sum() <= 0:
        return float(times.max())
    return float(times[members] @ rates / rates.sum())


def _broken_bounds(problem: Problem, broker: int, load: Load, members: IntArray) -> list[Violation]:
    if members.size == 0:
        return []
    bounds = problem.constraints
    subject = problem.brokers[broker]
    broken: list[Violation] = []
    if load.log_risk - np.log(bounds.max_risk[broker]) > TOLERANCE:
        broken.append(Violation("constraints.max_risk", subject, load.risk, float(bounds.max_risk[broker])))
    if members.size > bounds.max_items[broker]:
        broken.append(
            Violation("constraints.max_items", subject, members.size, float(bounds.max_items[broker]))
        )
    if load.volume > bounds.max_volume[broker] * (1 + TOLERANCE):
        broken.append(
            Violation("constraints.max_volume", subject, load.volume, float(bounds.max_volume[broker]))
        )
    loaded = load.mean_rate_msg_s > 0 or problem.capacity_msg_s is not None
    if loaded and load.delay_s > bounds.max_delay_s * (1 + TOLERANCE):
        broken.append(Violation("constraints.max_delay_s", subject, load.delay_s, bounds.max_delay_s))
    if load.replication > bounds.max_replication * (1 + TOLERANCE):
        broken.append(
            Violation("constraints.max_replication", subject, load.replication, bounds.max_replication)
        )
    return broken


def _broken_placements(problem: Problem, where: IntArray) -> list[Violation]:
    """Pins and prohibitions; value and bound are broker positions, which the subject spells out."""
    broken: list[Violation] = []
    bounds = problem.constraints
    for item, broker in bounds.pinned.items():
        if where[item] != broker:
            subject = (
                f"{problem.items[item]} on {problem.brokers[where[item]]}, not {problem.brokers[broker]}"
            )
            broken.append(Violation("constraints.pinned", subject, float(where[item]), float(broker)))
    for item, broker in sorted(bounds.forbidden):
        if where[item] == broker:
            subject = f"{problem.items[item]} on {problem.brokers[broker]}"
            broken.append(Violation("constraints.forbidden", subject, float(broker), float(broker)))
    return broken
