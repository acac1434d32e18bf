"""Tables of `mangrove plan apply|show|history`, for people."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from mangrove.cli.tables.table import (
    EXTRA,
    USEFUL,
    Table,
    bad,
    details_column,
    good,
    name_column,
    number_column,
    word_column,
)
from mangrove.model.plans.account import RolloutState

if TYPE_CHECKING:
    from rich.console import Console

    from mangrove.model.plans.account import PlanPreview, PlansTold, RolloutTold

SHOWN_MOVES = 20
SHOWN_ITEMS = 40


def show_preview(preview: PlanPreview, console: Console) -> None:
    """What would move, and what that does to the risk of each broker."""
    console.print(
        f"plan {preview.digest}: {preview.items} items, {preview.topics} topics, {preview.cases} cases; "
        f"data until {_time(preview.data_until)}"
    )
    table = Table(
        "Risk of overload",
        name_column("broker"),
        number_column("items now"),
        number_column("items then"),
        number_column("risk now"),
        number_column("risk then"),
    )
    for each in preview.brokers:
        table.add(
            each.broker,
            f"{each.items_before:,}",
            f"{each.items_after:,}",
            probability(each.before),
            probability(each.after),
        )
    table.show(console)
    if preview.moves:
        moves = Table(
            "Topics that move",
            name_column("topic"),
            name_column("from"),
            name_column("to"),
            number_column("subscriptions"),
            number_column("stay", EXTRA),
            name_column("mirror", USEFUL),
        )
        for move in preview.moves[:SHOWN_MOVES]:
            moves.add(
                move.topic,
                ", ".join(move.sources) or "–",
                move.to,
                f"{move.subscriptions:,}",
                f"{move.staying:,}" if move.staying else "",
                move.mirror or "–",
            )
        moves.leave_out(len(preview.moves) - len(preview.moves[:SHOWN_MOVES]) + preview.more_moves)
        moves.show(console)
    count = len(preview.moves) + preview.more_moves
    console.print(
        f"{count} topics move with {preview.subscriptions} subscriptions, {preview.mirrors} mirrors change; "
        f"{preview.unseen} topics of the plan have no subscribers here"
    )
    how = "by the plan's figures" if preview.same_figures else "by what each plan says of itself"
    before = "unknown" if preview.joint_before is None else f"{1 - preview.joint_before:.4g}"
    console.print(f"risk that any broker is overloaded: {before} → {1 - preview.joint_after:.4g} ({how})")


def show_plans(told: PlansTold, console: Console) -> None:
    """The plan in force or another version, how far it is, and what was found."""
    paused = ", paused" if told.paused else ""
    console.print(f"{told.domain}: plans by policy `{told.policy}`{paused}")
    if told.plan is None:
        console.print("no plan is in force: topics go where there is room")
    else:
        plan = told.plan
        state = "in force" if plan.version == told.version else "of the history"
        console.print(
            f"version {plan.version} ({plan.digest}, {state}): {plan.what} by {plan.by}, "
            f"{_time(plan.since)}; {plan.items} items, {plan.cases} cases"
        )
        if plan.source:
            console.print(f"made by {plan.source}")
        _show_items(told, console)
    if told.rollout is not None and told.plan is not None and told.plan.version == told.version:
        console.print(progress(told.rollout))
    if told.committing:
        console.print(f"plan {told.committing} is being handed to all agents")
    if told.proposed:
        table = Table(
            "Plans that were found",
            name_column("name"),
            word_column("found"),
            number_column("topics move"),
            number_column("risk now", USEFUL),
            number_column("risk then", USEFUL),
            details_column("note"),
        )
        for each in told.proposed:
            table.add(
                each.name,
                _time(each.found_at),
                "" if each.problem else f"{each.moves:,}",
                _risk(each.joint_before),
                _risk(each.joint_after),
                bad(f"refused: {' '.join(each.problem.split())}") if each.problem else good("proposed"),
            )
        table.show(console)


def _show_items(told: PlansTold, console: Console) -> None:
    by_broker: dict[str, tuple[int, int, int]] = {}
    for each in told.items:
        items, topics, mirrors = by_broker.get(each.placing.primary, (0, 0, 0))
        by_broker[each.placing.primary] = (items + 1, topics + each.topics, mirrors)
        if each.placing.mirror:
            items, topics, mirrors = by_broker.get(each.placing.mirror, (0, 0, 0))
            by_broker[each.placing.mirror] = (items, topics, mirrors + 1)
    table = Table(
        "Brokers",
        name_column("broker"),
        number_column("items"),
        number_column("topics"),
        number_column("mirrors"),
        number_column("risk"),
    )
    for broker in sorted({*by_broker, *told.risk}):
        items, topics, mirrors = by_broker.get(broker, (0, 0, 0))
        table.add(broker, f"{items:,}", f"{topics:,}", f"{mirrors:,}", probability(told.risk.get(broker)))
    table.show(console)
    items_table = Table(
        "Items", name_column("item"), number_column("topics"), name_column("broker"), name_column("mirror")
    )
    for each in told.items[:SHOWN_ITEMS]:
        items_table.add(each.item, f"{each.topics:,}", each.placing.primary, each.placing.mirror or "–")
    items_table.leave_out(len(told.items) - len(told.items[:SHOWN_ITEMS]) + told.more_items)
    items_table.show(console)


def show_history(told: PlansTold, console: Console) -> None:
    """One line for each plan that was in force."""
    if not told.history:
        console.print(f"{told.domain} has never had a plan")
        return
    table = Table(
        f"Plans of {told.domain}",
        number_column("version"),
        word_column("since"),
        word_column("what"),
        name_column("by", USEFUL),
        number_column("items"),
        number_column("risk"),
        name_column("digest", EXTRA),
        details_column("outcome"),
    )
    for line in told.history:
        table.add(
            f"{line.version}",
            _time(line.since),
            line.what,
            line.by,
            f"{line.items:,}",
            f"{1 - line.joint_ok:.3g}",
            line.digest,
            ("in force; " if line.version == told.version else "") + line.outcome,
        )
    table.show(console)


def progress(rollout: RolloutTold) -> str:
    """How far a plan has got, in one line."""
    if rollout.state is RolloutState.DONE:
        return f"rolled out: {_counts(rollout)}"
    why = f" ({rollout.waits})" if rollout.waits else ""
    moving = f", moving {', '.join(rollout.moving[:5])}" if rollout.moving else ""
    return f"{rollout.state.value}{why}: {rollout.done} of {rollout.topics} topics{moving}"


def outcome(told: PlansTold, version: int) -> str:
    """What became of a plan that was followed to its end."""
    if told.version != version or told.rollout is None:
        return f"version {version} was superseded by version {told.version}"
    return f"version {version} is rolled out: {_counts(told.rollout)}"


def _counts(rollout: RolloutTold) -> str:
    parts = [f"{rollout.done} topics moved with {rollout.subscriptions} subscriptions"]
    if rollout.failed:
        parts.append(f"{rollout.failed} could not")
    if rollout.silent:
        parts.append(f"{rollout.silent} did not say")
    parts += [f"{count} topics stay: {why}" for why, count in rollout.skipped.items()]
    return "; ".join(parts)


def probability(value: float | None) -> str:
    """A risk; nothing where none is known."""
    return "–" if value is None else f"{value:.3g}"


def _risk(joint_ok: float | None) -> str:
    return "–" if joint_ok is None else f"{1 - joint_ok:.3g}"


def _time(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(at))
