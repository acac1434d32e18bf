"""`mangrove route contracts`: what the contracts of a federation file get when everything is up."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mangrove.cli.output import JsonOption, print_json, stdout_console
from mangrove.errors import EXIT_NEGATIVE

if TYPE_CHECKING:
    from mangrove.overlay.routes.at_rest import AtRest


def contracts(
    file: Annotated[Path, typer.Argument(help="Federation file.")], as_json: JsonOption = False
) -> None:
    """Tell which contracts of a file the network can give, and the best achievable where it cannot."""
    from mangrove.config import load_federation
    from mangrove.overlay.routes.at_rest import contracts_at_rest

    found = list(contracts_at_rest(load_federation(file)))
    missed = [each for each in found if not all(one.met for one in each.requirements)]
    if as_json:
        print_json({"contracts": [_document(each) for each in found], "unmet": len(missed)})
    else:
        _show(found, missed)
    if missed:
        raise typer.Exit(EXIT_NEGATIVE)


def _document(each: AtRest) -> dict[str, object]:
    import msgspec

    return {
        "topic": each.contract.match,
        "from": each.source,
        "to": each.destination,
        "paths": each.paths,
        "requirements": [{**msgspec.to_builtins(one), "met": one.met} for one in each.requirements],
    }


def _show(found: list[AtRest], missed: list[AtRest]) -> None:
    from mangrove.cli.tables.table import Table, details_column, name_column, number_column
    from mangrove.model.status import unmet_text

    summary = Table(
        "Contracts with paths of their own",
        name_column("topic"),
        number_column("pairs of sites"),
        number_column("paths"),
        number_column("cannot be met"),
    )
    for topic in dict.fromkeys(each.contract.match for each in found):
        pairs = [each for each in found if each.contract.match == topic]
        paths = sum(len(each.paths) for each in pairs) / len(pairs)
        unmet = sum(each.contract.match == topic for each in missed)
        summary.add(topic, f"{len(pairs)}", f"{paths:.1f}", f"{unmet}", matters=bool(unmet))
    table = Table(
        "Cannot be met",
        name_column("topic"),
        name_column("from"),
        name_column("to"),
        details_column("best achievable"),
    )
    for each in missed:
        table.add(each.contract.match, each.source, each.destination, unmet_text(each.requirements))
    console = stdout_console()
    for shown in (summary, table):
        if shown:
            shown.show(console)
    if not found:
        console.print("No contract needs paths of its own.")
