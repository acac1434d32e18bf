"""A plan on the page: load and risk of each broker, before and after."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mangrove.errors import InputError
from mangrove.pipelines.report.charts import Bar, rows
from mangrove.pipelines.report.page import Section, figure, number, table, text

PLAN_FILE = "plan.json"
HINT = "give the answer of `mangrove plan allocate --json`"
Load = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Plan:
    """What `mangrove plan allocate --json` answered."""

    allocation: Mapping[str, list[str]]
    risk: Mapping[str, float]
    joint_ok: float | None
    compared: Mapping[str, float]
    """Risk of each broker by round robin."""
    compared_joint_ok: float | None


def read_plan(path: Path) -> Plan | None:
    """The plan in a file; None if it says that there is none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read the plan {path}: {error}", hint=HINT) from None
    if not isinstance(found, dict) or ("infeasible" not in found and "allocation" not in found):
        raise InputError(f"{path} is no plan", hint=HINT)
    if "allocation" not in found:
        return None
    other = found.get("round_robin") or {}
    try:
        return Plan(
            {str(broker): [str(item) for item in items] for broker, items in found["allocation"].items()},
            {str(broker): float(risk) for broker, risk in found.get("risk", {}).items()},
            None if found.get("joint_ok") is None else float(found["joint_ok"]),
            {str(broker): float(risk) for broker, risk in other.get("risk", {}).items()},
            None if other.get("joint_ok") is None else float(other["joint_ok"]),
        )
    except (TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path} is no plan: {error}", hint=HINT) from None


def plan_section(plan: Plan | None, before: Plan | None, problem: Mapping[str, Any] | None) -> Section:
    """The plan in force or to come; beside it the one of before, or round robin."""
    if plan is None:
        return Section("Plan", '<p class="bad">No allocation meets the constraints.</p>')
    named = "before" if before is not None else "round robin"
    risk_before = before.risk if before is not None else plan.compared
    loads = _loads(plan, problem)
    loads_before = {} if before is None else _loads(before, problem)
    found = []
    for broker in plan.allocation:
        row: dict[str, Any] = {"broker": broker, "items": len(plan.allocation[broker])}
        if broker in loads:
            mean, deviation, capacity = loads[broker]
            row |= {"load": mean, "deviation": deviation, "capacity": capacity}
        row |= {f"risk {named}": risk_before.get(broker), "risk": plan.risk.get(broker)}
        found.append(row)
    heads = list(dict.fromkeys(key for row in found for key in row))
    joint_before = before.joint_ok if before is not None else plan.compared_joint_ok
    parts = [f"<p>{_joint(joint_before, plan.joint_ok, named)}</p>"]
    if loads:
        bars = []
        for broker, load in loads.items():
            if broker in loads_before:
                bars.append(_load_bar(f"{broker}, before", loads_before[broker], "other"))
            bars.append(_load_bar(broker, load, "main"))
        caption = "Load at peak ± two deviations, as a share of capacity; the line is the capacity."
        parts.append(figure(rows(bars, " %"), caption))
    pairs = []
    for broker in plan.allocation:
        for label, risks, style in (
            (f"{broker}, {named}", risk_before, "other"),
            (broker, plan.risk, "main"),
        ):
            if broker in risks:
                pairs.append(Bar(label, 100 * risks[broker], f"{label}: {number(risks[broker])}", style))
    if pairs:
        parts.append(
            figure(rows(pairs, " %"), f"Probability of overload of each broker: {named}, and by the plan.")
        )
    parts.append(table(found, heads))
    if before is not None:
        moved = _moved(before, plan)
        parts.append(f"<h3>What moves</h3>{table(moved, ['item', 'from', 'to'])}")
    return Section("Plan", "".join(parts))


def _load_bar(label: str, load: Load, style: str) -> Bar:
    mean, deviation, capacity = load
    hover = f"{label}: {number(mean)} ± {number(deviation)} of {number(capacity)} messages/s"
    return Bar(label, 100 * mean / capacity, hover, style, 200 * deviation / capacity, 100.0)


def _loads(plan: Plan, problem: Mapping[str, Any] | None) -> dict[str, Load]:
    """Mean and deviation of each broker's load, and its capacity, where the problem gives capacities."""
    if problem is None or "capacity" not in problem:
        return {}
    places = {item: place for place, item in enumerate(problem["items"])}
    mean = np.asarray(problem["mean_rate"], dtype=np.float64)
    covariance = np.asarray(problem["covariance"], dtype=np.float64)
    capacity = dict(zip(problem["brokers"], problem["capacity"], strict=True))
    found = {}
    for broker, items in plan.allocation.items():
        if broker not in capacity or not capacity[broker] > 0 or any(item not in places for item in items):
            continue
        own = [places[item] for item in items]
        spread = float(covariance[np.ix_(own, own)].sum()) if own else 0.0
        found[broker] = (float(mean[own].sum()), max(spread, 0.0) ** 0.5, float(capacity[broker]))
    return found


def _moved(before: Plan, plan: Plan) -> list[dict[str, str]]:
    was = {item: broker for broker, items in before.allocation.items() for item in items}
    now = {item: broker for broker, items in plan.allocation.items() for item in items}
    return [
        {"item": item, "from": was.get(item, "-"), "to": now.get(item, "-")}
        for item in sorted({*was, *now})
        if was.get(item) != now.get(item)
    ]


def _joint(before: float | None, after: float | None, named: str) -> str:
    if after is None:
        return "A plan without figures."
    was = "" if before is None else f" ({text(named)}: {1 - before:.3g})"
    return f"Probability that some broker is overloaded: <b>{1 - after:.3g}</b>{was}."
