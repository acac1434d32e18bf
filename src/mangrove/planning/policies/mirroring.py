"""A mirror for every item that asks, and what each failure then means (thesis §4.6.1, figure 4-10).

Only items whose contract asks are mirrored. A mirror is never on its primary's broker, nor on its host where
there are several. Where copies are always sent, primaries and mirrors load a broker together; mirrors that
stand by load it after the failure. The mirrors of one broker's items may be spread over several others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from mangrove.errors import InputError
from mangrove.model.topics import Mirror
from mangrove.planning.judgement.answer import answer
from mangrove.planning.judgement.result import Result
from mangrove.planning.policies.copies import COPY_SUFFIX
from mangrove.planning.policies.placement import Placement, Placer
from mangrove.planning.problem.problem import Problem
from mangrove.planning.solvers.registry import SolverName
from mangrove.planning.solvers.stop import Stop


@dataclass(frozen=True, slots=True)
class Failover:
    """The failure of a broker, or of a host: where its items go, and the state of the others afterwards."""

    broker: str
    moves: dict[str, str]
    after: Result


@dataclass(frozen=True, slots=True)
class MirrorPlan:
    """Mirrors, and the outcome of each single failure of a broker and of a host."""

    problem: Problem
    placement: Placement
    failovers: tuple[Failover, ...]
    host_failovers: tuple[Failover, ...] = ()

    @property
    def assignment(self) -> tuple[int, ...]:
        """The broker of each item."""
        return self.placement.primaries

    @property
    def normal(self) -> Result:
        """All brokers work: primaries, and mirrors that are always sent."""
        return self.placement.together

    @property
    def mirrors(self) -> dict[str, str]:
        """Item → mirror broker, for items that ask."""
        return self.placement.mirror_names

    @property
    def infeasible(self) -> tuple[Failover, ...]:
        """Failures after which some constraint cannot be kept, or was not found to be."""
        every = self.failovers + self.host_failovers
        return tuple(failover for failover in every if not failover.after.feasible)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the plan is not an answer; empty when it is."""
        found = [] if self.normal.feasible else [f"when nothing fails: {self.normal.reason}"]
        for kind, failovers in (("", self.failovers), ("host ", self.host_failovers)):
            broken = (f for f in failovers if not f.after.feasible)
            found += [f"if {kind}{f.broker} fails: {f.after.reason}" for f in broken]
        return tuple(found)


def mirror(
    problem: Problem,
    assignment: Sequence[int] | None,
    stop: Stop,
    seed: int,
    solver: SolverName = SolverName.AUTO,
) -> MirrorPlan:
    """Mirrors for the allocation `assignment[item] = broker`, or for one that is computed with them.

    A problem that says nothing about mirrors gets one that stands by for every item.
    """
    if problem.broker_count < 2:
        raise InputError("brokers: a mirror needs a second broker", hint="add a broker to the problem")
    if not problem.mirrored:
        problem = replace(problem, mirrored=(Mirror.STANDBY,) * problem.item_count)
    placer = Placer(solver, stop, seed)
    placement = placer.place(problem, assignment)
    groups = problem.groups()
    failovers = tuple(
        _failover(placer, placement, [broker], name) for broker, name in enumerate(problem.brokers)
    )
    hosts = dict.fromkeys(problem.hosts) if len(set(problem.hosts)) > 1 else {}
    host_failovers = tuple(
        _failover(placer, placement, [b for b, its in enumerate(groups) if its == group], name)
        for group, name in enumerate(hosts)
    )
    return MirrorPlan(problem, placement, failovers, host_failovers)


def _failover(placer: Placer, placement: Placement, failed: list[int], name: str) -> Failover:
    problem = placement.problem
    groups = problem.groups()
    group = groups[failed[0]]
    after = placement.outages.get(group) if groups.count(group) == len(failed) else None
    if after is None:
        after = placer.after(problem, placement.primaries, placement.mirrors, failed)
    moves = {
        problem.items[item]: after.problem.brokers[after.assignment[item]]
        for item, broker in enumerate(placement.primaries)
        if broker in failed
    }
    return Failover(name, moves, after)


def mirror_document(plan: MirrorPlan, *, seconds: float) -> dict[str, Any]:
    """The plan as plain data."""
    problem = plan.problem
    document: dict[str, Any] = {
        "mirrors": {
            item: {
                "primary": problem.brokers[plan.assignment[index]],
                "mirror": plan.mirrors.get(item),
                "mode": problem.mirrored[index].value,
            }
            for index, item in enumerate(problem.items)
            if problem.mirrored[index]
        },
        "normal": _outcome(plan.problem, plan.normal),
        "failures": {f.broker: _failure(problem, f) for f in plan.failovers},
        "worst_joint_ok": min(f.after.assessment.joint_ok for f in plan.failovers + plan.host_failovers),
        "seconds": round(seconds, 6),
    }
    if plan.host_failovers:
        document["host_failures"] = {f.broker: _failure(problem, f) for f in plan.host_failovers}
    if not plan.reasons:
        return document
    return {"infeasible": True, "reason": "; ".join(plan.reasons), "closest": document}


def _failure(problem: Problem, failover: Failover) -> dict[str, Any]:
    return {"moves": failover.moves, **_outcome(problem, failover.after)}


def _outcome(problem: Problem, result: Result) -> dict[str, Any]:
    """A state without the time it took; `allocation` has the items, `copies` the mirrors that carry."""
    document = answer(result, seconds=0.0)
    inner = document.get("closest", document)
    inner.pop("seconds", None)
    brokers = result.problem.brokers
    carried: dict[str, list[str]] = {broker: [] for broker in brokers}
    copies: dict[str, list[str]] = {broker: [] for broker in brokers}
    for place, (item, broker) in enumerate(zip(result.problem.items, result.assignment, strict=True)):
        if place < problem.item_count:
            carried[brokers[broker]].append(item)
        else:
            copies[brokers[broker]].append(item.removesuffix(COPY_SUFFIX))
    inner["allocation"] = carried
    if any(copies.values()):
        inner["copies"] = copies
    return document
