"""`mangrove demo damage`: edges lose most of their capacity, without and with congestion control."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from textwrap import shorten, wrap
from typing import TYPE_CHECKING

from mangrove.cli.output import stderr_console, stdout_console

if TYPE_CHECKING:
    from rich.live import Live

    from mangrove.cli.tables.table import Table
    from mangrove.testbed.damage.account import DamageAccount
    from mangrove.testbed.damage.scenario import DamageReport, Moment, Told

REFRESH_S = 0.5
USEFUL_BAR = 1.3
PROTECTED = "alert"
WITHOUT, WITH = "without control", "with control"
MAX_STORY = 12
MAX_SENTENCE = 200
STYLES = {"low": "green", "high": "yellow", "overload": "red", "busy": "cyan"}


async def run(seconds: float, seed: int, directory: Path, damage: float) -> dict[str, DamageReport]:
    """The same traffic on the same brokers twice, one after the other: damaged for `seconds` each."""
    from rich.live import Live

    from mangrove.model.congestion.parameters import Mode
    from mangrove.testbed.damage.scenario import Damage
    from mangrove.testbed.damage.workload import draw_plan

    console = stderr_console()
    plan = draw_plan(seed=seed)
    console.print(
        f"[bold]damage[/bold]: a head and {plan.edges} edges of {plan.bandwidth_mbps:g} Mbit/s each; "
        f"{len(plan.speakers)} publishers, {plan.subscribers} subscribers, {plan.deliveries_s:,.0f} "
        f"deliveries/s; the edges are cut to {damage:.0%} for {seconds:g} s (seed {seed})"
    )
    reports = {}
    with Live(console=console, auto_refresh=False, transient=True) as live:
        for name, mode in ((WITHOUT, Mode.OFF), (WITH, Mode.CONGESTED)):
            watcher = _Watcher(live, name)
            scenario = Damage(
                plan, directory / name.replace(" ", "-"), mode=mode, damage=damage, look=watcher.look
            )
            reports[name] = await scenario.run(seconds)
            during = reports[name].during
            console.print(f"  {name}: {during.useful_s:,.0f} useful deliveries a second while damaged")
    return reports


class _Watcher:
    """Shows brokers, limits and what arrives while it runs."""

    def __init__(self, live: Live, name: str) -> None:
        self._live = live
        self._name = name
        self._shown_s = -REFRESH_S
        self._before: dict[str, int] = {}

    def look(self, moment: Moment) -> None:
        from rich.console import Group
        from rich.text import Text

        elapsed_s = moment.elapsed_s - self._shown_s
        if elapsed_s < REFRESH_S:
            return
        self._shown_s = moment.elapsed_s
        lines = [Text(f"{self._name}, {moment.phase}, {moment.elapsed_s:.0f} s")]
        if moment.status is None:
            lines.append(Text("  the agent does not answer"))
        else:
            for load in moment.status.brokers:
                used = max(load.utilisation.values(), default=0.0)
                line = Text(f"  {load.broker:<16}{load.state.value:<9}{used:>5.0%} ")
                lines.append(line.append("█" * min(30, round(used * 10)), STYLES[load.state.value]))
            congestion = moment.status.congestion
            lines.append(Text(f"  congestion: {congestion.state}, {congestion.limited} limits"))
        lines.append(Text(f"  {'a second':<16}{'offered':>9}{'withheld':>9}{'delivered':>10}{'in time':>9}"))
        for quality in _qualities(moment.counts):
            rates = [
                max(0, moment.counts[key] - self._before.get(key, 0)) / elapsed_s
                for what in ("offered", "withheld", "delivered", "in time")
                for key in (f"{quality} {what}",)
            ]
            lines.append(
                Text(f"  {quality:<16}{rates[0]:>9,.0f}{rates[1]:>9,.0f}{rates[2]:>10,.0f}{rates[3]:>9,.0f}")
            )
        self._before = dict(moment.counts)
        self._live.update(Group(*lines), refresh=True)


def _qualities(counts: dict[str, int]) -> list[str]:
    from mangrove.testbed.damage.workload import Quality

    return [each.value for each in Quality if f"{each.value} offered" in counts]


def render(reports: dict[str, DamageReport]) -> None:
    """What arrived of each class, what was limited and why, and how it went on."""
    console = stdout_console()
    account_table(reports).show(console)
    for line in verdict(reports):
        console.print(line)
    console.print()
    controlled = reports[WITH]
    limits = limits_table(controlled)
    if limits:
        limits.show(console)
    console.print("[bold]What the agent tells[/bold]")
    for line in story_lines(controlled, console.width):
        console.print(line, markup=False)


def account_table(reports: dict[str, DamageReport]) -> Table:
    """Deliveries of each class while capacity was cut."""
    from mangrove.cli.tables.table import Table, bad, name_column, number_column
    from mangrove.testbed.damage.workload import Quality

    part = next(iter(reports.values())).damage
    table = Table(
        f"Deliveries while the edges had {part:.0%} of their bandwidth",
        name_column("class"),
        *map(number_column, ("offered", "withheld", "delivered", "in time", "lost", "useful/s", "longest")),
    )
    for name, report in reports.items():
        table.section(name)
        during = report.during
        for quality in Quality:
            each = during.classes.get(quality.value)
            if each is None:
                continue
            share = f"{each.in_time_share:.1%}"
            table.add(
                f"  {quality.value}",
                f"{each.offered:,}",
                f"{each.withheld:,}",
                f"{each.delivered:,}",
                bad(share) if quality.value == PROTECTED and each.in_time < each.offered else share,
                bad(f"{each.lost:,}") if each.lost else "0",
                f"{each.useful / during.seconds:,.0f}",
                f"{each.worst_ms / 1000:.1f} s",
            )
    return table


def verdict(reports: dict[str, DamageReport]) -> list[str]:
    """The comparison in sentences."""
    from mangrove.testbed.damage.account import ratio

    without, controlled = reports[WITHOUT].during, reports[WITH].during

    def compared(what: str, before: float, after: float) -> str:
        times = ratio(after, before)
        return f"{what}: {before:,.0f} → {after:,.0f} a second" + (
            "." if times is None else f", {times:.1f} times as many."
        )

    report = reports[WITH]
    return [
        compared("Useful messages delivered", without.useful_s, controlled.useful_s),
        compared("Useful messages in time", without.useful_in_time_s, controlled.useful_in_time_s),
        f"Brokers below the threshold after {_seconds(report.below_after_s)}; "
        f"{report.most_limits} limits, the last lifted {_seconds(report.lifted_after_s)} after capacity came "
        "back.",
        f"Subscribers cut off as too slow: {reports[WITHOUT].cut_off} without control, "
        f"{report.cut_off} with it.",
    ]


def limits_table(report: DamageReport) -> Table:
    """The limits that were in force before capacity came back."""
    from mangrove.cli.federation.congestion_tables import limit_text, person, why_limited
    from mangrove.cli.tables.table import Table, details_column, name_column, number_column

    table = Table(
        "Limits in force just before capacity came back",
        name_column("topic"),
        name_column("publisher"),
        *map(number_column, ("utility", "offered/s", "limit/s")),
        details_column("why"),
        max_rows=MAX_STORY,
    )
    for limit in report.limits:
        table.add(
            limit.topic,
            person(limit.publisher),
            "–" if limit.utility is None else f"{limit.utility:.2f}",
            f"{limit.offered_msg_s:.1f}",
            limit_text(limit.limit),
            why_limited(limit),
        )
    return table


def story_lines(report: DamageReport, width: int) -> list[str]:
    """What the agent tells of it, in seconds since the cut: of each kind of event the first."""
    again = Counter(told.kind for told in report.story)
    first: dict[str, Told] = {}
    for told in report.story:
        first.setdefault(told.kind, told)
    lines = []
    for told in list(first.values())[:MAX_STORY]:
        more = again[told.kind] - 1
        sentence = shorten(told.sentence, MAX_SENTENCE, placeholder=" …")
        text = f"{told.at_s:5.1f} s  {sentence}" + (f" ({more} more of this kind)" if more else "")
        lines += wrap(text, width, subsequent_indent=" " * 9)
    return lines


def failures(reports: dict[str, DamageReport]) -> list[str]:
    """What did not go as it should."""
    from mangrove.testbed.damage.account import ratio

    without, controlled = reports[WITHOUT], reports[WITH]
    problems = protected_problems(controlled.during)
    times = ratio(controlled.during.useful_s, without.during.useful_s)
    if times is not None and times < USEFUL_BAR:
        problems.append(f"control delivered {times:.2f} times as many useful messages, not {USEFUL_BAR:g}")
    if controlled.below_after_s is None:
        problems.append("the brokers did not come below the threshold")
    if controlled.lifted_after_s is None:
        problems.append("limits were left after capacity came back")
    return problems


def protected_problems(account: DamageAccount) -> list[str]:
    """Alerts that were not in time, or not sent at all."""
    alerts = account.classes[PROTECTED]
    late = alerts.offered - alerts.in_time
    problems = [f"{late:,} of {alerts.offered:,} protected deliveries were not in time"] if late else []
    if alerts.withheld:
        problems.append(f"{alerts.withheld:,} protected deliveries were withheld")
    return problems


def _seconds(seconds: float | None) -> str:
    return "never" if seconds is None else f"{seconds:.1f} s"
