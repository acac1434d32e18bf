"""Mirrors: where items go when their broker fails."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from mangrove.errors import InputError
from mangrove.evaluation.allocation import Correlation, Setting, generate
from mangrove.planning.judgement.assessment import assess
from mangrove.planning.policies.mirroring import mirror, mirror_document
from mangrove.planning.problem.document import read_problem
from mangrove.planning.problem.problem import Problem
from mangrove.planning.solvers.registry import SolverName, solve
from mangrove.planning.solvers.stop import Never


def planned(items: int, brokers: int, load: float = 0.6) -> tuple[Problem, tuple[int, ...]]:
    problem = generate(4, Correlation.MIXED, Setting(items=items, brokers=brokers, load=load))
    return problem, solve(problem, SolverName.AUTO, Never(), 1).assignment


def test_no_mirror_is_on_its_primary() -> None:
    problem, assignment = planned(30, 4)
    plan = mirror(problem, assignment, Never(), 1)
    assert set(plan.mirrors) == set(problem.items)
    for item, broker in zip(problem.items, assignment, strict=True):
        assert plan.mirrors[item] != problem.brokers[broker]


def test_survivors_keep_what_they_have_and_risks_are_those_after_the_failure() -> None:
    problem, assignment = planned(12, 3)
    plan = mirror(problem, assignment, Never(), 1)
    for failed, failover in enumerate(plan.failovers):
        after = failover.after
        for item, broker in enumerate(assignment):
            if broker != failed:
                assert after.problem.brokers[after.assignment[item]] == problem.brokers[broker]
        moved = [
            problem.brokers.index(failover.moves.get(item, problem.brokers[assignment[i]]))
            for i, item in enumerate(problem.items)
        ]
        expected = assess(problem, moved)
        survivors = [load for b, load in enumerate(expected.loads) if b != failed]
        assert [load.log_risk for load in after.assessment.loads] == pytest.approx(
            [load.log_risk for load in survivors], rel=1e-9
        )


def test_mirrors_are_the_best_there_are() -> None:
    problem, assignment = planned(9, 3)
    failover = mirror(problem, assignment, Never(), 1).failovers[0]
    orphans = [item for item, broker in enumerate(assignment) if broker == 0]
    best = -np.inf
    for choice in itertools.product((1, 2), repeat=len(orphans)):
        where = np.array(assignment)
        where[orphans] = choice
        best = max(best, assess(problem, where).log_joint_ok)
    assert failover.after.assessment.log_joint_ok == pytest.approx(best, rel=1e-9)


def test_forbidden_brokers_are_not_mirrors_and_pins_yield_to_failure() -> None:
    document = {
        "items": ["a", "b"],
        "brokers": ["x", "y", "z"],
        "mean_rate": [1, 1],
        "covariance": [[1, 0], [0, 1]],
        "capacity": [10, 10, 10],
        "constraints": {"pinned": {"a": "x"}, "forbidden": {"a": "y"}},
    }
    problem = read_problem(document, "p").problem
    plan = mirror(problem, (0, 1), Never(), 1)
    assert plan.mirrors["a"] == "z"


def test_failures_that_break_the_risk_bound_are_said_so() -> None:
    problem, assignment = planned(12, 3, load=0.9)
    document = {
        "items": list(problem.items),
        "brokers": list(problem.brokers),
        "mean_rate": problem.mean_rate_msg_s.tolist(),
        "covariance": problem.covariance.tolist(),
        "capacity": problem.best_capacity_msg_s.tolist(),
        "constraints": {"max_risk": 0.2},
    }
    bounded = read_problem(document, "p").problem
    plan = mirror(bounded, assignment, Never(), 1)
    assert len(plan.infeasible) == 3
    written = mirror_document(plan, seconds=0.0)
    assert written["infeasible"]
    assert "broker1" in written["reason"]
    assert set(written["closest"]["mirrors"]) == set(problem.items)


def test_one_broker_has_no_mirror() -> None:
    problem, assignment = planned(3, 1)
    with pytest.raises(InputError, match="brokers"):
        mirror(problem, assignment, Never(), 1)
