"""`mangrove reload`: a site takes over what its file says of itself, without a restart where that can be."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mangrove.cli.federation.status import FederationOption
from mangrove.cli.federation.up import RunDirOption
from mangrove.cli.output import JsonOption, print_json, stdout_console
from mangrove.cli.running import run_async
from mangrove.cli.tables.table import Table, name_column, word_column
from mangrove.cli.versions.changing import CheckOption
from mangrove.errors import InputError, MangroveError

if TYPE_CHECKING:
    from mangrove.host.run_directory import RunDirectory
    from mangrove.model.endpoints import Runtime
    from mangrove.model.federation import Federation

NAMES_S = 10.0
LOOK_S = 0.2


def reload(
    file: Annotated[Path, typer.Argument(help="The federation file as it is now.")],
    check: CheckOption = False,
    federation: FederationOption = None,
    run_dir: RunDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Have the site on this machine take over its own settings from a changed file, and list the rest."""
    import msgspec

    from mangrove.config import load_federation
    from mangrove.host.runtime_file import find_running_directory, read_runtime, write_runtime
    from mangrove.host.versions.reloaded_file import ReloadedFile
    from mangrove.model.versions.site_changes import Effect, reloaded, site_changes

    wanted = load_federation(file)
    run = find_running_directory(federation, run_dir)
    runtime = read_runtime(run)
    if wanted.name != runtime.federation.name:
        raise InputError(
            f"{file} is of the federation {wanted.name!r}, not {runtime.federation.name!r}",
            hint="give the file with which this site was started, changed",
        )
    changes = list(site_changes(runtime.federation, wanted, runtime.domains))
    taken = [change for change in changes if change.effect is Effect.AT_ONCE]
    renamed = [each for each in runtime.domains if any(one.place == f"domains.{each}.names" for one in taken)]
    merged = reloaded(runtime.federation, wanted, changes)
    for domain in renamed:
        _check_names(run, merged, domain)
    if taken and not check:
        ReloadedFile(run.reloaded).write(merged)
        runtime = msgspec.structs.replace(runtime, federation=merged)
        write_runtime(run, runtime)
        if renamed:
            run_async(_names_in_force(runtime, renamed))
    if as_json:
        print_json({"changes": changes, "taken": [] if check else [change.place for change in taken]})
        return
    console = stdout_console()
    if not changes:
        console.print("nothing changes")
        return
    table = Table("Changes", name_column("key"), word_column("when"))
    for change in changes:
        table.add(change.place, change.effect.value)
    table.show(console)
    if taken and not check:
        console.print("agents take it over within some 3 s: they begin a new life in the same process")
    if renamed and not check:
        console.print(f"the gateway of {', '.join(renamed)} goes by the new names")


def _check_names(run: RunDirectory, merged: Federation, domain: str) -> None:
    """InputError if the contracts in force leave no room for a domain's names."""
    from mangrove.agent.serving.contracts.in_force import ContractsInForce
    from mangrove.model.names.mapping import names_problem

    found = ContractsInForce(str(run.versions_of(domain))).federation(merged)
    if problem := names_problem(found.domains[domain].names, found.topics):
        raise InputError(f"domains.{domain}.{problem}", hint="nothing was taken over; change the file")


async def _names_in_force(runtime: Runtime, domains: list[str]) -> None:
    """Wait until the gateways of these domains go by the names of their site; MangroveError otherwise."""
    import asyncio
    from time import monotonic

    from mangrove.agent.inspection import gateway_status
    from mangrove.model.names.mapping import names_digest

    left, until = list(domains), monotonic() + NAMES_S
    while monotonic() < until:  # a gateway that is away takes its time not to answer
        for domain in list(left):
            status = await gateway_status(runtime.domains[domain])
            if status and status.names == names_digest(runtime.federation.domains[domain].names):
                left.remove(domain)
        if not left:
            return
        await asyncio.sleep(LOOK_S)
    raise MangroveError(
        f"the gateway of {', '.join(left)} has not taken over the names within {NAMES_S:g} s",
        hint="it does as soon as it runs: see `mangrove status`, and its log",
    )
