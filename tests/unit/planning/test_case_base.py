"""The case base: which states have a policy, and which policy a state gets."""

from __future__ import annotations

import json
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from mangrove.errors import InputError
from mangrove.evaluation.allocation import Correlation, Setting, generate
from mangrove.planning.policies.case_base import (
    CaseBase,
    CaseKind,
    build,
    compute_case,
    decode,
    digest,
    encode,
    states,
)
from mangrove.planning.problem.document import read_problem
from mangrove.planning.problem.problem import Problem
from mangrove.planning.solvers.stop import Never


def problem(brokers: int = 4, items: int = 10, load: float = 0.5, max_risk: float = 0.05) -> Problem:
    drawn = generate(2, Correlation.MIXED, Setting(items=items, brokers=brokers, load=load))
    bounds = replace(drawn.constraints, max_risk=np.full(brokers, max_risk))
    return replace(drawn, constraints=bounds)


@pytest.fixture(scope="module")
def base() -> CaseBase:
    domain = problem()
    return build(domain, states(domain, (0.25, 0.5)), seed=1)


def test_states_are_normal_single_double_and_low(base: CaseBase) -> None:
    kinds = [case.state.kind for case in base.cases]
    assert kinds.count(CaseKind.NORMAL) == 1
    assert kinds.count(CaseKind.SINGLE_FAILURE) == 4
    assert kinds.count(CaseKind.DOUBLE_FAILURE) == 6
    assert kinds.count(CaseKind.LOW_LOAD) == 2
    assert len(states(problem(brokers=1))) == 1
    assert len(states(problem(brokers=2))) == 3


def test_every_policy_is_a_partition_over_working_brokers(base: CaseBase) -> None:
    for case in base.cases:
        placed = sorted(item for items in case.allocation.values() for item in items)
        assert placed == sorted(base.items)
        assert not set(case.allocation) & set(case.state.failed)
        assert not set(case.allocation) & set(case.off)


def test_low_load_uses_the_fewest_brokers(base: CaseBase) -> None:
    low = [case for case in base.cases if case.state.kind is CaseKind.LOW_LOAD]
    assert all(case.feasible and case.proven for case in low)
    used = [len(case.allocation) for case in low]
    assert used[0] <= used[1] < 4
    for case in low:
        # One broker fewer cannot do: shown by asking for it.
        fewer = problem(brokers=len(case.allocation) - 1) if len(case.allocation) > 1 else None
        if fewer is not None:
            drawn = problem().scaled(case.state.load)
            smaller = drawn.with_brokers(range(len(case.allocation) - 1), {})
            found = compute_case(smaller, states(smaller)[0], seed=1, stop=Never())
            assert not found.feasible


def test_low_load_keeps_brokers_with_pinned_items_and_takes_the_largest() -> None:
    document = {
        "items": ["a", "b", "c"],
        "brokers": ["small", "large", "home"],
        "mean_rate": [10, 10, 10],
        "covariance": np.diag([1.0, 1.0, 1.0]).tolist(),
        "capacity": [15, 100, 20],
        "constraints": {"max_risk": 0.01, "pinned": {"a": "home"}},
    }
    domain = read_problem(document, "p").problem
    low = build(domain, states(domain, (0.9,), double=False), seed=1).cases[-1]
    assert set(low.allocation) == {"home", "large"}
    assert low.off == ("small",)
    free = read_problem({**document, "constraints": {"max_risk": 0.01}}, "p").problem
    low = build(free, states(free, (0.9,), double=False), seed=1).cases[-1]
    assert set(low.allocation) == {"large"}


def test_pins_to_a_failed_broker_are_released_and_said() -> None:
    domain = problem()
    pinned = replace(domain, constraints=replace(domain.constraints, pinned={0: 0, 1: 1}))
    cases = build(pinned, states(pinned, double=False), seed=1).cases
    by_failed = {case.state.failed: case for case in cases}
    assert by_failed[("broker1",)].released_pins == ("topic1",)
    assert "topic2" in by_failed[("broker1",)].allocation["broker2"]
    assert by_failed[()].released_pins == ()


def test_retrieval_of_an_exact_case(base: CaseBase) -> None:
    found = base.retrieve(["broker2", "broker1"])
    assert found is not None
    assert found.exact
    assert set(found.case.state.failed) == {"broker1", "broker2"}
    low = base.retrieve([], 0.25)
    assert low is not None
    assert low.exact
    assert low.case.state.kind is CaseKind.LOW_LOAD


def test_retrieval_of_the_nearest_covering_case(base: CaseBase) -> None:
    between = base.retrieve([], 0.4)
    assert between is not None
    assert not between.exact
    assert between.case.state.load >= 0.4
    failed_at_low_load = base.retrieve(["broker3"], 0.8)
    assert failed_at_low_load is not None
    assert failed_at_low_load.case.state.failed == ("broker3",)
    assert base.retrieve(["broker1", "broker2", "broker3"]) is None
    assert base.retrieve([], 1.5) is None
    with pytest.raises(InputError, match="nowhere"):
        base.retrieve(["nowhere"])


def test_retrieval_without_doubles_uses_a_low_load_case_that_spares_the_brokers() -> None:
    domain = problem()
    low = build(domain, states(domain, (0.25,), double=False), seed=1)
    off = low.cases[-1].off
    assert len(off) >= 2
    found = low.retrieve(off[:2], 0.2)
    assert found is not None
    assert not set(found.case.allocation) & set(off[:2])
    assert low.retrieve(off[:2], 1.0) is None


def test_case_base_survives_serialisation(base: CaseBase) -> None:
    assert decode(encode(base)) == base
    damaged = json.loads(encode(base))
    damaged["version"] = 99
    with pytest.raises(InputError, match="version"):
        decode(json.dumps(damaged).encode())
    with pytest.raises(InputError, match="not a case base"):
        decode(b"{}")


def test_digest_tells_problems_apart() -> None:
    domain = problem()
    assert digest(domain) == digest(problem())
    assert digest(domain) != digest(domain.scaled(1.0001))


def test_cases_can_be_spread_over_workers(base: CaseBase) -> None:
    domain = problem()
    with ProcessPoolExecutor(2) as pool:
        spread = build(domain, states(domain, (0.25, 0.5)), seed=1, mapper=pool.map)
    assert spread == base
