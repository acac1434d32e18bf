"""`mangrove apply`, `mangrove history`: versions of a federation that runs."""

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
from mangrove.cli.versions.membership import present_network, refuse_partition, wanted_network
from mangrove.errors import InputError, Mistake

if TYPE_CHECKING:
    from mangrove.model.federation import Federation
    from mangrove.model.versions.network import Network

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
    """Put a federation file in force while messages flow: check, show, ask, and do it.

    Contracts, limits, access rules, transforms, regions, congestion control, domains and links; all else must
    be as it is. A domain that is new starts with `mangrove join`.
    """
    from mangrove.config import load_federation
    from mangrove.host.runtime_file import find_running
    from mangrove.model.contract_warnings import federation_warnings
    from mangrove.model.versions.settings import wanted_settings

    wanted = load_federation(file)
    runtime = find_running(federation, run_dir)
    now = present(runtime)
    before = present_network(now, runtime)
    fixed = fixed_mistakes(runtime.federation, wanted, before)
    if fixed:
        from mangrove.errors import InvalidDocumentError

        raise InvalidDocumentError(f"{file}, for a federation that runs,", fixed, hint=RESTART)
    network = wanted_network(now, runtime, wanted)
    if network is not None:
        refuse_partition(network, before, force=force)
    change(
        runtime,
        now,
        wanted.topics.contracts,
        network=network,
        note=note,
        force=force,
        check=check,
        wait_s=wait,
        keys=keys,
        as_json=as_json,
        settings=wanted_settings(now.document, runtime.federation, wanted),
        warnings=federation_warnings(wanted),
    )


def fixed_mistakes(running: Federation, wanted: Federation, present: Network) -> list[Mistake]:
    """What the file has otherwise than what is in force and cannot change while the federation runs."""
    from mangrove.model.versions.network import network_of

    if wanted.name != running.name:
        return [Mistake("federation", f"{wanted.name!r} is another federation", running.name)]
    found = []
    before = {site.name: site for site in present.sites}
    for site in network_of(wanted).sites:
        old = before.get(site.name, site)
        found += [
            Mistake(
                f"domains.{site.name}.{key}",
                f"a domain that runs cannot change its {key}",
                "links have `endpoints` of their own, which can",
            )
            for key in ("address", "base_port", "hosts", "gateways")
            if getattr(old, key) != getattr(site, key)
        ]
    if present.max_message_bytes != wanted.max_message_bytes:
        found.append(Mistake("max_message_bytes", "it cannot change while the federation runs"))
    return found


def history(
    text: Annotated[int, typer.Option("--text", min=0, help="Print the document of this version.")] = 0,
    write: Annotated[
        Path | None,
        typer.Option("--write", help="Write the document in force to a file, for who joins."),
    ] = None,
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
    if write is not None:
        from mangrove.agent.versioning import written_in_force
        from mangrove.host.versions.exported import write_exported

        write_exported(write, run_async(written_in_force(runtime)))
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
