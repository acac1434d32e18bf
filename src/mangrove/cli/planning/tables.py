"""Tables of `mangrove plan` for people."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from mangrove.cli.tables.table import (
    EXTRA,
    USEFUL,
    Table,
    bad,
    details_column,
    name_column,
    number_column,
    word_column,
)
from mangrove.model.topics import Mirror

if TYPE_CHECKING:
    from rich.console import Console

    from mangrove.planning.judgement.assessment import Load
    from mangrove.planning.judgement.result import Result
    from mangrove.planning.policies.case_base import Case, CaseBase
    from mangrove.planning.policies.mirroring import Failover, MirrorPlan

MAX_NAMES = 8

LOG_NEGLIGIBLE_RISK = math.log(1e-12)


def show_allocation(result: Result, baseline: Result, seconds: float, console: Console) -> None:
    """Items, load and risk of each broker, and the gain over round robin."""
    if not result.feasible:
        console.print(f"[red]infeasible[/red]: {result.reason}")
        console.print("The closest allocation:")
    scenarios = result.problem.scenarios
    normal = () if scenarios is None else _by_the_normal_model(result)
    table = Table(
        "Allocation",
        name_column("broker"),
        number_column("items"),
        number_column("mean msg/s"),
        number_column("deviation", EXTRA),
        number_column("capacity"),
        number_column("risk"),
        *([number_column("normal model")] if normal else []),
        number_column("gain over round robin", USEFUL),
        details_column("which"),
    )
    for place, (broker, load, before) in enumerate(
        zip(result.problem.brokers, result.assessment.loads, baseline.assessment.loads, strict=True)
    ):
        table.add(
            broker,
            f"{len(result.allocation[broker]):,}",
            f"{load.mean_rate_msg_s:.6g}",
            f"{load.deviation_msg_s:.4g}",
            f"{load.capacity_msg_s:.6g}",
            probability(load.log_risk),
            *([probability(normal[place].log_risk)] if normal else []),
            gain(before.log_risk, load.log_risk),
            names(result.allocation[broker]),
        )
    table.show(console)
    if scenarios is not None:
        console.print(
            f"risks from {scenarios.count:,} observed windows, with tails of shape {scenarios.shape:.2f}"
        )
    joint, before_joint = result.assessment.joint_ok, baseline.assessment.joint_ok
    console.print(f"all brokers fine: [bold]{joint:.6f}[/bold] (round robin {before_joint:.6f})")
    if result.proven_optimal:
        proof = "proven optimal"
    elif result.feasible:
        bound = result.known_bound
        proof = "no useful bound is known" if bound is None else f"at most {bound:.6f} is possible"
    else:
        proof = "infeasible" + (" (proven)" if result.infeasibility_proven else "")
    console.print(
        f"{result.problem.objective.value} {result.value:.6f}, {proof}; solver {result.solver}, "
        f"seed {result.seed}, {seconds:.2f} s"
    )


def _by_the_normal_model(result: Result) -> tuple[Load, ...]:
    from mangrove.planning.judgement.assessment import assess

    return assess(replace(result.problem, scenarios=None), result.assignment).loads


def show_mirrors(plan: MirrorPlan, console: Console) -> None:
    """Who mirrors what, the load of both where both carry, and what each failure means."""
    both = sum(mode is Mirror.BOTH for mode in plan.problem.mirrored)
    asking = sum(bool(mode) for mode in plan.problem.mirrored)
    if both:
        _show_normal(plan, console)
    table = Table(
        "Mirrors",
        name_column("if this fails"),
        name_column("its items go to"),
        number_column("items"),
        number_column("largest risk after"),
        number_column("all fine after"),
        word_column(""),
        details_column("which"),
    )
    for failover in plan.failovers:
        _add_failover(table, failover, failover.broker)
    for failover in plan.host_failovers:
        _add_failover(table, failover, f"host {failover.broker}")
    table.show(console)
    mirrored = f"{len(plan.mirrors)} of {plan.problem.item_count} items have a mirror"
    modes = f"{both} of them always sent" if both else "all of them standing by"
    console.print(f"{mirrored}, {modes}" if asking else "no item asks for a mirror")
    if plan.placement.unmirrored:
        console.print(f"[red]without the mirror they ask for[/red]: {names(list(plan.placement.unmirrored))}")


def _show_normal(plan: MirrorPlan, console: Console) -> None:
    table = Table(
        "Primaries and mirrors together",
        name_column("broker"),
        number_column("items"),
        number_column("mirrors"),
        number_column("mean msg/s"),
        number_column("deviation", EXTRA),
        number_column("capacity", USEFUL),
        number_column("risk"),
    )
    count = plan.problem.item_count
    for broker, (name, load) in enumerate(
        zip(plan.problem.brokers, plan.normal.assessment.loads, strict=True)
    ):
        table.add(
            name,
            f"{plan.normal.assignment[:count].count(broker):,}",
            f"{plan.normal.assignment[count:].count(broker):,}",
            f"{load.mean_rate_msg_s:.6g}",
            f"{load.deviation_msg_s:.4g}",
            f"{load.capacity_msg_s:.6g}",
            probability(load.log_risk),
        )
    table.show(console)
    console.print(f"all brokers fine: [bold]{plan.normal.assessment.joint_ok:.6f}[/bold]")


def _add_failover(table: Table, failover: Failover, title: str) -> None:
    by_target: dict[str, list[str]] = {}
    for item, target in failover.moves.items():
        by_target.setdefault(target, []).append(item)
    worst = max(load.log_risk for load in failover.after.assessment.loads)
    feasible = failover.after.feasible
    figures = (probability(worst), f"{failover.after.assessment.joint_ok:.6f}")
    first = (title, *figures, "" if feasible else bad("breaks constraints"))
    for target, items in sorted(by_target.items()) or [("-", [])]:
        broker, risk, joint, note = first
        table.add(broker, target, f"{len(items):,}", risk, joint, note, names(items), matters=not feasible)
        first = ("", "", "", "")


def show_cases(base: CaseBase, console: Console) -> None:
    """One row for each case."""
    table = Table(
        "Cases",
        word_column("state"),
        number_column("load"),
        number_column("all fine"),
        number_column("largest risk"),
        number_column("mirrors"),
        number_column("taken over", USEFUL),
        name_column("solver", USEFUL),
        word_column(""),
        details_column("failed"),
        details_column("switched off"),
    )
    for case in base.cases:
        table.add(
            case.state.kind.value,
            f"{case.state.load:g}",
            f"{case.joint_ok:.6f}",
            f"{max(case.risk.values()):.3g}",
            _mirrors(case),
            f"{len(case.continued):,}" if case.continued else "",
            case.solver + (" (proven)" if case.proven else ""),
            "" if case.feasible else bad("breaks constraints"),
            names(list(case.state.failed)) if case.state.failed else "",
            names(list(case.off)) if case.off else "",
            matters=not case.feasible,
        )
    table.show(console)


def _mirrors(case: Case) -> str:
    """How many items have the mirror they ask for."""
    missing = f" of {len(case.mirrors) + len(case.unmirrored):,}" if case.unmirrored else ""
    return f"{len(case.mirrors):,}{missing}"


def names(values: list[str]) -> str:
    """A list that fits a cell."""
    if not values:
        return "-"
    shown = ", ".join(values[:MAX_NAMES])
    return shown if len(values) <= MAX_NAMES else f"{shown} … {len(values) - MAX_NAMES} more"


def probability(log_value: float) -> str:
    """A probability given by its logarithm, however small."""
    if log_value == -math.inf:
        return "0"
    if log_value < -690:
        return f"1e{log_value / math.log(10):.0f}"
    return f"{math.exp(log_value):.3g}"


def gain(before: float, after: float) -> str:
    """Share of the risk removed, `(Pr₁ − Pr₂)/Pr₁` of thesis §4.5.4; risks as logarithms."""
    if max(before, after) < LOG_NEGLIGIBLE_RISK:
        return "–"  # neither will ever happen
    if before == -math.inf:
        return "-" if after == -math.inf else "(was 0)"
    share = -math.expm1(min(after - before, 700.0))
    return f"{share:+.1%}" if share >= -1 else f"risk x{1 - share:.3g}"
