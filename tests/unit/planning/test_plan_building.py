"""What was computed becomes a plan."""

from __future__ import annotations

from typing import Any

import pytest

from mangrove.errors import InputError
from mangrove.model.plans.plan import Plan
from mangrove.planning.policies.case_base import CaseBase, build, states
from mangrove.planning.policies.mirroring import mirror
from mangrove.planning.policies.plan_building import Policy, build_plan
from mangrove.planning.problem.document import ReadProblem, read_problem
from mangrove.planning.solvers.registry import SolverName, solve
from mangrove.planning.solvers.stop import Never

DOCUMENT: dict[str, Any] = {
    "items": ["alarms", "logs", "quotes"],
    "mean_rate": [10, 20, 15],
    "covariance": [[4, 0, 0], [0, 9, 1], [0, 1, 9]],
    "brokers": ["edge1", "edge2", "edge3"],
    "capacity": [60, 60, 60],
    "mirrored": {"alarms": True, "quotes": "standby"},
    "topics": {"logs": ["log.>", "trace.*"]},
    "federation": "roads",
    "domain": "north",
    "data_until": 1_700_000_000,
}


@pytest.fixture(scope="module")
def read() -> ReadProblem:
    return read_problem(DOCUMENT, "p")


def plan_of(read: ReadProblem, policy: Policy) -> Plan:
    return build_plan(read.problem, policy, read.provenance, topology="t", made_at=2e9, source="a test")


def test_an_allocation_is_the_normal_case_without_mirrors(read: ReadProblem) -> None:
    plan = plan_of(read, solve(read.problem, SolverName.AUTO, Never(), 1))
    assert (plan.federation, plan.domain, plan.data_until) == ("roads", "north", 1_700_000_000)
    assert {item.item: item.topics for item in plan.items} == {
        "alarms": ("alarms",),
        "logs": ("log.>", "trace.*"),
        "quotes": ("quotes",),
    }
    assert [item.mirrored for item in plan.items] == [True, False, True]
    (case,) = plan.cases
    assert set(case.placing) == set(DOCUMENT["items"])
    assert not any(placing.mirror for placing in case.placing.values())
    assert set(case.risk) == set(DOCUMENT["brokers"])


def test_mirrors_are_in_the_normal_case(read: ReadProblem) -> None:
    (case,) = plan_of(read, mirror(read.problem, None, Never(), 1)).cases
    assert case.placing["alarms"].mirror not in ("", case.placing["alarms"].primary)
    assert case.placing["quotes"].mirror not in ("", case.placing["quotes"].primary)
    assert case.placing["logs"].mirror == ""


def test_a_case_base_gives_all_its_states_the_normal_one_first(read: ReadProblem) -> None:
    base = build(read.problem, states(read.problem)[::-1], seed=1)
    plan = plan_of(read, base)
    assert len(plan.cases) == 7
    assert plan.cases[0].failed == ()
    for case in plan.cases:
        assert set(case.placing) == set(DOCUMENT["items"])
        used = {placing.primary for placing in case.placing.values()}
        assert not used & set(case.failed)
    other = read_problem({**DOCUMENT, "capacity": [50, 50, 50]}, "p")
    with pytest.raises(InputError, match="another problem"):
        plan_of(other, base)
    with pytest.raises(InputError, match="normal state"):
        plan_of(read, CaseBase(base.version, base.problem, base.brokers, base.items, ()))
