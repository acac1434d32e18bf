"""`mangrove apply`, `mangrove history`, `mangrove rollback`: versions of a federation that runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mangrove.cli.federation.status import FederationOption
from mangrove.cli.federation.up import RunDirOption
from mangrove.cli.output import JsonOption, print_json, stdout_console
from mangrove.cli.running import run_async
from mangrove.cli.versions.changing import (
    DEFAULT_WAIT_S,
    CheckOption,
    ForceOption,
    KeysOption,
    NoteOption,
    WaitOption,
    change,
    present,
)
from mangrove.errors import InputError, Mistake

if TYPE_CHECKING:
    from mangrove.model.federation import Federation

RESTART = "stop all sites, and start them with the new federation file"


def apply(
    file: Annotated[Path, typer.Argument(help="The federation file as it shall be.")],
    force: ForceOption = False,
    check: CheckOption = False,
    note: NoteOption = "",
    wait: WaitOption = DEFAULT_WAIT_S,
    keys: KeysOption = None,
    federation: FederationOption = None,
    run_dir: RunDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put the contracts of a federation file in force while messages flow: check, show, ask, and do it."""
    from mangrove.config import load_federation
    from mangrove.host.runtime_file import find_running

    wanted = load_federation(file)
    runtime = find_running(federation, run_dir)
    fixed = list(fixed_mistakes(runtime.federation, wanted))
    if fixed:
        from mangrove.errors import InvalidDocumentError

        raise InvalidDocumentError(f"{file}, for a federation that runs,", fixed, hint=RESTART)
    change(
        runtime,
        present(runtime),
        wanted.topics.contracts,
        note=note,
        force=force,
        check=check,
        wait_s=wait,
        keys=keys,
        as_json=as_json,
    )


def fixed_mistakes(running: Federation, wanted: Federation) -> list[Mistake]:
    """What the file has otherwise and cannot change while the federation runs."""
    if wanted.name != running.name:
        return [Mistake("federation", f"{wanted.name!r} is another federation", running.name)]
    found = []
    there, here = set(running.domains), set(wanted.domains)
    found += [
        Mistake(f"domains.{name}", "a domain cannot join a running federation yet") for name in here - there
    ]
    found += [Mistake("domains", f"{name} cannot leave a running federation yet") for name in there - here]
    if {link.pair for link in running.links} != {link.pair for link in wanted.links}:
        found.append(Mistake("links", "links cannot come or go while the federation runs"))
    if running.transforms != wanted.transforms:
        found.append(Mistake("transforms", "transforms cannot change while the federation runs"))
    if not found and running.shape_hash() != wanted.shape_hash():
        found.append(
            Mistake("", "delays of links, max_message_bytes, prepare, risk_groups or gateways are other ones")
        )
    if wanted.limits != running.limits:
        found.append(Mistake("limits", "limits cannot change while the federation runs"))
    if wanted.access != running.access:
        found.append(Mistake("access", "access rules cannot change while the federation runs"))
    return found


def history(
    text: Annotated[int, typer.Option("--text", min=0, help="Print the document of this version.")] = 0,
    federation: FederationOption = None,
    run_dir: RunDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show which versions were in force, who made them, and which one is in force where."""
    import msgspec

    from mangrove.agent.versioning import text_of
    from mangrove.cli.versions.version_tables import history_table, places_table
    from mangrove.host.runtime_file import find_running

    runtime = find_running(federation, run_dir)
    if text:
        document = run_async(text_of(runtime, text))
        if document is None:
            raise InputError(
                f"no gateway keeps the text of version {text}", hint="mangrove history lists them"
            )
        print_json(document)
        return
    now = present(runtime)
    entries = (now.document.as_past(), *now.document.past)
    if as_json:
        print_json(
            {
                "version": now.document.version,
                "versions": now.versions,
                "away": now.away,
                "history": [msgspec.to_builtins(each) for each in entries],
            }
        )
        return
    history_table(entries).show(stdout_console())
    places_table(now).show(stdout_console())


def rollback(
    version: Annotated[
        int, typer.Argument(min=0, help="Whose contracts to go back to; by default the one before.")
    ] = 0,
    force: ForceOption = False,
    check: CheckOption = False,
    wait: WaitOption = DEFAULT_WAIT_S,
    keys: KeysOption = None,
    federation: FederationOption = None,
    run_dir: RunDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put the contracts of an earlier version in force again, as a version of their own."""
    from mangrove.agent.versioning import text_of
    from mangrove.host.runtime_file import find_running

    runtime = find_running(federation, run_dir)
    now = present(runtime)
    wanted = version or now.document.version - 1
    if not 1 <= wanted <= now.document.version:
        raise InputError(f"there is no version {wanted}", hint="mangrove history lists them")
    if wanted == 1:
        contracts = runtime.federation.topics.contracts
        if runtime.federation.topology_hash() != now.document.line:
            raise InputError(
                "the federation file has been changed since the first version",
                hint="mangrove apply FILE, with the first file",
            )
    else:
        document = run_async(text_of(runtime, wanted))
        if document is None:
            raise InputError(
                f"no gateway keeps the text of version {wanted}",
                hint="mangrove apply FILE does it",
            )
        contracts = document.topics.contracts
    change(
        runtime,
        now,
        contracts,
        note=f"back to version {wanted}",
        force=force,
        check=check,
        wait_s=wait,
        keys=keys,
        as_json=as_json,
    )
