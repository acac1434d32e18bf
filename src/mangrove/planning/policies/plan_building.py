"""What was computed → the plan that agents put in force."""

from __future__ import annotations

from collections.abc import Mapping

from mangrove.errors import InputError
from mangrove.model.plans.plan import Placing, Plan, PlanCase, PlannedItem
from mangrove.planning.judgement.result import Result
from mangrove.planning.policies.case_base import Case, CaseBase, CaseKind, digest
from mangrove.planning.policies.mirroring import MirrorPlan
from mangrove.planning.problem.deployment import Provenance
from mangrove.planning.problem.problem import Problem

Policy = Result | MirrorPlan | CaseBase


def build_plan(
    problem: Problem,
    policy: Policy,
    provenance: Provenance,
    *,
    topology: str,
    made_at: float,
    source: str = "",
) -> Plan:
    """A plan of an allocation, of an allocation with mirrors, or of a case base with all of its states.

    `provenance` names federation and domain, the end of the data and each item's topics (an item without any
    is a topic itself); `topology` is the fingerprint of the domain that the plan is for.
    """
    return Plan(
        federation=provenance.federation,
        domain=provenance.domain,
        topology=topology,
        made_at=made_at,
        data_until=provenance.data_until,
        items=tuple(
            PlannedItem(item=item, topics=provenance.topics_of(item), mirrored=bool(mode))
            for item, mode in zip(problem.items, _modes(problem), strict=True)
        ),
        cases=_cases(problem, policy),
        source=source,
    )


def _modes(problem: Problem) -> tuple[object, ...]:
    return problem.mirrored or ("",) * problem.item_count


def _cases(problem: Problem, policy: Policy) -> tuple[PlanCase, ...]:
    if isinstance(policy, CaseBase):
        if policy.problem != digest(problem):
            raise InputError(
                "the case base was computed for another problem",
                hint="compute it again: mangrove plan cases PROBLEM.json --output CASES.json",
            )
        # The plan's first case is that of the normal state.
        ordered = sorted(policy.cases, key=lambda case: case.state.kind is not CaseKind.NORMAL)
        if not ordered or ordered[0].state.kind is not CaseKind.NORMAL:
            raise InputError("the case base has no case of the normal state")
        return tuple(plan_case(case) for case in ordered)
    if isinstance(policy, MirrorPlan):
        return (_normal(problem, policy.normal, policy.assignment, policy.mirrors),)
    return (_normal(problem, policy, policy.assignment, {}),)


def plan_case(case: Case) -> PlanCase:
    """A case as a plan has it."""
    primaries = {item: broker for broker, items in case.allocation.items() for item in items}
    return PlanCase(
        failed=case.state.failed,
        load=case.state.load,
        off=case.off,
        placing=_placing(primaries, case.mirrors),
        risk=case.risk,
        joint_ok=case.joint_ok,
        feasible=case.feasible,
        reason=case.reason or "",
    )


def _normal(
    problem: Problem, judged: Result, assignment: tuple[int, ...], mirrors: Mapping[str, str]
) -> PlanCase:
    """The normal state; `judged` may count mirrors that always carry, beyond the items of the problem."""
    primaries = {
        item: problem.brokers[broker] for item, broker in zip(problem.items, assignment, strict=True)
    }
    loads = zip(problem.brokers, judged.assessment.loads, strict=True)
    return PlanCase(
        placing=_placing(primaries, mirrors),
        risk={broker: load.risk for broker, load in loads},
        joint_ok=judged.assessment.joint_ok,
        feasible=judged.feasible,
        reason=judged.reason or "",
    )


def _placing(primaries: Mapping[str, str], mirrors: Mapping[str, str]) -> dict[str, Placing]:
    return {item: Placing(primary=broker, mirror=mirrors.get(item, "")) for item, broker in primaries.items()}
