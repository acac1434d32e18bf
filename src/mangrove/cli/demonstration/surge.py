"""`mangrove demo surge`: bursts overload an edge broker, and the agent moves what is least urgent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mangrove.cli.output import stderr_console, stdout_console

if TYPE_CHECKING:
    from rich.live import Live

    from mangrove.cli.tables.table import Table
    from mangrove.model.agents.status import AgentStatus
    from mangrove.testbed.surge.scenario import SurgeReport

DETECTED_WITHIN_S = 3.0
RELIEVED_WITHIN_S = 10.0
REFRESH_S = 0.5


async def run(seconds: float, seed: int, directory: Path, method: str = "drd") -> SurgeReport:
    """A head, four edges, 100 topics and two bursts of `seconds` / 2, with a live table of states."""
    from rich.live import Live

    from mangrove.testbed.surge.scenario import Surge
    from mangrove.testbed.surge.workload import draw_plan

    console = stderr_console()
    plan = draw_plan(seed=seed)
    console.print(
        f"[bold]surge[/bold]: a head and {plan.edges} edges of {plan.capacity_msg_s:,.0f} msg/s each; "
        f"{len(plan.topics)} topics, {plan.subscribers} subscribers, {plan.rate_msg_s:,.0f} msg/s; "
        f"method {method} (seed {seed})"
    )
    with Live(console=console, auto_refresh=False, transient=True) as live:
        surge = Surge(plan, directory, method=method, look=_Watcher(live).look)
        return await surge.run(burst_s=max(seconds / 2, 1.0))


class _Watcher:
    """Shows the edges' states while the surge runs."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._shown_s = 0.0

    def look(self, status: AgentStatus | None, phase: str) -> None:
        import time

        from rich.console import Group
        from rich.text import Text

        now = time.monotonic()
        if now - self._shown_s < REFRESH_S:
            return
        self._shown_s = now
        if status is None:
            self._live.update(Text(f"{phase}: the agent does not answer"), refresh=True)
            return
        lines = [Text(f"{phase}")]
        for load in status.brokers:
            used = max(load.utilisation.values(), default=0.0)
            style = {"low": "green", "high": "yellow", "overload": "red", "busy": "cyan"}[load.state.value]
            bar = "█" * min(30, round(used * 25))
            lines.append(
                Text(
                    f"  {load.broker:<16}{load.state.value:<9}{used:>5.0%} {load.messages_in_s:>7,.0f}/s "
                ).append(bar, style=style)
            )
        for session in status.sessions:
            moved = sum(move.confirmed for move in session.moves)
            wanted = sum(move.subscriptions for move in session.moves)
            where = ", ".join(f"{move.topic} → {move.to}" for move in session.moves[:3])
            lines.append(Text(f"  session {session.id}: {session.state}, {moved}/{wanted} moved; {where}"))
        self._live.update(Group(*lines), refresh=True)


def render(report: SurgeReport) -> None:
    """What the bursts did, what moved, and the account of all messages."""
    console = stdout_console()
    _bursts(report).show(console)
    account = report.account
    console.print(
        f"{account.sent:,} sent, {account.delivered:,} of {account.expected:,} deliveries: "
        f"{account.lost:,} lost, {account.duplicated:,} duplicated, {account.reordered:,} out of order."
    )
    console.print(
        f"{account.moved} subscriptions moved; their most delayed message took "
        f"{account.longest_moved_ms:.0f} ms "
        f"({account.longest_stayed_ms:.0f} ms where nothing moved), "
        f"{account.late_moved} of them beyond their requirement."
    )


def _bursts(report: SurgeReport) -> Table:
    from mangrove.cli.tables.table import Table, details_column, name_column, number_column

    table = Table(
        "What the bursts did",
        name_column("edge"),
        *map(number_column, ("topics", "peak", "seen after", "over after")),
        details_column("moved"),
    )
    for burst in report.bursts:
        table.add(
            burst.edge,
            str(burst.topics),
            f"{burst.peak_utilisation:.0%}",
            "never" if burst.detected_s is None else f"{burst.detected_s:.1f} s",
            "never" if burst.relieved_s is None else f"{burst.relieved_s:.1f} s",
            ", ".join(burst.moves) or "nothing",
        )
    return table


def failures(report: SurgeReport) -> list[str]:
    """What did not go as it should."""
    account = report.account
    counts = {"lost": account.lost, "duplicated": account.duplicated, "out of order": account.reordered}
    problems = [f"{count:,} messages {what}" for what, count in counts.items() if count]
    for number, burst in enumerate(report.bursts, 1):
        if burst.detected_s is None or burst.detected_s > DETECTED_WITHIN_S:
            problems.append(f"burst {number}: overload was not seen within {DETECTED_WITHIN_S:g} s")
        if burst.relieved_s is None or burst.relieved_s > RELIEVED_WITHIN_S:
            problems.append(f"burst {number}: the edge was not relieved within {RELIEVED_WITHIN_S:g} s")
    if account.late_moved:
        problems.append(f"{account.late_moved} moved subscribers had a message beyond their requirement")
    return problems
