"""The table of benchmarks that account for every message through phases of failure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.console import Console

from mangrove.cli.tables.table import Table, name_column, number_column

if TYPE_CHECKING:
    from mangrove.testbed.accounting import Figures


def show_phases(
    rate_msg_s: float, phases: Mapping[str, Mapping[str, Figures]], console: Console, *, late: bool
) -> None:
    """One table, a section for each phase, with a share of late messages if there is a bar for them."""
    titles = ("sent", "lost", "twice", "order", "gap", "worst", "p50", *(("late",) if late else ()))
    table = Table(
        f"{rate_msg_s:,.0f} messages/s on each topic; times in ms",
        name_column("phase, topic"),
        *map(number_column, titles),
    )
    for phase, topics in phases.items():
        table.section(phase)
        for topic, row in topics.items():
            table.add(
                f"  {topic}",
                f"{row.sent:,}",
                f"{row.lost:,}",
                f"{row.duplicated:,}",
                f"{row.out_of_order:,}",
                f"{row.longest_gap_ms:,.0f}",
                _ms(row.longest_latency_ms),
                _ms(row.p50_ms),
                *((f"{row.late / max(row.sent, 1):.1%}",) if late else ()),
            )
    table.show(console)


def own_pause_ms(phases: Mapping[str, Mapping[str, Figures]]) -> float:
    """The longest pause of the publishers themselves, beside which silences must be seen."""
    return max(row.longest_send_gap_ms for topics in phases.values() for row in topics.values())


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"
