"""The solvers on the published six items, and on problems made to test one thing each."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mangrove.evaluation.allocation import Correlation, Setting, generate
from mangrove.planning.bounds import best_bound
from mangrove.planning.judgement.assessment import assess
from mangrove.planning.judgement.result import Result, natural
from mangrove.planning.problem.document import read_problem
from mangrove.planning.problem.problem import Problem
from mangrove.planning.solvers import exact, genetic, round_robin, search
from mangrove.planning.solvers.registry import SolverName, best_effort, solve
from mangrove.planning.solvers.stop import Never, Progress, TimeLimit

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parents[2] / "data" / "allocation_6x3.json").read_text())
RECOMPUTED = GOLDEN["recomputed"]
OPTIMISERS = [SolverName.EXACT, SolverName.GENETIC, SolverName.SEARCH, SolverName.AUTO]


def golden(**changes: Any) -> Problem:
    return read_problem({**GOLDEN, **changes}, "golden").problem


def quick(problem: Problem, solver: SolverName, seed: int = 1) -> Result:
    """Solve a small problem; sixty generations are plenty for it."""
    few = genetic.GeneticParams(generations=60) if solver is SolverName.GENETIC else None
    return solve(problem, solver, Never(), seed, few)


def sets(result: Result) -> list[list[str]]:
    return [result.allocation[broker] for broker in result.problem.brokers]


@pytest.mark.parametrize("solver", OPTIMISERS)
def test_true_optimum_of_the_joint_probability(solver: SolverName) -> None:
    result = solve(golden(), solver, Never(), 1)
    assert sets(result) == RECOMPUTED["best_joint"]["allocation"]
    assert result.assessment.joint_ok == pytest.approx(
        RECOMPUTED["best_joint"]["joint_probability_all_ok"], abs=1e-6
    )
    assert [load.risk for load in result.assessment.loads] == pytest.approx(
        RECOMPUTED["round_robin"], abs=1e-6
    )
    assert result.bound >= result.value * (1 - 1e-12)


@pytest.mark.parametrize("solver", OPTIMISERS)
def test_true_optimum_of_the_utility(solver: SolverName) -> None:
    result = solve(golden(objective="constant-penalty"), solver, Never(), 1)
    expected = RECOMPUTED["best_utility_reward_eq_penalty_eq_mean"]
    assert sets(result) == expected["allocation"]
    assert result.value == pytest.approx(expected["utility"], abs=1e-4)


def test_exact_proves_the_optimum() -> None:
    result = solve(golden(), SolverName.EXACT, Never(), 1)
    assert result.proven_optimal
    assert result.gap == 0


@pytest.mark.parametrize("solver", OPTIMISERS)
def test_published_threshold_is_infeasible(solver: SolverName) -> None:
    threshold = GOLDEN["published"]["risk_threshold"]
    result = solve(golden(constraints={"max_risk": threshold}), solver, Never(), 1)
    assert not result.feasible
    assert "constraints.max_risk" in (result.reason or "")
    assert result.infeasibility_proven or solver not in (SolverName.EXACT, SolverName.AUTO)


def test_published_risk_aware_allocation_is_worse_than_round_robin() -> None:
    """The erratum: with the printed inputs the printed answer is not the better one."""
    problem = golden()
    for name in ("round_robin", "risk_aware"):
        where = [0] * problem.item_count
        for broker, items in enumerate(GOLDEN["published"][name]["allocation"]):
            for item in items:
                where[problem.items.index(item)] = broker
        risks = [load.risk for load in assess(problem, where).loads]
        assert risks == pytest.approx(RECOMPUTED[name], abs=1e-6)
        assert risks != pytest.approx(GOLDEN["published"][name]["risk"], rel=0.1)


def test_round_robin_takes_the_largest_reserve_in_turn() -> None:
    result = solve(golden(), SolverName.ROUND_ROBIN, Never(), 1)
    assert sets(result) == [["item1", "item4", "item6"], ["item2", "item5"], ["item3"]]
    cyclic = solve(golden(), SolverName.CYCLIC, Never(), 1)
    assert sets(cyclic) == [["item1", "item4"], ["item2", "item5"], ["item3", "item6"]]


def test_round_robin_respects_pins_and_room() -> None:
    problem = golden(
        constraints={"pinned": {"item3": "broker1"}, "max_items": 2, "forbidden": {"item1": "broker2"}}
    )
    where = round_robin.by_reserve(problem, np.arange(6))
    assert where[2] == 0
    assert where[0] != 1
    assert np.bincount(where, minlength=3).max() == 2
    assert round_robin.cyclic(problem, np.arange(6))[2] == 0


def test_constraints_shape_the_answer() -> None:
    bounds = {
        "pinned": {"item3": "broker1"},
        "forbidden": {"item1": ["broker1", "broker2"]},
        "max_items": {"broker3": 2},
    }
    for solver in OPTIMISERS:
        result = quick(golden(constraints=bounds), solver, 3)
        assert result.feasible
        assert "item3" in result.allocation["broker1"]
        assert "item1" in result.allocation["broker3"]
        assert len(result.allocation["broker3"]) <= 2


def modelled(**changes: Any) -> dict[str, Any]:
    """Four items with different fan-out on three brokers whose capacity follows from what they carry."""
    return {
        "items": ["a", "b", "c", "d"],
        "brokers": ["x", "y", "z"],
        "mean_rate": [1100.0, 1900.0, 1200.0, 1500.0],
        "covariance": np.diag([90.0, 80.0, 70.0, 60.0]).__pow__(2).tolist(),
        "model": {"t_rcv": 4.88e-5, "t_fltr": 1.62e-7, "t_tx": 1.64e-5},
        "filters": [3, 3, 3, 3],
        "replication": [40, 2, 30, 2],
        **changes,
    }


def test_capacity_follows_what_is_allocated() -> None:
    problem = read_problem(modelled(), "model").problem
    result = solve(problem, SolverName.EXACT, Never(), 1)
    assert result.proven_optimal
    for broker, load in zip(problem.brokers, result.assessment.loads, strict=True):
        members = [problem.items.index(item) for item in result.allocation[broker]]
        assert members
        rates = problem.mean_rate_msg_s[members]
        copies = float(np.array([40, 2, 30, 2])[members] @ rates / rates.sum())
        assert load.capacity_msg_s == pytest.approx(1 / (4.88e-5 + 3 * 1.62e-7 + copies * 1.64e-5))


def test_delay_and_replication_bounds() -> None:
    free = solve(read_problem(modelled(), "m").problem, SolverName.EXACT, Never(), 1)
    grades = [load.replication for load in free.assessment.loads]
    bound = 0.99 * max(grades)
    for solver in OPTIMISERS:
        document = modelled(constraints={"max_replication": bound})
        result = quick(read_problem(document, "m").problem, solver)
        assert result.feasible
        assert max(load.replication for load in result.assessment.loads) <= bound
        slowest = max(load.delay_s for load in result.assessment.loads)
        document["constraints"]["max_delay_s"] = slowest
        assert quick(read_problem(document, "m").problem, solver).feasible
    document = modelled(constraints={"max_delay_s": 1e-4})
    result = solve(read_problem(document, "m").problem, SolverName.EXACT, Never(), 1)
    assert result.infeasibility_proven
    assert "constraints.max_delay_s" in (result.reason or "")


def test_volume_bound_counts_bytes() -> None:
    sizes = [1000, 10, 10, 10, 10, 10]
    document = {
        **GOLDEN,
        "size_bytes": sizes,
        "constraints": {"max_volume": {"broker1": 9000, "broker2": 9000}},
    }
    problem = read_problem(document, "golden").problem
    for solver in OPTIMISERS:
        result = quick(problem, solver)
        assert result.feasible
        assert "item1" in result.allocation["broker3"]


@pytest.mark.parametrize(
    ("constraints", "field"),
    [
        ({"max_items": 1}, "constraints.max_items"),
        ({"max_volume": 100}, "constraints.max_volume"),
        ({"pinned": {"item1": "broker1"}, "forbidden": {"item1": "broker1"}}, "constraints.pinned.item1"),
        ({"forbidden": {"item2": ["broker1", "broker2", "broker3"]}}, "constraints.forbidden.item2"),
        (
            {"pinned": {"item1": "broker1", "item2": "broker1"}, "max_items": {"broker1": 1}},
            "constraints.pinned",
        ),
        ({"max_delay_s": 1e-6}, "constraints.max_delay_s"),
    ],
)
def test_contradictions_are_named_and_the_closest_allocation_given(
    constraints: dict[str, Any], field: str
) -> None:
    for solver in SolverName:
        result = quick(golden(constraints=constraints), solver)
        assert not result.feasible
        assert result.infeasibility_proven
        assert field in (result.reason or "")
        assert sorted(item for items in sets(result) for item in items) == list(result.problem.items)


def workload(items: int, brokers: int, seed: int = 1) -> Problem:
    return generate(seed, Correlation.MIXED, Setting(items=items, brokers=brokers))


def test_stopped_exact_reports_what_could_still_be_better() -> None:
    problem = workload(13, 4)
    stopped = exact.solve(problem, Never(), 1, exact.ExactParams(max_nodes=1000))
    assert not stopped.proven_optimal
    finished = exact.solve(problem, Never(), 1, exact.ExactParams())
    assert finished.proven_optimal
    assert stopped.bound >= finished.value >= stopped.value
    assert stopped.gap > 0


def test_exact_without_tables_agrees() -> None:
    problem = workload(8, 3)
    with_tables = exact.solve(problem, Never(), 1, exact.ExactParams())
    without = exact.solve(problem, Never(), 1, exact.ExactParams(tabulate=False))
    assert with_tables.proven_optimal
    assert without.proven_optimal
    assert without.value == pytest.approx(with_tables.value, rel=1e-9)
    assert without.steps > with_tables.steps


def test_equal_brokers_are_not_searched_twice() -> None:
    problem = workload(10, 4)
    assert problem.service_time_s is not None
    # A difference too small to matter to the optimum, but enough to make the brokers distinct.
    speeds = 1 + 1e-9 * np.arange(4)[:, None]
    distinct = replace(problem, service_time_s=problem.service_time_s * speeds)
    few = exact.solve(problem, Never(), 1, exact.ExactParams())
    many = exact.solve(distinct, Never(), 1, exact.ExactParams())
    assert few.value == pytest.approx(many.value, rel=1e-6)
    assert few.steps * 4 < many.steps


def test_search_matches_genetic_and_proof() -> None:
    problem = workload(12, 3)
    proof = exact.solve(problem, Never(), 1, exact.ExactParams())
    found = search.solve(problem, Never(), 1, search.SearchParams())
    assert proof.proven_optimal
    assert found.value == pytest.approx(proof.value, rel=1e-9)
    larger = workload(60, 3)
    evolved = genetic.solve(larger, Never(), 1, genetic.GeneticParams(generations=150))
    climbed = search.solve(larger, Never(), 1, search.SearchParams(rounds=50))
    assert climbed.value >= evolved.value
    assert climbed.bound >= climbed.value


def test_genetic_starts_from_round_robin() -> None:
    problem = workload(40, 3)
    baseline = solve(problem, SolverName.ROUND_ROBIN, Never(), 1)
    one_generation = genetic.solve(problem, Never(), 1, genetic.GeneticParams(generations=1, population=4))
    assert one_generation.value >= baseline.value


@pytest.mark.parametrize("solver", [SolverName.GENETIC, SolverName.SEARCH, SolverName.EXACT])
def test_results_repeat_with_the_seed(solver: SolverName) -> None:
    problem = workload(14, 3)
    first, second = (solve(problem, solver, Never(), 7) for _ in range(2))
    assert first.assignment == second.assignment
    assert first.steps == second.steps


@pytest.mark.parametrize("solver", [SolverName.GENETIC, SolverName.SEARCH, SolverName.EXACT])
def test_solvers_stop_when_told(solver: SolverName) -> None:
    asked: list[Progress] = []

    def stop(progress: Progress) -> bool:
        asked.append(progress)
        return True

    result = solve(workload(60, 4), solver, stop, 1)
    assert 1 <= len(asked) <= 3
    assert len(result.assignment) == 60


def test_stop_conditions() -> None:
    now = iter([1.0, 5.0])
    limit = TimeLimit(lambda: next(now), until_s=5.0)
    here = Progress("search", 1, score=-0.5)
    assert [limit(here), limit(here)] == [False, True]


def test_auto_answers_with_search_where_exact_cannot_finish() -> None:
    assert solve(workload(10, 3), SolverName.AUTO, Never(), 1).solver == "exact"
    assert solve(workload(40, 3), SolverName.AUTO, Never(), 1).solver == "search"


def test_best_effort_keeps_other_constraints() -> None:
    problem = golden(constraints={"max_risk": 0.007, "pinned": {"item3": "broker1"}})
    result = best_effort(problem, SolverName.EXACT, Never(), 1)
    assert not result.feasible
    assert result.infeasibility_proven
    free = solve(golden(constraints={"pinned": {"item3": "broker1"}}), SolverName.EXACT, Never(), 1)
    assert result.assignment == free.assignment


def test_risks_too_small_for_a_sum_still_guide_the_search() -> None:
    problem = golden(capacity=[7000, 7500, 6000])
    result = solve(problem, SolverName.EXACT, Never(), 1)
    assert result.proven_optimal
    assert max(load.log_risk for load in result.assessment.loads) < np.log(1e-30)
    assert all(load.risk > 0 or load.log_risk < -700 for load in result.assessment.loads)


@pytest.mark.parametrize("kind", Correlation)
def test_bound_of_a_large_problem_says_something(kind: Correlation) -> None:
    """It was 1 - 5e-10 where no more than 0.86 is possible, with correlations of one sign."""
    problem = generate(1, kind, Setting(items=1000, brokers=20, load=0.8))
    bound = natural(problem, best_bound.score_bound(problem))
    assert bound <= (0.86 if kind is Correlation.POSITIVE else 1.0)
    usual = solve(problem, SolverName.ROUND_ROBIN, Never(), 1)
    assert usual.value <= bound


def test_items_that_never_vary_can_be_planned() -> None:
    """A covariance of zeros ended in a traceback."""
    problem = golden(covariance=[[0.0] * 6 for _ in range(6)])
    assert solve(problem, SolverName.SEARCH, Never(), 1).feasible
