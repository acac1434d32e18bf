"""The tables of `mangrove keys show`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mangrove.cli.tables.table import EXTRA, Table, bad, good, name_column, number_column, word_column
from mangrove.host.keys.inspection import State

if TYPE_CHECKING:
    from rich.console import Console

    from mangrove.host.keys.inspection import KeysReport


def show_keys(report: KeysReport, warnings: Sequence[str], console: Console) -> None:
    """Certificates, users, and what is to be done."""
    _certificates(report).show(console)
    _users(report).show(console)
    here = "the authority is here" if report.issues else "the authority is elsewhere"
    lines = [
        f"{report.directory}: generation {report.generation}; {here}.",
        f"Revoked: {report.revoked_certificates} certificates and {report.revoked_keys} user keys "
        f"(list number {report.revocations}).",
    ]
    if report.authority_follows:
        lines.append("A next authority is believed, and issues nothing yet: mangrove keys rotate --authority")
    if report.overlapping:
        lines.append(f"{report.overlapping} replaced keys are still believed: mangrove keys rotate --finish")
    for line in lines:
        console.print(line, soft_wrap=True, markup=False, highlight=False)
    for warning in warnings:
        console.print("[yellow]warning:[/yellow] ", end="")
        console.print(warning, soft_wrap=True, markup=False, highlight=False)


def _certificates(report: KeysReport) -> Table:
    table = Table(
        f"Certificates of {report.federation}",
        name_column("domain"),
        name_column("of"),
        word_column("ends"),
        number_column("days"),
        word_column("state"),
        name_column("serial", EXTRA),
    )
    for each in report.certificates:
        fine = each.state is State.GOOD
        table.add(
            each.domain or "all",
            each.name,
            f"{each.ends:%Y-%m-%d}",
            f"{each.days_left}",
            good(each.state.value) if fine else bad(each.state.value),
            each.serial,
            matters=not fine,
        )
    return table


def _users(report: KeysReport) -> Table:
    """Clients; and of our own processes those about whom there is something to say."""
    table = Table(
        "Clients, and what is not as usual with users of our own",
        name_column("domain"),
        name_column("user"),
        name_column("role"),
        word_column("keys"),
        name_column("public key", EXTRA),
    )
    for each in report.users:
        if each.client or each.old_key_believed or each.revoked:
            state = bad("revoked") if each.revoked else "old and new" if each.old_key_believed else "one"
            table.add(each.domain, each.name, each.role, state, each.nkey, matters=each.client)
    return table
