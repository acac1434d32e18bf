"""Every form in which a plan may come leads to the same plan."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from mangrove.control.plans.carrying import carried
from mangrove.control.plans.documents import read_plan
from mangrove.control.plans.figures import figures_of, figures_problem, judged
from mangrove.errors import InvalidDocumentError
from mangrove.model.plans.plan import Placing, Plan
from mangrove.planning.judgement.answer import answer
from mangrove.planning.judgement.assessment import assess
from mangrove.planning.policies import case_base
from mangrove.planning.policies.mirroring import mirror, mirror_document
from mangrove.planning.problem.document import read_problem
from mangrove.planning.solvers.registry import SolverName, solve
from mangrove.planning.solvers.stop import Never

BROKERS = ("oslo-edge1", "oslo-edge2", "oslo-edge3")
PROBLEM: dict[str, Any] = {
    "items": ["alpha", "beta", "rest"],
    "mean_rate": [400.0, 300.0, 200.0],
    "covariance": [[900.0, 100.0, 0.0], [100.0, 400.0, 50.0], [0.0, 50.0, 400.0]],
    "brokers": list(BROKERS),
    "capacity": [600.0, 600.0, 600.0],
    "mirrored": {"alpha": "both", "beta": "standby"},
    "federation": "f",
    "domain": "oslo",
    "topology": "abc",
    "topics": {"alpha": ["a"], "beta": ["b.*"], "rest": ["c", "d.>"]},
    "data_until": 1000.0,
}


def document(form: str) -> dict[str, Any]:
    problem = read_problem(PROBLEM, "problem").problem
    extra = carried(PROBLEM, problem, made_at=2000.0, source=f"plan {form}")
    match form:
        case "allocate":
            return {**answer(solve(problem, SolverName.EXACT, Never(), 1), seconds=0.0), **extra}
        case "mirror":
            return {**mirror_document(mirror(problem, None, Never(), 1), seconds=0.0), **extra}
        case _:
            base = case_base.build(problem, case_base.states(problem, ()), 1, SolverName.AUTO)
            return {**case_base.case_base_document(base), **extra}


def read(told: object) -> Plan:
    data = told if isinstance(told, bytes) else json.dumps(told).encode()
    return read_plan(data, "plan", federation="f", domain="oslo", now_s=5000.0)


@pytest.mark.parametrize("form", ["allocate", "mirror", "cases"])
def test_each_answer_is_a_plan(form: str) -> None:
    plan = read(document(form))
    assert (plan.federation, plan.domain, plan.topology) == ("f", "oslo", "abc")
    assert (plan.made_at, plan.data_until, plan.source) == (2000.0, 1000.0, f"plan {form}")
    assert {item.item: item.topics for item in plan.items} == {
        "alpha": ("a",),
        "beta": ("b.*",),
        "rest": ("c", "d.>"),
    }
    assert {placing.primary for placing in plan.normal.placing.values()} <= set(BROKERS)
    assert plan.normal.risk.keys() == set(BROKERS)
    assert plan.figures is not None
    if form != "allocate":
        assert plan.normal.placing["alpha"].mirror not in ("", plan.normal.placing["alpha"].primary)
        assert plan.normal.placing["rest"].mirror == ""
        case = plan.case_for(frozenset({BROKERS[0]}))
        assert case is not None
        assert case.failed == (BROKERS[0],)
        assert BROKERS[0] not in {placing.primary for placing in case.placing.values()}


def test_two_failures_are_in_the_case_base_alone() -> None:
    down = frozenset(BROKERS[:2])
    case = read(document("cases")).case_for(down)
    assert case is not None
    assert {placing.primary for placing in case.placing.values()} == {BROKERS[2]}
    assert read(document("mirror")).case_for(down) is None


def test_an_item_without_topics_is_a_topic_itself() -> None:
    told = document("allocate")
    del told["topics"]
    told["allocation"] = {"oslo-edge1": ["alpha", "beta@oslo", "rest"]}
    del told["figures"]
    plan = read(told)
    assert [item.topics for item in plan.items] == [("alpha",), ("beta",), ("rest",)]


def test_a_problem_without_a_federation_carries_nothing() -> None:
    bare = {name: value for name, value in PROBLEM.items() if name not in ("federation", "topology")}
    assert carried(bare, read_problem(bare, "problem").problem, made_at=1.0, source="x") == {}


def test_the_same_figures_give_the_same_risk() -> None:
    problem = read_problem(PROBLEM, "problem").problem
    figures = figures_of(problem)
    assert figures is not None
    assert figures_problem(figures) == ""
    found = judged(figures, {"alpha": BROKERS[0], "beta": BROKERS[0], "rest": BROKERS[1]})
    assert found is not None
    assert found.log_joint_ok == pytest.approx(assess(problem, [0, 0, 1]).log_joint_ok, rel=1e-5)
    assert judged(figures, {"alpha": BROKERS[0]}) is None


def test_mirrors_that_are_always_sent_load_their_brokers() -> None:
    problem = read_problem(PROBLEM, "problem").problem
    figures = figures_of(problem)
    assert figures is not None
    where = {"alpha": BROKERS[0], "beta": BROKERS[1], "rest": BROKERS[1]}
    alone, both = judged(figures, where), judged(figures, where, {"alpha": BROKERS[2], "rest": BROKERS[1]})
    assert alone is not None
    assert both is not None
    assert [load.mean_rate_msg_s for load in alone.loads] == [400.0, 500.0, 0.0]
    assert [load.mean_rate_msg_s for load in both.loads] == [400.0, 500.0, 400.0], "none on its own broker"


def test_figures_of_a_model_are_the_same_too() -> None:
    modelled = {name: value for name, value in PROBLEM.items() if name != "capacity"} | {
        "model": {"t_rcv": 1e-4, "t_fltr": 1e-6, "t_tx": 1e-4},
        "filters": [1, 2, 3],
        "replication": [1, 4, 2],
    }
    problem = read_problem(modelled, "problem").problem
    figures = figures_of(problem)
    assert figures is not None
    where = {"alpha": BROKERS[0], "beta": BROKERS[1], "rest": BROKERS[1]}
    found, expected = judged(figures, where), assess(problem, [0, 1, 1])
    assert found is not None
    assert np.allclose([load.log_risk for load in found.loads], [load.log_risk for load in expected.loads])


@pytest.mark.parametrize("form", ["allocate", "mirror", "cases"])
def test_no_part_of_a_document_is_taken_for_the_whole(form: str) -> None:
    whole = json.dumps(document(form)).encode()
    for cut in range(1, len(whole), max(1, len(whole) // 50)):
        with pytest.raises(InvalidDocumentError, match="not JSON"):
            read(whole[:cut])


def test_an_old_case_base_is_refused_with_what_to_do() -> None:
    told = document("cases") | {"version": case_base.FORMAT_VERSION - 1}
    with pytest.raises(InvalidDocumentError, match="compute it again with this release"):
        read(told)


@pytest.mark.parametrize(
    ("field", "value", "place"),
    [
        ("cases", [], "version: 2 of a plan"),
        ("cases", [7], "version"),
        ("topics", {"alpha": []}, "topics.alpha"),
        ("topics", 7, "topics: 7"),
        ("data_until", -1, "data_until: -1"),
        ("federation", 7, "federation: 7"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(field: str, value: object, place: str) -> None:
    with pytest.raises(InvalidDocumentError, match=place):
        read(document("cases") | {field: value})


@pytest.mark.parametrize(("digits", "problem"), [(400, "data_until: 1000"), (5000, "not JSON")])
def test_a_number_beyond_all_numbers_is_a_mistake_as_any_other(digits: int, problem: str) -> None:
    told = json.dumps(document("cases") | {"data_until": 7}).encode()
    with pytest.raises(InvalidDocumentError, match=problem):
        read(told.replace(b'"data_until": 7', b'"data_until": 1' + b"0" * digits))


def test_cases_must_have_the_same_items() -> None:
    told = document("cases")
    told["cases"][1]["allocation"] = {BROKERS[2]: ["alpha"]}
    told["cases"][1]["mirrors"] = {}
    with pytest.raises(InvalidDocumentError, match="'beta' is not in both this state and the normal one"):
        read(told)


def test_an_allocation_that_breaks_bounds_is_no_plan() -> None:
    with pytest.raises(InvalidDocumentError, match="no allocation keeps the bounds: too much"):
        read({**PROBLEM, "infeasible": True, "reason": "too much", "closest": {"allocation": {}}})


def test_placing_holds_both() -> None:
    told = {
        "version": 1,
        "federation": "f",
        "items": [{"item": "x", "topics": ["a"]}],
        "cases": [{"placing": {"x": {"primary": "p", "mirror": "m"}}}],
    }
    assert read(told).normal.placing == {"x": Placing(primary="p", mirror="m")}
    told["items"] = [{"item": "x", "topics": ["a"]}] * 2
    with pytest.raises(InvalidDocumentError, match="'x' is there twice"):
        read(told)
