"""Tables about versions: the history, what is in force where, and contracts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mangrove.cli.tables.table import Table, bad, details_column, name_column, number_column, word_column

if TYPE_CHECKING:
    from mangrove.agent.versioning import Standing
    from mangrove.model.topics import Contract
    from mangrove.model.versions.document import Past


def history_table(entries: Iterable[Past]) -> Table:
    """Versions, the newest first."""
    table = Table(
        "Versions", number_column("version"), word_column("when"), name_column("by"), details_column("note")
    )
    for each in entries:
        table.add(str(each.version), each.at or "–", each.by or "–", each.note)
    return table


def places_table(now: Standing) -> Table:
    """What is in force at each domain."""
    table = Table("In force", name_column("domain"), number_column("version"), details_column("note"))
    for name, version in sorted(now.versions.items()):
        note = "away" if name in now.away else "" if version == now.document.version else bad("behind")
        table.add(name, str(version), note)
    return table


def contracts_table(version: int, contracts: Iterable[tuple[int, Contract]]) -> Table:
    """Contracts in the order in which they are tried."""
    from mangrove.model.versions.succession import terms_text

    table = Table(
        f"Contracts of version {version}",
        name_column("match"),
        number_column("class"),
        details_column("terms"),
    )
    for number, contract in contracts:
        table.add(contract.match, str(number), terms_text(contract))
    return table
