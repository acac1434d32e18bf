"""Plans judged by the same figures: what each would risk if the load were as the newest data say."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mangrove.model.plans.figures import MAX_FIGURES_ITEMS, PlanFigures
from mangrove.planning.judgement.assessment import Assessment, assess
from mangrove.planning.policies.copies import with_copies
from mangrove.planning.problem.arrays import FloatArray
from mangrove.planning.problem.problem import AllocationConstraints, Problem

_FLOAT = np.dtype("<f4")


def figures_of(problem: Problem) -> PlanFigures | None:
    """What travels with a plan; None if it is too much."""
    if problem.item_count > MAX_FIGURES_ITEMS:
        return None
    upper = problem.covariance[np.triu_indices(problem.item_count)]
    return PlanFigures(
        items=problem.items,
        brokers=problem.brokers,
        mean_rate_msg_s=_packed(problem.mean_rate_msg_s),
        covariance=_packed(upper),
        capacity_msg_s=b"" if problem.capacity_msg_s is None else _packed(problem.capacity_msg_s),
        service_time_s=b"" if problem.service_time_s is None else _packed(problem.service_time_s),
        utilisation_threshold=problem.utilisation_threshold,
    )


def figures_problem(figures: PlanFigures) -> str:
    """Why figures cannot be used, or an empty string."""
    count, brokers = len(figures.items), len(figures.brokers)
    if count > MAX_FIGURES_ITEMS or len(set(figures.items)) < count or len(set(figures.brokers)) < brokers:
        return "an item or a broker is named twice, or there are too many"
    wanted = {
        "mean_rate_msg_s": count,
        "covariance": count * (count + 1) // 2,
        "capacity_msg_s": brokers if figures.capacity_msg_s else 0,
        "service_time_s": brokers * count if figures.service_time_s else 0,
    }
    for name, numbers in wanted.items():
        packed: bytes = getattr(figures, name)
        if len(packed) != numbers * _FLOAT.itemsize:
            return f"{name} has {len(packed)} bytes for {numbers} numbers"
        if not np.isfinite(_unpacked(packed)).all():
            return f"{name} has a number that is none"
    if bool(figures.capacity_msg_s) == bool(figures.service_time_s):
        return "either capacities or times for a message are needed"
    positive = figures.capacity_msg_s or figures.service_time_s
    if not (_unpacked(positive) > 0).all() or (_unpacked(figures.mean_rate_msg_s) < 0).any():
        return "a capacity or a time is not above zero, or a rate is below it"
    if not 0 < figures.utilisation_threshold <= 1:
        return "utilisation_threshold is not above 0 and up to 1"
    return ""


def judged(
    figures: PlanFigures, where: Mapping[str, str], copies: Mapping[str, str] | None = None
) -> Assessment | None:
    """An allocation (item → broker) under these figures; None if it does not place every item of theirs.

    `copies` are mirrors of items whose messages are always sent twice: they load their brokers as well.
    """
    position = {broker: index for index, broker in enumerate(figures.brokers)}
    try:
        assignment = [position[where[item]] for item in figures.items]
    except KeyError:
        return None
    problem = problem_of(figures)
    mirrors = {
        index: position[mirror]
        for index, item in enumerate(figures.items)
        if (mirror := (copies or {}).get(item, "")) in position and position[mirror] != assignment[index]
    }
    if not mirrors:
        return assess(problem, assignment)
    return assess(with_copies(problem, list(mirrors), {}), [*assignment, *mirrors.values()])


def problem_of(figures: PlanFigures) -> Problem:
    """The allocation problem of these figures, without bounds."""
    count, brokers = len(figures.items), len(figures.brokers)
    covariance = np.zeros((count, count))
    upper = np.triu_indices(count)
    covariance[upper] = _unpacked(figures.covariance)
    covariance.T[upper] = covariance[upper]
    mean = _unpacked(figures.mean_rate_msg_s)
    service = _unpacked(figures.service_time_s).reshape(brokers, count) if figures.service_time_s else None
    return Problem(
        items=figures.items,
        brokers=figures.brokers,
        mean_rate_msg_s=mean,
        covariance=covariance,
        capacity_msg_s=_unpacked(figures.capacity_msg_s) if figures.capacity_msg_s else None,
        service_time_s=service,
        replication=np.zeros(count),
        volume=mean,
        reward=mean,
        penalty=mean,
        constraints=AllocationConstraints.none(brokers),
        utilisation_threshold=figures.utilisation_threshold,
    )


def _packed(numbers: FloatArray) -> bytes:
    return np.ascontiguousarray(numbers, dtype=_FLOAT).tobytes()


def _unpacked(packed: bytes) -> FloatArray:
    return np.frombuffer(packed, dtype=_FLOAT).astype(np.float64)
