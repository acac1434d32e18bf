"""`mangrove join`, `mangrove leave`, `mangrove expel`: domains come and go while the federation runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mangrove.cli.federation.status import FederationOption
from mangrove.cli.federation.up import RunDirOption
from mangrove.cli.output import JsonOption, stdout_console
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
from mangrove.errors import InputError

if TYPE_CHECKING:
    from mangrove.agent.versioning import Standing
    from mangrove.model.endpoints import Runtime
    from mangrove.model.federation import Federation
    from mangrove.model.versions.network import Network


def join(
    file: Annotated[Path, typer.Argument(help="The federation file, with the new domain and its links.")],
    domain: Annotated[str, typer.Option(help="The domain that joins, on this machine.")],
    document: Annotated[
        Path | None,
        typer.Option(help="The document in force, by `mangrove history --write`. [default: a member's]"),
    ] = None,
    force: ForceOption = False,
    check: CheckOption = False,
    note: NoteOption = "",
    wait: WaitOption = DEFAULT_WAIT_S,
    keys: KeysOption = None,
    run_dir: RunDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a domain a member of a running federation, and this machine ready to run it.

    Where it is a member already, by `mangrove apply`, it only fetches the document in force.
    """
    from mangrove.agent.joining import joined_network, make_ready, members_at, ports_in_use
    from mangrove.config import load_federation
    from mangrove.host.run_directory import RunDirectory, default_run_directory
    from mangrove.host.versions.exported import read_exported

    wanted = load_federation(file)
    if domain not in wanted.domains:
        raise InputError(f"{file} has no domain {domain!r}", hint="add it, and its links, to the file")
    run = RunDirectory(run_dir) if run_dir else default_run_directory(wanted.name)
    if document is not None:
        make_ready(run, wanted, domain, read_exported(document))
    else:
        runtime = members_at(wanted, domain, "" if keys is None else str(keys))
        now = present(runtime)
        if domain not in now.document.members:
            ports_in_use(wanted, domain)
            change(
                runtime,
                now,
                now.document.topics.contracts,
                network=joined_network(present_network(now, runtime), wanted, domain),
                note=note,
                force=force,
                check=check,
                wait_s=wait,
                keys=keys,
                as_json=as_json,
            )
        if check:
            return
        from mangrove.agent.versioning import written_in_force

        make_ready(run, wanted, domain, run_async(written_in_force(runtime, domain)))
    if not as_json:
        place = "".join(f" {name} {at}" for name, at in (("--run-dir", run_dir), ("--keys", keys)) if at)
        stdout_console().print(f"{domain} is a member; start it: mangrove up {file} --domain {domain}{place}")


def leave(
    domain: Annotated[str, typer.Option(help="The domain that leaves.")],
    force: ForceOption = False,
    check: CheckOption = False,
    note: NoteOption = "",
    wait: WaitOption = DEFAULT_WAIT_S,
    keys: KeysOption = None,
    federation: FederationOption = None,
    run_dir: RunDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let a domain leave in good order: what it has goes out first, and all else takes other ways."""
    from mangrove.agent.joining import unsettled
    from mangrove.host.runtime_file import find_running

    runtime = find_running(federation, run_dir)
    now = present(runtime)
    network = _without(now, runtime, domain)
    if not force and domain in runtime.domains:
        problem = run_async(unsettled(runtime, domain, now.document.topics))
        if problem:
            raise InputError(
                f"{domain} cannot leave yet: {problem}",
                hint="wait until that is settled, or lose it with --force",
            )
    refuse_partition(network, present_network(now, runtime), force=force)
    _remove(runtime, now, domain, network, note, force, check, wait, keys, as_json)
    if not check and not as_json:
        stdout_console().print(f"{domain} has left; stop it where it runs")


def expel(
    domain: Annotated[str, typer.Argument(help="The domain that is gone.")],
    force: ForceOption = False,
    check: CheckOption = False,
    note: NoteOption = "",
    wait: WaitOption = DEFAULT_WAIT_S,
    keys: KeysOption = None,
    federation: FederationOption = None,
    run_dir: RunDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove a domain that is gone, or must be: all that is known of it is forgotten everywhere."""
    from mangrove.host.runtime_file import find_running

    runtime = find_running(federation, run_dir)
    now = present(runtime)
    network = _without(now, runtime, domain)
    if domain not in now.away and not force:
        raise InputError(
            f"{domain} can be reached",
            hint=f"mangrove leave --domain {domain} lets it leave in good order; --force expels it",
        )
    refuse_partition(network, present_network(now, runtime), force=force)
    _remove(runtime, now, domain, network, note, force, check, wait, keys, as_json)


def _without(now: Standing, runtime: Runtime, domain: str) -> Network:
    network = present_network(now, runtime)
    if domain not in network.names:
        raise InputError(
            f"{domain!r} is no member of {now.document.federation}",
            hint=f"members are: {', '.join(network.names)}",
        )
    if len(network.names) == 1:
        raise InputError(f"{domain} is the last domain of {now.document.federation}", hint="stop it")
    return network.without(domain)


def _remove(
    runtime: Runtime,
    now: Standing,
    domain: str,
    network: Network,
    note: str,
    force: bool,
    check: bool,
    wait: float,
    keys: Path | None,
    as_json: bool,
) -> None:
    """Have another domain ask for it, where there is one: who leaves cannot see it through."""
    others = {name: each for name, each in runtime.domains.items() if name != domain}
    if others:
        import msgspec

        runtime = msgspec.structs.replace(runtime, domains=others)
        now = present(runtime)
    change(
        runtime,
        now,
        now.document.topics.contracts,
        network=network,
        note=note,
        force=force,
        check=check,
        wait_s=wait,
        keys=keys,
        as_json=as_json,
    )


def present_network(now: Standing, runtime: Runtime) -> Network:
    """The domains and links in force."""
    from mangrove.model.versions.network import network_of

    return now.document.network or network_of(runtime.federation)


def refuse_partition(network: Network, before: Network, *, force: bool) -> None:
    """InputError if a domain would be cut off, unless that is wanted."""
    from mangrove.model.versions.network import cut_off

    gone = cut_off(network, before)
    if gone and not force:
        raise InputError(
            f"no way would lead to {', '.join(gone)} any more",
            hint="leave a link, or remove the domain too; --force does it all the same",
        )


def wanted_network(now: Standing, runtime: Runtime, wanted: Federation) -> Network | None:
    """The domains and links of a file; None if they are those in force."""
    from mangrove.model.versions.network import network_of

    network = network_of(wanted)
    return None if network == present_network(now, runtime) else network
