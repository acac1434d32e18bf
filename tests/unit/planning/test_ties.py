"""Where the objective cannot tell allocations apart: no plan that nobody would apply."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from mangrove.planning.judgement.assessment import Assessment, assess
from mangrove.planning.policies import case_base
from mangrove.planning.policies.mirroring import mirror
from mangrove.planning.problem.document import read_problem
from mangrove.planning.problem.problem import Problem
from mangrove.planning.solvers import genetic
from mangrove.planning.solvers.registry import SolverName, solve
from mangrove.planning.solvers.stop import Never

OPTIMISERS = [SolverName.AUTO, SolverName.EXACT, SolverName.GENETIC, SolverName.SEARCH]


def to_spare(items: int = 50, brokers: int = 3, variation: float = 0.3, **further: Any) -> Problem:
    """2,000 msg/s in all on brokers of 20,000: every allocation has probability 1 in double precision."""
    mean = np.random.default_rng(7).uniform(0.5, 1.5, items)
    mean *= 2000.0 / mean.sum()
    document = {
        "items": [f"topic{n}" for n in range(items)],
        "mean_rate": mean.tolist(),
        "covariance": np.diag((variation * mean) ** 2).tolist(),
        "brokers": [f"broker{n}" for n in range(brokers)],
        "capacity": [20_000.0] * brokers,
    }
    return read_problem({**document, **further}, "to spare").problem


def chosen(problem: Problem, solver: SolverName) -> Assessment:
    params = genetic.GeneticParams(generations=20) if solver is SolverName.GENETIC else None
    return solve(problem, solver, Never(), 1, params).assessment


def loads(assessment: Assessment) -> list[float]:
    return [load.mean_rate_msg_s for load in assessment.loads]


@pytest.mark.parametrize("solver", [s for s in OPTIMISERS if s is not SolverName.EXACT])
def test_capacity_to_spare_is_used(solver: SolverName) -> None:
    problem = to_spare()
    found = chosen(problem, solver)
    baseline = chosen(problem, SolverName.ROUND_ROBIN)
    assert found.joint_ok == baseline.joint_ok == 1.0
    assert max(loads(found)) < 1.05 * min(loads(found))
    assert found.largest_log_risk <= baseline.largest_log_risk


@pytest.mark.parametrize("solver", OPTIMISERS)
def test_exact_settles_ties_too_and_still_proves(solver: SolverName) -> None:
    problem = to_spare(items=9)
    result = solve(problem, solver, Never(), 1)
    assert result.proven_optimal
    assert max(loads(result.assessment)) < 1.25 * min(loads(result.assessment))
    everything_on_one = assess(problem, [0] * 9)
    assert everything_on_one.score == result.assessment.score
    assert result.assessment.largest_log_risk < 2 * everything_on_one.largest_log_risk


@pytest.mark.parametrize("solver", OPTIMISERS)
def test_without_any_variance_utilisation_decides(solver: SolverName) -> None:
    """Every risk is zero, its logarithm −∞: the largest risk ties too."""
    problem = to_spare(items=12, variation=0.0, capacity=[10_000.0, 20_000.0, 20_000.0])
    found = chosen(problem, solver)
    assert found.largest_log_risk == -math.inf
    used = [load.utilisation for load in found.loads]
    assert max(used) < 1.3 * min(used)


@pytest.mark.parametrize("solver", OPTIMISERS)
def test_brokers_beside_a_risky_one_share_what_is_left(solver: SolverName) -> None:
    """The pinned item decides the probability; where the others go changes nothing in it."""
    problem = to_spare(
        items=10,
        capacity=[400.0, 20_000.0, 20_000.0],
        mean_rate=[350.0] + [100.0] * 9,
        covariance=np.diag([900.0] + [100.0] * 9).tolist(),
        constraints={"pinned": {"topic0": "broker0"}},
    )
    found = chosen(problem, solver)
    assert 0.04 < found.loads[0].risk < 0.05
    assert sorted(loads(found)) == [350.0, 400.0, 500.0]


@pytest.mark.parametrize("objective", ["constant-penalty", "excess-penalty"])
def test_utilities_tie_as_probabilities_do(objective: str) -> None:
    found = chosen(to_spare(objective=objective), SolverName.SEARCH)
    assert max(loads(found)) < 1.05 * min(loads(found))


@pytest.mark.parametrize("solver", OPTIMISERS)
def test_ties_never_break_a_constraint(solver: SolverName) -> None:
    constraints = {"max_items": {"broker0": 1}, "forbidden": {"topic1": ["broker1"]}, "max_volume": 1200}
    result = solve(to_spare(items=8, constraints=constraints), solver, Never(), 1)
    assert result.feasible
    assert len(result.allocation["broker0"]) == 1
    assert "topic1" not in result.allocation["broker1"]


def test_mirrors_are_shared_by_those_that_are_left() -> None:
    problem = to_spare()
    assignment = solve(problem, SolverName.AUTO, Never(), 1).assignment
    for failover in mirror(problem, assignment, Never(), 1).failovers:
        assert len(set(failover.moves.values())) == 2
        after = loads(failover.after.assessment)
        assert max(after) < 1.1 * min(after)


def test_cases_use_every_broker_that_works() -> None:
    problem = to_spare()
    for case in case_base.build(problem, case_base.states(problem), seed=1).cases:
        rates = dict(zip(problem.items, problem.mean_rate_msg_s, strict=True))
        carried = [sum(rates[item] for item in items) for items in case.allocation.values()]
        assert max(carried) < 1.1 * min(carried)
