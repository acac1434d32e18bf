"""`mangrove names`: what a subject is called in every domain, and why."""

from __future__ import annotations

from typing import Annotated

import typer

from mangrove.cli.access.access import FileOption
from mangrove.cli.federation.status import FederationOption
from mangrove.cli.federation.up import RunDirOption
from mangrove.cli.output import JsonOption, print_json, stdout_console
from mangrove.errors import InputError

app = typer.Typer(help="Names that domains have of their own.", no_args_is_help=True)


@app.callback()
def root() -> None:
    """Names that domains have of their own."""


@app.command()
def explain(
    subject: Annotated[str, typer.Argument(help="A subject, or a pattern.")],
    domain: Annotated[
        str | None, typer.Option(help="It is this domain's name. [default: the federation's]")
    ] = None,
    file: FileOption = None,
    federation: FederationOption = None,
    run_dir: RunDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say what a name is called in the federation and in every domain, whether it passes, and why."""
    from mangrove.model.names.explanation import explain_name
    from mangrove.model.subjects import subject_problem

    if problem := subject_problem(subject, wildcards=True):
        raise InputError(f"{subject!r} is no subject: {problem}")
    if file is not None:
        from mangrove.config import load_federation

        found = load_federation(file)
    else:
        from mangrove.host.runtime_file import find_running

        found = find_running(federation, run_dir).federation
    if domain is not None and domain not in found.domains:
        raise InputError(f"there is no domain {domain!r}", hint=f"one of {', '.join(found.domains)}")
    explained = explain_name(found, subject, domain or "")
    if as_json:
        print_json(explained)
        return
    from rich.markup import escape
    from rich.table import Table

    console = stdout_console()
    called = ", ".join(explained.federation) or "nothing: it does not leave the domain"
    console.print(escape(f"{subject}{f' in {domain}' if domain else ''}: in the federation {called}"))
    table = Table("domain", "called there", "passes", "why", box=None, header_style="bold")
    for each in explained.domains:
        table.add_row(each.domain, escape(", ".join(each.names) or "–"), each.passes, escape(each.why))
    console.print(table)
