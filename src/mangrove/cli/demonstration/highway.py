"""`mangrove demo highway`: a region of a national highway loses a broker, another and a host."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mangrove.cli.output import stderr_console, stdout_console

if TYPE_CHECKING:
    from rich.live import Live

    from mangrove.testbed.highway.scenario import HighwayReport, Moment

STANDSTILL_S = 0.5
STORY_LINES = 40


async def run(seconds: float, seed: int, directory: Path) -> HighwayReport:
    """Three regions, and three faults that last `seconds` / 3 each, with a live view of what arrives."""
    from rich.live import Live

    from mangrove.testbed.highway.regions import FLOWS, HOSTS
    from mangrove.testbed.highway.scenario import Highway

    console = stderr_console()
    rate = sum(flow.rate_msg_s for flow in FLOWS)
    console.print(
        f"[bold]highway[/bold]: three regions, north on {len(HOSTS)} hosts; alarms with a mirror, control "
        f"and tolls with one that stands by, sensors without; {rate:,.0f} msg/s (seed {seed})"
    )
    with Live(console=console, auto_refresh=False, transient=True) as live:
        demo = Highway(
            directory, seed=seed, look=_Watcher(live).look, progress=lambda text: console.print(f"  {text}")
        )
        return await demo.run(max(seconds / 3, 1.0))


class _Watcher:
    """Shows what arrives while it runs."""

    def __init__(self, live: Live) -> None:
        self._live = live

    def look(self, moment: Moment) -> None:
        from rich.console import Group
        from rich.text import Text

        lines = [
            Text(moment.phase, style="bold"),
            Text(f"  alarms of north: primary {moment.primary or '–'}, mirror {moment.mirror or '–'}"),
        ]
        for topic, region, sent, arrived, silent_s in moment.streams:
            still = silent_s > STANDSTILL_S
            line = Text(f"  {topic:<24}{'→ ' + region:<10}{sent:>8,} sent {arrived:>8,} arrived ")
            line.append(
                f"still for {silent_s:.1f} s" if still else "flows", style="red" if still else "green"
            )
            lines.append(line)
        self._live.update(Group(*lines), refresh=True)


def render(report: HighwayReport) -> None:
    """What became of each kind of topic in each fault, and what the agents tell of it."""
    from mangrove.cli.tables.table import Table, bad, details_column, name_column, number_column, word_column

    console = stdout_console()
    table = Table(
        "What became of the messages",
        name_column("what failed"),
        name_column("kind of topic"),
        *map(number_column, ("due", "lost", "twice", "longest gap")),
    )
    for each in report.accounts:
        table.add(
            f"{each.victim} {each.fault}",
            each.kind.value,
            f"{each.sent:,}",
            bad(f"{each.lost:,}") if each.lost else "0",
            bad(f"{each.duplicated:,}") if each.duplicated else "0",
            f"{each.longest_gap_ms:,.0f} ms",
        )
    table.show(console)
    pause = max((each.own_pause_ms for each in report.accounts), default=0.0)
    console.print(
        f"due: once for each subscriber; the publishers themselves paused for {pause:.0f} ms at most"
    )
    story = Table(
        "What the agents of north decided",
        number_column("after"),
        word_column("event"),
        details_column(""),
        max_rows=STORY_LINES,
    )
    for at_s, name, sentence in report.story:
        story.add(f"{at_s:.2f} s", name, sentence)
    story.show(console)


def failures(report: HighwayReport) -> list[str]:
    """Topics with a mirror must lose nothing and hear nothing twice."""
    from mangrove.testbed.highway.regions import Kind

    return [
        f"{each.victim} {each.fault}, {each.kind}: {each.lost:,} lost, {each.duplicated:,} duplicated"
        for each in report.accounts
        if each.kind is not Kind.SENSOR and (each.lost or each.duplicated)
    ]
