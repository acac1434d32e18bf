"""Primaries and mirrors together: constraints, the load of the union, and small cases against enumeration."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mangrove.model.topics import Mirror
from mangrove.planning.judgement import risk
from mangrove.planning.policies.copies import NOWHERE, with_copies
from mangrove.planning.policies.mirroring import mirror, mirror_document
from mangrove.planning.policies.placement import Placement, Placer
from mangrove.planning.problem.arrays import FloatArray
from mangrove.planning.problem.document import read_problem
from mangrove.planning.problem.problem import AllocationConstraints, Problem
from mangrove.planning.solvers.registry import SolverName
from mangrove.planning.solvers.stop import Never

PLACER = Placer(SolverName.AUTO, Never(), 1)


@st.composite
def problems(draw: st.DrawFn, most_items: int = 6) -> Problem:
    """Small domains with any mixture of contracts, on one host, on several, or where nothing is said."""
    items = draw(st.integers(1, most_items))
    brokers = draw(st.integers(2, 4))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    mean = rng.uniform(10.0, 100.0, items)
    loadings = rng.normal(size=(items, 2)) * 0.2 * mean[:, None]
    capacity = rng.uniform(0.5, 2.5) * mean.sum() / brokers * rng.uniform(0.6, 1.4, brokers)
    names = tuple(f"i{n}" for n in range(items))
    hosts = draw(st.one_of(st.just([]), st.lists(st.sampled_from("gh"), min_size=brokers, max_size=brokers)))
    bound = draw(st.sampled_from([1.0, 0.3, 0.05]))
    constraints = replace(
        AllocationConstraints.none(brokers),
        max_risk=np.full(brokers, bound),
        max_items=np.full(brokers, draw(st.sampled_from([np.inf, float(items)]))),
        forbidden=frozenset({(0, brokers - 1)}) if draw(st.booleans()) else frozenset(),
    )
    return Problem(
        items=names,
        brokers=tuple(f"b{n}" for n in range(brokers)),
        mean_rate_msg_s=mean,
        covariance=loadings @ loadings.T + np.diag((0.1 * mean) ** 2),
        capacity_msg_s=capacity,
        service_time_s=None,
        replication=np.ones(items),
        volume=mean,
        reward=mean,
        penalty=mean,
        constraints=constraints,
        mirrored=tuple(draw(st.lists(st.sampled_from(list(Mirror)), min_size=items, max_size=items))),
        hosts=tuple(hosts),
    )


def margins(problem: Problem, sets: list[list[int]]) -> FloatArray:
    """By hand: from mean and variance of the sum of what each broker carries, every pair counted once."""
    assert problem.capacity_msg_s is not None
    mean = [sum(problem.mean_rate_msg_s[i] for i in members) for members in sets]
    variance = [sum(problem.covariance[i, j] for i in members for j in members) for members in sets]
    return risk.margin(problem.capacity_msg_s, np.array(mean), np.array(variance))


def log_risks(problem: Problem, sets: list[list[int]]) -> list[float]:
    return [float(each) for each in risk.log_risk(margins(problem, sets))]


def log_joint_ok(problem: Problem, sets: list[list[int]]) -> float:
    return float(risk.log_ok(margins(problem, sets)).sum())


def carried(problem: Problem, placement: Placement) -> list[list[int]]:
    """What each broker carries when nothing has failed: primaries and copies that are always sent."""
    sets: list[list[int]] = [[] for _ in problem.brokers]
    for item, broker in enumerate(placement.primaries):
        sets[broker].append(item)
    for item in problem.asking(Mirror.BOTH):
        if placement.mirrors[item] != NOWHERE:
            sets[placement.mirrors[item]].append(item)
    return sets


@settings(max_examples=30, deadline=None)
@given(problems())
def test_mirrors_are_for_those_who_ask_apart_and_within_the_bounds(problem: Problem) -> None:
    placement = PLACER.place(problem)
    groups = problem.groups()
    for item, (primary, mirrored) in enumerate(zip(placement.primaries, placement.mirrors, strict=True)):
        if mirrored == NOWHERE:
            continue
        assert problem.mirrored[item]
        assert primary != mirrored
        assert groups[primary] != groups[mirrored]
        if placement.together.feasible and problem.mirrored[item] is Mirror.BOTH:
            assert (item, mirrored) not in problem.constraints.forbidden
    if placement.together.feasible:
        assert not placement.unmirrored
        bounds = problem.constraints
        for broker, (members, log_risk) in enumerate(
            zip(carried(problem, placement), log_risks(problem, carried(problem, placement)), strict=True)
        ):
            assert log_risk <= np.log(bounds.max_risk[broker]) + 1e-6
            assert len(members) <= bounds.max_items[broker]
    else:
        assert placement.together.reason


@settings(max_examples=30, deadline=None)
@given(problems())
def test_the_load_is_that_of_the_union(problem: Problem) -> None:
    placement = PLACER.place(problem)
    expected = log_risks(problem, carried(problem, placement))
    found = [load.log_risk for load in placement.together.assessment.loads]
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-9)
    joint = log_joint_ok(problem, carried(problem, placement))
    assert placement.together.assessment.log_joint_ok == pytest.approx(joint, rel=1e-6, abs=1e-9)


@settings(max_examples=20, deadline=None)
@given(problems(), st.integers(0, 3))
def test_after_a_failure_mirrors_carry_and_dead_copies_do_not(problem: Problem, which: int) -> None:
    placement = PLACER.place(problem)
    failed = which % problem.broker_count
    after = PLACER.after(problem, placement.primaries, placement.mirrors, [failed])
    alive = [broker for broker in range(problem.broker_count) if broker != failed]
    sets: list[list[int]] = [[] for _ in problem.brokers]
    for item, primary in enumerate(placement.primaries):
        serving = alive[after.assignment[item]]
        copy = placement.mirrors[item]
        if primary != failed:
            assert serving == primary
        elif copy not in (NOWHERE, failed):
            assert serving == copy
        sets[serving].append(item)
        if problem.mirrored[item] is Mirror.BOTH and primary != failed and copy not in (NOWHERE, failed):
            sets[copy].append(item)
    expected = [each for b, each in enumerate(log_risks(problem, sets)) if b != failed]
    found = [load.log_risk for load in after.assessment.loads]
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-9)


@settings(max_examples=25, deadline=None)
@given(problems(most_items=5))
def test_mirrors_for_given_primaries_are_the_best_there_are(problem: Problem) -> None:
    free = replace(
        problem, constraints=AllocationConstraints.none(problem.broker_count), mirrored=problem.mirrored
    )
    rng = np.random.default_rng(problem.item_count)
    primaries = tuple(int(b) for b in rng.integers(0, free.broker_count, free.item_count))
    groups = free.groups()
    placement = PLACER.place(free, primaries)
    both = free.asking(Mirror.BOTH)
    choices = [[b for b in range(free.broker_count) if groups[b] != groups[primaries[i]]] for i in both]
    best = -np.inf
    for choice in itertools.product(*choices):
        sets: list[list[int]] = [[i for i, b in enumerate(primaries) if b == n] for n in range(len(groups))]
        for item, broker in zip(both, choice, strict=True):
            sets[broker].append(item)
        best = max(best, log_joint_ok(free, sets))
    assert placement.together.assessment.log_joint_ok == pytest.approx(best, rel=1e-6, abs=1e-9)


def domain(hosts: object = None, **more: object) -> Problem:
    document = {
        "items": ["a", "b", "c"],
        "brokers": ["x", "y", "z"],
        "mean_rate": [10, 10, 10],
        "covariance": np.diag([4.0, 4.0, 4.0]).tolist(),
        "capacity": [100, 100, 100],
        "mirrored": {"a": "both", "b": "standby"},
        **({"hosts": hosts} if hosts else {}),
        **more,
    }
    return read_problem(document, "p").problem


def test_a_copy_varies_with_others_as_the_original_does() -> None:
    matrix: FloatArray = np.array([[4.0, 1.0], [1.0, 9.0]])
    problem = read_problem(
        {
            "items": ["a", "b"],
            "brokers": ["x", "y"],
            "mean_rate": [1, 2],
            "covariance": matrix.tolist(),
            "capacity": [9, 9],
        },
        "p",
    ).problem
    whole = with_copies(problem, [1], {})
    assert whole.covariance.tolist() == [[4, 1, 1], [1, 9, 9], [1, 9, 9]]
    assert whole.mean_rate_msg_s.tolist() == [1, 2, 2]
    assert whole.reward.tolist() == [1, 2, 0]


def test_where_constraints_leave_no_broker_for_a_mirror_it_is_said() -> None:
    problem = domain({"h": ["x", "y"], "g": ["z"]}, constraints={"forbidden": {"a": "z"}})
    plan = mirror(problem, None, Never(), 1)
    assert "a" not in plan.mirrors
    assert plan.placement.unmirrored == ("a",)
    written = mirror_document(plan, seconds=0.0)
    assert written["infeasible"]
    assert "mirrored.a" in written["reason"]
    assert written["closest"]["mirrors"]["a"]["mirror"] is None


def test_a_bound_that_copies_would_break_is_said() -> None:
    tight = {"capacity": [16, 16, 16], "constraints": {"max_risk": 0.01}}
    alone = mirror(domain(mirrored={}, **tight), None, Never(), 1)
    assert alone.normal.feasible
    both = mirror(domain(mirrored=[True, True, True], **tight), None, Never(), 1)
    assert not both.normal.feasible
    assert "max_risk" in both.reasons[0]


def test_hosts_are_failures_of_their_own() -> None:
    problem = domain({"h": ["x", "y"], "g": ["z"]})
    plan = mirror(problem, None, Never(), 1)
    written = mirror_document(plan, seconds=0.0)
    assert set(written["failures"]) == {"x", "y", "z"}
    assert set(written["host_failures"]) == {"h", "g"}
    assert set(written["mirrors"]) == {"a", "b"}
    assert {row["mode"] for row in written["mirrors"].values()} == {"both", "standby"}
    lost = {i for i, b in zip(problem.items, plan.assignment, strict=True) if problem.hosts[b] == "h"}
    moves = written["host_failures"]["h"]["moves"]
    assert set(moves) == lost
    assert set(moves.values()) <= {"z"}
    for item, row in written["mirrors"].items():
        assert (row["primary"] == "z") != (row["mirror"] == "z"), item
    assert written["normal"]["copies"][plan.mirrors["a"]] == ["a"]
