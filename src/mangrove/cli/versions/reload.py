"""`mangrove reload`: a site takes over what its file says of itself, without a restart where that can be."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mangrove.cli.federation.status import FederationOption
from mangrove.cli.federation.up import RunDirOption
from mangrove.cli.output import JsonOption, print_json, stdout_console
from mangrove.cli.tables.table import Table, name_column, word_column
from mangrove.cli.versions.changing import CheckOption
from mangrove.errors import InputError


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
    if taken and not check:
        merged = reloaded(runtime.federation, wanted, changes)
        ReloadedFile(run.reloaded).write(merged)
        write_runtime(run, msgspec.structs.replace(runtime, federation=merged))
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
