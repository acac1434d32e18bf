"""Tables of `mangrove plan` for people."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from mangrove.planning.judgement.result import Result
    from mangrove.planning.policies.case_base import CaseBase
    from mangrove.planning.policies.mirroring import MirrorPlan

MOST_NAMES = 8


def show_allocation(result: Result, baseline: Result, seconds: float, console: Console) -> None:
    """Items, load and risk of each broker, and the gain over round robin."""
    if not result.feasible:
        console.print(f"[red]infeasible[/red]: {result.reason}")
        console.print("The closest allocation:")
    table = _table("broker", "items", "mean msg/s", "deviation", "capacity", "risk", "gain over round robin")
    for broker, load, before in zip(
        result.problem.brokers, result.assessment.loads, baseline.assessment.loads, strict=True
    ):
        table.add_row(
            broker,
            names(result.allocation[broker]),
            f"{load.mean_rate_msg_s:.6g}",
            f"{load.deviation_msg_s:.4g}",
            f"{load.capacity_msg_s:.6g}",
            probability(load.log_risk),
            gain(before.log_risk, load.log_risk),
        )
    console.print(table)
    joint, before_joint = result.assessment.joint_ok, baseline.assessment.joint_ok
    console.print(f"all brokers fine: [bold]{joint:.6f}[/bold] (round robin {before_joint:.6f})")
    if result.proven_optimal:
        proof = "proven optimal"
    elif result.feasible:
        proof = f"at most {result.bound:.6f} is possible"
    else:
        proof = "infeasible" + (" (proven)" if result.infeasibility_proven else "")
    console.print(
        f"{result.problem.objective.value} {result.value:.6f}, {proof}; solver {result.solver}, "
        f"seed {result.seed}, {seconds:.2f} s"
    )


def show_mirrors(plan: MirrorPlan, console: Console) -> None:
    """Where items go when a broker fails, and the risk afterwards."""
    table = _table("if this fails", "its items go to", "largest risk after", "all fine after", "")
    for failover in plan.failovers:
        by_target: dict[str, list[str]] = {}
        for item, target in failover.moves.items():
            by_target.setdefault(target, []).append(item)
        worst = max(load.log_risk for load in failover.after.assessment.loads)
        table.add_row(
            failover.broker,
            "\n".join(f"{target}: {names(items)}" for target, items in sorted(by_target.items())) or "-",
            probability(worst),
            f"{failover.after.assessment.joint_ok:.6f}",
            "" if failover.after.feasible else "[red]breaks constraints[/red]",
        )
    console.print(table)


def show_cases(base: CaseBase, console: Console) -> None:
    """One row for each case."""
    table = _table("state", "failed", "load", "switched off", "all fine", "largest risk", "solver", "")
    for case in base.cases:
        table.add_row(
            case.state.kind.value,
            names(list(case.state.failed)),
            f"{case.state.load:g}",
            names(list(case.off)),
            f"{case.joint_ok:.6f}",
            f"{max(case.risk.values()):.3g}",
            case.solver + (" (proven)" if case.proven else ""),
            "" if case.feasible else "[red]breaks constraints[/red]",
        )
    console.print(table)


def names(values: list[str]) -> str:
    """A list that fits a cell."""
    if not values:
        return "-"
    shown = ", ".join(values[:MOST_NAMES])
    return shown if len(values) <= MOST_NAMES else f"{shown} … {len(values) - MOST_NAMES} more"


def probability(log_value: float) -> str:
    """A probability given by its logarithm, however small."""
    if log_value == -math.inf:
        return "0"
    if log_value < -690:
        return f"1e{log_value / math.log(10):.0f}"
    return f"{math.exp(log_value):.3g}"


def gain(before: float, after: float) -> str:
    """Share of the risk removed, `(Pr₁ − Pr₂)/Pr₁` of thesis 4.5.4; risks as logarithms."""
    if before == -math.inf:
        return "-" if after == -math.inf else "(was 0)"
    share = -math.expm1(min(after - before, 700.0))
    return f"{share:+.1%}" if share >= -1 else f"risk x{1 - share:.3g}"


def _table(*columns: str) -> Table:
    from rich.table import Table

    table = Table()
    for index, column in enumerate(columns):
        table.add_column(column, overflow="fold", justify="left" if index < 2 else "right")
    return table
