"""Audit logs as tables for people."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mangrove.cli.tables.table import (
    Styled,
    Table,
    bad,
    details_column,
    good,
    name_column,
    number_column,
    word_column,
)

if TYPE_CHECKING:
    from rich.console import Console

    from mangrove.model.audit.check import ChainReport
    from mangrove.model.audit.entry import AuditEntry, AuditHead

SHOWN_DIGEST = 16


def show_entries(entries: Sequence[AuditEntry], earlier: int, console: Console) -> None:
    """A line for each entry: when, who wrote it, what, how often."""
    columns = (word_column("when"), name_column("process"), word_column("what"), details_column("facts"))
    table = Table("", *columns, max_rows=max(len(entries), 1))
    for entry in entries:
        facts = ", ".join(f"{name} {fact}" for name, fact in entry.facts.items())
        text = f"{entry.times} times: {facts}" if entry.times > 1 else facts
        colour = "red" if entry.kind.value.endswith("refused") else ""
        moment = time.strftime("%m-%d %H:%M:%S", time.localtime(entry.at))
        table.add(moment, entry.process, Styled(entry.kind.value, colour), text)
    if not entries:
        console.print("nothing has been written down yet")
        return
    table.show(console)
    if earlier:
        console.print(f"{earlier:,} earlier ones: --last N")


def show_reports(reports: Sequence[ChainReport], console: Console) -> None:
    """A line for each log, and one for each thing that is wrong."""
    table = Table(
        "", name_column("process"), number_column("entries"), number_column("from"), word_column("chain")
    )
    for report in reports:
        verdict = good("whole") if report.whole else bad("BROKEN")
        table.add(report.process, f"{report.entries:,}", f"{report.first:,}", verdict)
    table.show(console)
    for report in reports:
        for finding in report.findings:
            place = f"{finding.file} line {finding.line}" if finding.line else report.process
            console.print(f"[red]{finding.problem.value}[/]: {place}: {finding.detail}", soft_wrap=True)
        if report.unnamed_findings:
            console.print(f"… and {report.unnamed_findings:,} more in {report.process}")
        if report.torn_lines:
            text = f"{report.process}: {report.torn_lines} lines were torn by crashes and are accounted for"
            console.print(text, soft_wrap=True)


def show_heads(heads: Sequence[AuditHead], console: Console) -> None:
    """A line for each log."""
    table = Table("", name_column("process"), number_column("entry"), word_column("hash"))
    for head in heads:
        table.add(head.process, f"{head.number:,}", f"{head.digest[:SHOWN_DIGEST]}…")
    table.show(console)
