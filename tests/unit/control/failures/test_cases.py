"""A state that nobody prepared gets a case of its own, kept in bounds and while it is about the same."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from mangrove.control.failures.case_computing import computed
from mangrove.control.failures.cases import CASES_KEY, MAX_CASES, SCHEMA, CaseBook, StoredCases
from mangrove.control.instructions import ComputeCase, Instruction, Store
from mangrove.control.plans.department import PlanDepartment
from mangrove.control.site import Site
from mangrove.control.stimuli import CaseComputed
from mangrove.errors import InputError
from mangrove.model.endpoints import fixed_endpoints
from mangrove.model.events.event_log import EventLog
from mangrove.model.federation import Domain, Edge, Federation
from mangrove.model.plans.case_request import CaseRequest
from mangrove.model.plans.plan import Placing, PlanCase
from mangrove.planning.solvers.stop import Never

EDGES = ("oslo-edge1", "oslo-edge2", "oslo-edge3")
RATES = {"a": 300.0, "b": 300.0, "c": 200.0}
PLACES = {topic: Placing(primary=edge) for topic, edge in zip(RATES, EDGES, strict=True)}


def site() -> Site:
    described = Domain(name="oslo", base_port=4000, edges=(Edge(capacity=1000.0),) * 3)
    return Site(Federation(name="f", domains={"oslo": described}), fixed_endpoints(described))


class Plans:
    """A plan in force of some version without any case, or none."""

    def __init__(self, version: int = 0) -> None:
        plan = SimpleNamespace(figures=None, normal=PlanCase(placing=PLACES))
        self.in_force = SimpleNamespace(version=version, plan=plan) if version else None

    def case_for(self, failed: frozenset[str]) -> PlanCase | None:
        return None


def book(where: Site, version: int = 0) -> CaseBook:
    plans = cast("PlanDepartment", Plans(version))
    numbers = iter(range(1, 10_000))
    return CaseBook(
        where,
        lambda: plans,
        EventLog("oslo-agent"),
        number=lambda: next(numbers),
        rates=lambda now: RATES,
        places=lambda: PLACES,
    )


def wanted(told: list[Instruction]) -> CaseRequest:
    (instruction,) = told
    assert isinstance(instruction, ComputeCase)
    return instruction.request


def test_a_state_is_computed_once_and_then_known() -> None:
    where = site()
    cases = book(where)
    where.set_down(["oslo-edge1"])
    request = wanted(cases.want(None, 0.0))
    assert request.failed == ("oslo-edge1",)
    assert cases.want(None, 0.1) == []
    cases.computed(CaseComputed(request, computed(request, Never())), 0.3)
    assert cases.place("a", 0.4) in ("oslo-edge2", "oslo-edge3")
    assert [cases.place(topic, 0.4) for topic in "bc"] == ["oslo-edge2", "oslo-edge3"]
    assert cases.want(None, 0.5) == []
    where.set_down([])
    assert cases.place("a", 1.0) == ""


def test_what_was_measured_is_outdated_after_a_while() -> None:
    where = site()
    cases = book(where)
    where.set_down(["oslo-edge1"])
    request = wanted(cases.want(None, 0.0))
    cases.computed(CaseComputed(request, computed(request, Never())), 0.0)
    assert cases.place("a", 599.0)
    assert cases.place("a", 601.0) == ""
    assert wanted(cases.want(None, 601.0)) == request


def test_nothing_is_asked_for_when_there_is_nothing_to_choose_or_to_compute_from() -> None:
    where = site()
    cases = book(where)
    for down in ([], ["oslo-head"], EDGES):
        where.set_down(down)
        assert cases.want(None, 0.0) == []
    where.set_down(["oslo-edge1"])
    assert book(where, version=7).want(None, 0.0) == []  # a plan without its figures


@pytest.mark.parametrize(
    "placing",
    [
        {"a": Placing(primary="bonn-edge1")},
        {"a": Placing(primary="oslo-edge1")},
        {"a": Placing(primary="oslo-edge2", mirror="oslo-edge2")},
    ],
)
def test_a_case_that_cannot_be_is_refused_and_counted(placing: dict[str, Placing]) -> None:
    where = site()
    cases = book(where)
    where.set_down(["oslo-edge1"])
    request = wanted(cases.want(None, 0.0))
    cases.computed(CaseComputed(request, PlanCase(failed=request.failed, placing=placing)), 0.1)
    assert cases.place("a", 0.2) == ""
    assert sum(cases.refused.values()) == 1


def stored(cases: tuple[PlanCase, ...], where: Site, **changed: object) -> bytes:
    mine = book(where, version=7)
    record = StoredCases(schema=SCHEMA, topology=mine._topology, plan=7, cases=cases)
    return msgspec.json.encode(msgspec.structs.replace(record, **changed))


def test_what_a_predecessor_kept_is_taken_up_in_bounds() -> None:
    where = site()
    where.set_down(["oslo-edge1"])
    case = PlanCase(failed=("oslo-edge1",), placing={"a": Placing(primary="oslo-edge2")})
    cases = book(where, version=7)
    cases.begin([b"nonsense", stored((case,) * (MAX_CASES + 5), where)], 0.0)
    assert cases.kept(1.0) == case
    assert not cases.refused


@pytest.mark.parametrize(
    ("changed", "why"),
    [({"schema": 0}, "schema 0"), ({"topology": "another"}, "other brokers"), ({"plan": 6}, "of plan 6")],
)
def test_kept_cases_of_something_else_are_refused(changed: dict[str, object], why: str) -> None:
    where = site()
    where.set_down(["oslo-edge1"])
    case = PlanCase(failed=("oslo-edge1",), placing={"a": Placing(primary="oslo-edge2")})
    cases = book(where, version=7)
    cases.begin([stored((case,), where, **changed)], 0.0)
    assert cases.kept(1.0) is None
    (reason,) = cases.refused
    assert why in reason


def test_growth_is_bounded_and_what_is_kept_under_a_plan_is_stored() -> None:
    where = site()
    cases = book(where, version=7)
    told: list[Instruction] = []
    for number in range(MAX_CASES + 10):
        down = frozenset({"oslo-edge1", f"x{number}"})
        cases._asked[7, down] = None
        request = CaseRequest(plan=7, failed=tuple(down), brokers=EDGES, hosts=("",) * 3)
        told += cases.computed(CaseComputed(request, PlanCase(failed=request.failed)), 0.0)
    assert len(cases._kept) == MAX_CASES
    last = told[-1]
    assert isinstance(last, Store)
    assert last.writes[0].key == CASES_KEY
    kept = msgspec.json.decode(last.writes[0].value or b"", type=StoredCases)
    assert len(kept.cases) == MAX_CASES


def test_an_answer_that_nobody_waits_for_changes_nothing() -> None:
    where = site()
    cases = book(where)
    request = CaseRequest(plan=3, failed=("oslo-edge1",), brokers=EDGES, hosts=("",) * 3)
    assert cases.computed(CaseComputed(request, PlanCase(failed=("oslo-edge1",))), 0.0) == []
    assert not cases.refused


def test_without_figures_there_is_no_case() -> None:
    with pytest.raises(InputError):
        computed(CaseRequest(plan=0, failed=(), brokers=EDGES, hosts=("",) * 3), Never())
