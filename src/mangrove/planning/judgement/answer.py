"""`Result` → plain data: the answers of `mangrove plan`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mangrove.planning.judgement.assessment import assess
from mangrove.planning.judgement.result import Result


def answer(result: Result, *, seconds: float, warnings: tuple[str, ...] = ()) -> dict[str, Any]:
    """The document of an allocation; when there is none, the reason and the closest one."""
    said = [*warnings, *result.warnings]
    if result.feasible:
        return described(result, seconds=seconds, warnings=said)
    return {
        "infeasible": True,
        "reason": result.reason,
        "proven": result.infeasibility_proven,
        "closest": {
            **described(result, seconds=seconds, warnings=said),
            "violations": [
                {
                    "constraint": v.constraint,
                    "subject": v.subject,
                    "value": _plain(v.value),
                    "bound": _plain(v.bound),
                }
                for v in result.assessment.violations
            ],
        },
    }


def described(result: Result, *, seconds: float, warnings: list[str]) -> dict[str, Any]:
    """An allocation with its risks. `log_risk` is there for risks too small for a plain number."""
    brokers = result.problem.brokers
    loads = result.assessment.loads
    assessment = result.assessment
    utility = (
        assessment.utility_excess_penalty
        if result.problem.objective.value == "excess-penalty"
        else assessment.utility_constant_penalty
    )
    return {
        "allocation": result.allocation,
        "risk": {broker: load.risk for broker, load in zip(brokers, loads, strict=True)},
        "log_risk": {broker: _plain(load.log_risk) for broker, load in zip(brokers, loads, strict=True)},
        **_risk_model(result),
        "joint_ok": assessment.joint_ok,
        "utility": utility,
        "objective": result.problem.objective.value,
        "value": result.value,
        "solver": result.solver,
        "proven_optimal": result.proven_optimal,
        "bound": result.known_bound,
        "gap": None if result.known_bound is None else result.gap,
        "seed": result.seed,
        "steps": result.steps,
        "seconds": round(seconds, 6),
        "warnings": warnings,
    }


def _risk_model(result: Result) -> dict[str, Any]:
    """Where the risks come from; if from scenarios, what the normal model says of the same allocation."""
    scenarios = result.problem.scenarios
    if scenarios is None:
        return {"risk_model": "normal"}
    normal = assess(replace(result.problem, scenarios=None), result.assignment)
    return {
        "risk_model": "empirical",
        "normal_risk": {b: load.risk for b, load in zip(result.problem.brokers, normal.loads, strict=True)},
        "scenarios": scenarios.count,
        "tail_shape": scenarios.shape,
    }


def _plain(value: float) -> float | None:
    """JSON has no infinity."""
    return float(value) if np.isfinite(value) else None
