"""Where the items of each broker go if it fails (thesis §4.6.1, figure 4-10).

For every broker in turn: the others keep what they carry, and its items are allocated into the room that is
left, by the same algorithm and under the same constraints. The mirrors of one broker's items may thus be
spread over several others; none is on its primary, because the primary is not among the choices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mangrove.errors import InputError
from mangrove.planning.judgement.answer import answer
from mangrove.planning.judgement.result import Result
from mangrove.planning.problem.problem import Problem
from mangrove.planning.solvers.registry import SolverName, best_effort
from mangrove.planning.solvers.stop import Stop


@dataclass(frozen=True, slots=True)
class Failover:
    """One broker's failure: where its items go, and the state of the others afterwards."""

    broker: str
    moves: dict[str, str]
    after: Result


@dataclass(frozen=True, slots=True)
class MirrorPlan:
    """A mirror for every item, and the outcome of each single failure."""

    problem: Problem
    assignment: tuple[int, ...]
    failovers: tuple[Failover, ...]

    @property
    def mirrors(self) -> dict[str, str]:
        """Item → mirror broker."""
        return {item: mirror for failover in self.failovers for item, mirror in failover.moves.items()}

    @property
    def infeasible(self) -> tuple[Failover, ...]:
        """Failures after which some constraint cannot be kept, or was not found to be."""
        return tuple(failover for failover in self.failovers if not failover.after.feasible)


def mirror(
    problem: Problem,
    assignment: Sequence[int],
    stop: Stop,
    seed: int,
    solver: SolverName = SolverName.AUTO,
) -> MirrorPlan:
    """Mirrors for the allocation `assignment[item] = broker`."""
    if problem.broker_count < 2:
        raise InputError("brokers: a mirror needs a second broker", hint="add a broker to the problem")
    failovers = tuple(
        _failover(problem, assignment, broker, stop, seed, solver) for broker in range(problem.broker_count)
    )
    return MirrorPlan(problem, tuple(int(b) for b in assignment), failovers)


def _failover(
    problem: Problem, assignment: Sequence[int], failed: int, stop: Stop, seed: int, solver: SolverName
) -> Failover:
    staying = {item: int(broker) for item, broker in enumerate(assignment) if broker != failed}
    kept = [broker for broker in range(problem.broker_count) if broker != failed]
    remaining = problem.with_brokers(kept, staying)
    after = best_effort(remaining, solver, stop, seed)
    moves = {
        problem.items[item]: remaining.brokers[after.assignment[item]]
        for item, broker in enumerate(assignment)
        if broker == failed
    }
    return Failover(problem.brokers[failed], moves, after)


def mirror_document(plan: MirrorPlan, *, seconds: float) -> dict[str, Any]:
    """The plan as plain data."""
    primaries = {
        item: plan.problem.brokers[broker]
        for item, broker in zip(plan.problem.items, plan.assignment, strict=True)
    }
    document: dict[str, Any] = {
        "mirrors": {
            item: {"primary": primaries[item], "mirror": plan.mirrors[item]} for item in plan.problem.items
        },
        "failures": {
            failover.broker: {"moves": failover.moves, **answer(failover.after, seconds=0.0)}
            for failover in plan.failovers
        },
        "worst_joint_ok": min(f.after.assessment.joint_ok for f in plan.failovers),
        "seconds": round(seconds, 6),
    }
    for failure in document["failures"].values():
        failure.pop("seconds", None)
        failure.get("closest", {}).pop("seconds", None)
    if not plan.infeasible:
        return document
    reasons = "; ".join(f"if {f.broker} fails: {f.after.reason}" for f in plan.infeasible)
    return {"infeasible": True, "reason": reasons, "closest": document}
