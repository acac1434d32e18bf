"""What all commands that change a running federation have in common: show, ask, propose, wait, tell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mangrove.cli.output import print_json, stderr_console, stdout_console
from mangrove.cli.planning.in_force import operator
from mangrove.cli.running import run_async
from mangrove.errors import InputError

if TYPE_CHECKING:
    from mangrove.agent.versioning import Standing
    from mangrove.model.endpoints import Runtime
    from mangrove.model.topics import Contract
    from mangrove.model.versions.changes import Change
    from mangrove.model.versions.document import FederationDocument
    from mangrove.model.versions.network import Network

ForceOption = Annotated[bool, typer.Option("--force", help="Do not ask.")]
CheckOption = Annotated[bool, typer.Option("--check", help="Only show what would change.")]
WaitOption = Annotated[float, typer.Option("--wait", min=0.1, help="Seconds to wait for the other domains.")]
NoteOption = Annotated[str, typer.Option(help="Why, for the history.")]
KeysOption = Annotated[
    Path | None,
    typer.Option("--keys", help="The key directory with the authority. [default: that of the federation]"),
]
DEFAULT_WAIT_S = 20.0


def present(runtime: Runtime) -> Standing:
    """What is in force."""
    from mangrove.agent.versioning import standing

    return run_async(standing(runtime))


def change(
    runtime: Runtime,
    now: Standing,
    contracts: tuple[Contract, ...],
    *,
    note: str,
    force: bool,
    check: bool,
    wait_s: float,
    keys: Path | None,
    as_json: bool,
    settings: Mapping[str, Any] | None = None,
    network: Network | None = None,
    warnings: Iterable[str] = (),
) -> None:
    """Put other contracts in force, and `settings` and a `network` if given; shows what changes first."""
    from mangrove.agent.versioning import put_in_force, time_of_day
    from mangrove.host.versions.writing import written
    from mangrove.model.versions.checking import document_problem
    from mangrove.model.versions.succession import difference, successor

    warnings = tuple(warnings)
    if as_json and not force and not check:
        raise InputError("--json asks nothing", hint="add --check to look, or --force to change it")
    after = successor(
        now.document,
        contracts,
        by=operator(),
        at=time_of_day(),
        note=note,
        settings=settings,
        network=network,
    )
    what = difference(now.document, after, runtime.federation)
    problem = document_problem(after, now.document)
    if problem:
        raise InputError(f"this cannot be put in force: {problem}")
    console = stdout_console()
    if not what:
        if as_json:
            print_json({"version": now.document.version, "changes": [], "warnings": list(warnings)})
            return
        console.print(f"nothing changes: version {now.document.version} says the same")
        for warning in warnings:
            console.print(warning, markup=False)
        return
    if not as_json:
        console.print(f"version {after.version} of {after.federation}:")
        for sentence in what.sentences():
            console.print(f"  {sentence}", markup=False)
        for warning in warnings:
            console.print(f"  but {warning}", markup=False)
        if now.away:
            console.print(f"away, and told when they return: {', '.join(now.away)}")
    if check:
        if as_json:
            print_json(
                {
                    "version": after.version,
                    "changes": list(what.sentences()),
                    "warnings": list(warnings),
                    "away": now.away,
                }
            )
        return
    signed = written(after, runtime.keys if keys is None else str(keys))
    if not force:
        typer.confirm("Put it in force?", abort=True, err=True)
    with stderr_console().status("asking the domains") as status:

        def progress(change: Change, found: Standing) -> None:
            there = sum(version >= after.version for version in found.versions.values())
            status.update(f"{change.state.value}: {there} of {len(found.versions)} domains")

        found = run_async(put_in_force(runtime, now.domain, signed, progress=progress, timeout_s=wait_s))
    _tell(after, found, as_json=as_json)


def _tell(after: FederationDocument, found: Standing, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "version": after.version,
                "digest": after.digest,
                "versions": found.versions,
                "away": found.away,
                "behind": found.behind,
            }
        )
        return
    there = [name for name, version in sorted(found.versions.items()) if version >= after.version]
    console = stdout_console()
    console.print(f"version {after.version} is in force in {', '.join(there)}")
    waiting = sorted({*found.away, *found.behind})
    if waiting:
        console.print(f"not yet in {', '.join(waiting)}: told when a way leads there again")
