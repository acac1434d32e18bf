"""Mirrors inside cases: who takes over, who stays, and what hosts change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mangrove.errors import InputError
from mangrove.model.topics import Mirror
from mangrove.planning.policies.case_base import (
    Case,
    CaseBase,
    CaseKind,
    State,
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

HOSTS = {"north": ["b0", "b1"], "south": ["b2", "b3"]}


def domain(**changes: Any) -> Problem:
    rng = np.random.default_rng(7)
    mean = rng.uniform(20, 60, 10)
    document: dict[str, Any] = {
        "items": [f"i{n}" for n in range(10)],
        "mean_rate": mean.tolist(),
        "covariance": np.diag((0.2 * mean) ** 2).tolist(),
        "brokers": ["b0", "b1", "b2", "b3"],
        "capacity": [400.0, 300.0, 350.0, 300.0],
        "mirrored": ["both", "standby", "none"] * 3 + ["both"],
        "hosts": HOSTS,
        "constraints": {"max_risk": 0.05},
    }
    return read_problem({**document, **changes}, "p").problem


@pytest.fixture(scope="module")
def base() -> CaseBase:
    problem = domain()
    return build(problem, states(problem, (0.3,)), seed=1)


def primaries(case: Case) -> dict[str, str]:
    return {item: broker for broker, items in case.allocation.items() for item in items}


def check(problem: Problem, case: Case) -> None:
    """What holds for every case, whatever the state."""
    serving = primaries(case)
    assert sorted(serving) == sorted(problem.items)
    host = dict(zip(problem.brokers, problem.hosts or problem.brokers, strict=True))
    used = [broker for broker in problem.brokers if broker not in case.unavailable]
    several = len({host[broker] for broker in used}) > 1
    for item, mirrored in case.mirrors.items():
        assert problem.mirrored[problem.items.index(item)]
        assert mirrored != serving[item]
        assert {mirrored, serving[item]} <= set(used)
        assert not several or host[mirrored] != host[serving[item]]
    asking = {problem.items[item] for item in problem.asking(Mirror.STANDBY, Mirror.BOTH)}
    assert set(case.mirrors) | set(case.unmirrored) == asking
    if case.feasible and len(used) > 1:
        assert not case.unmirrored
        assert all(risk <= 0.05 + 1e-9 for risk in case.risk.values())


def test_states_have_each_host_once() -> None:
    found = states(domain())
    assert [s.failed for s in found if s.kind is CaseKind.HOST_FAILURE] == [("b0", "b1"), ("b2", "b3")]
    assert len([s for s in found if s.kind is CaseKind.DOUBLE_FAILURE]) == 4
    alone = states(domain(hosts={"north": ["b0", "b1", "b2"], "south": ["b3"]}), double=False)
    assert [s.failed for s in alone if s.kind is CaseKind.HOST_FAILURE] == [("b0", "b1", "b2")]
    assert len(alone) == 1 + 4 + 1
    assert not [
        s
        for s in states(domain(hosts={"all": HOSTS["north"] + HOSTS["south"]}))
        if s.kind is CaseKind.HOST_FAILURE
    ]


def test_every_case_has_mirrors_apart_for_those_who_ask(base: CaseBase) -> None:
    problem = domain()
    for case in base.cases:
        check(problem, case)
    assert all(case.feasible for case in base.cases if len(case.state.failed) < 2)


def test_mirrors_take_over_where_bounds_allow(base: CaseBase) -> None:
    before = base.cases[0]
    was = primaries(before)
    for case in base.cases:
        if not case.state.failed:
            continue
        lost = {item for item, broker in was.items() if broker in case.state.failed}
        ready = {item for item in lost if before.mirrors.get(item, "b0") not in case.state.failed}
        ready &= set(before.mirrors)
        assert set(case.continued) <= ready
        if case.feasible:
            assert set(case.continued) == ready
        for item in case.continued:
            assert primaries(case)[item] == before.mirrors[item]


def test_with_stay_nothing_moves_from_a_working_broker() -> None:
    problem = domain()
    kept = build(problem, states(problem, double=False), seed=1, stay=True)
    was = primaries(kept.cases[0])
    for case in kept.cases[1:]:
        check(problem, case)
        if case.feasible:
            assert all(
                primaries(case)[item] == broker
                for item, broker in was.items()
                if broker not in case.state.failed
            )


def test_what_a_bound_forbids_does_not_continue() -> None:
    """The mirror has no room for the item once others need it: the item goes elsewhere."""
    document = {
        "items": ["a", "b"],
        "brokers": ["x", "y", "z"],
        "mean_rate": [10, 10],
        "covariance": [[1.0, 0.0], [0.0, 1.0]],
        "capacity": [30, 30, 30],
        "mirrored": {"a": "standby"},
        "constraints": {"max_risk": 0.05},
    }
    problem = read_problem(document, "p").problem
    before = compute_case(problem, State(CaseKind.NORMAL), seed=1, stop=Never())
    full = replace(
        problem, capacity_msg_s=np.where(np.array(problem.brokers) == before.mirrors["a"], 5.0, 30.0)
    )
    where = primaries(before)["a"]
    case = compute_case(full, State(CaseKind.SINGLE_FAILURE, (where,)), seed=1, stop=Never(), before=before)
    assert case.feasible
    assert case.continued == ()
    assert primaries(case)["a"] != before.mirrors["a"]


def test_problems_that_ask_for_nothing_have_cases_as_ever() -> None:
    plain = domain(mirrored=["none"] * 10)
    found = build(plain, states(plain, double=False), seed=1)
    assert not any(case.mirrors or case.unmirrored or case.continued for case in found.cases)
    silent = replace(plain, mirrored=(), hosts=())
    again = build(silent, states(silent, double=False), seed=1)
    assert [c.allocation for c in again.cases] == [
        c.allocation for c in found.cases if c.state.kind is not CaseKind.HOST_FAILURE
    ]


def test_low_load_leaves_a_place_for_mirrors(base: CaseBase) -> None:
    low = base.cases[-1]
    assert low.state.kind is CaseKind.LOW_LOAD
    assert len(low.allocation) == 2
    assert low.off
    check(domain(), low)


def test_old_case_bases_are_refused_with_the_remedy(base: CaseBase) -> None:
    assert decode(encode(base)) == base
    old = encode(base).replace(b'"version":2', b'"version":1', 1)
    with pytest.raises(InputError, match="version: 1") as caught:
        decode(old)
    assert "plan cases" in caught.value.hint
    assert digest(domain()) != digest(domain(mirrored=["none"] * 10))
    assert digest(domain()) != digest(replace(domain(), hosts=()))


@settings(max_examples=12, deadline=None)
@given(
    st.lists(st.sampled_from(list(Mirror)), min_size=10, max_size=10),
    st.sampled_from([(), ("n", "n", "s", "s"), ("n", "s", "s", "s")]),
    st.sets(st.sampled_from(["b0", "b1", "b2", "b3"]), max_size=3),
    st.booleans(),
)
def test_quick_cases_keep_the_rules(
    mirrored: list[Mirror], hosts: tuple[str, ...], failed: set[str], stay: bool
) -> None:
    problem = replace(domain(), mirrored=tuple(mirrored), hosts=hosts)
    normal = compute_case(problem, State(CaseKind.NORMAL), seed=1, stop=Never(), quick=True)
    state = State(CaseKind.DOUBLE_FAILURE, tuple(sorted(failed)))
    case = compute_case(problem, state, seed=1, stop=Never(), before=normal, stay=stay, quick=True)
    check(problem, normal)
    check(problem, case)
