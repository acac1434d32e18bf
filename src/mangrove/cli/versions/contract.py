"""`mangrove contract set | show | remove`: one contract of a federation that runs."""

from __future__ import annotations

from typing import Annotated

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
from mangrove.errors import InputError

app = typer.Typer(no_args_is_help=True, help="Show, make, change and withdraw contracts while messages flow.")


@app.command("set")
def set_contract(
    match: Annotated[str, typer.Argument(help="Subject, with wildcards * and >.")],
    terms: Annotated[
        list[str] | None, typer.Argument(help="key=value as in a federation file; all others by default.")
    ] = None,
    force: ForceOption = False,
    check: CheckOption = False,
    note: NoteOption = "",
    wait: WaitOption = DEFAULT_WAIT_S,
    keys: KeysOption = None,
    federation: FederationOption = None,
    run_dir: RunDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a contract, or replace the one with this `match`."""
    from mangrove.config.contract_text import checked_contracts, read_terms
    from mangrove.host.runtime_file import find_running
    from mangrove.model.versions.document import in_force

    runtime = find_running(federation, run_dir)
    now = present(runtime)
    wanted = {"match": match, **read_terms(terms or ())}
    there = in_force(runtime.federation, now.document)
    contracts = checked_contracts(there, now.document.topics.contracts, wanted)
    change(
        runtime,
        now,
        contracts,
        note=note,
        force=force,
        check=check,
        wait_s=wait,
        keys=keys,
        as_json=as_json,
    )


@app.command("remove")
def remove(
    match: Annotated[str, typer.Argument(help="The `match` of the contract.")],
    force: ForceOption = False,
    check: CheckOption = False,
    note: NoteOption = "",
    wait: WaitOption = DEFAULT_WAIT_S,
    keys: KeysOption = None,
    federation: FederationOption = None,
    run_dir: RunDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Withdraw a contract; its subjects fall under the next one that matches, or have best effort."""
    from mangrove.config.contract_text import contracts_without
    from mangrove.host.runtime_file import find_running

    runtime = find_running(federation, run_dir)
    now = present(runtime)
    contracts = contracts_without(now.document.topics.contracts, match)
    change(
        runtime,
        now,
        contracts,
        note=note,
        force=force,
        check=check,
        wait_s=wait,
        keys=keys,
        as_json=as_json,
    )


@app.command("sign")
def sign(
    keys: KeysOption = None,
    federation: FederationOption = None,
    run_dir: RunDirOption = None,
) -> None:
    """Sign what clients of the SDK ask for, where the rules allow it, until stopped.

    Run it where `mangrove keys init` made the keys: it holds the authority's key for as long as it runs.
    """
    from mangrove.agent.signing import Signer
    from mangrove.host.audit.audit_log import AuditLog
    from mangrove.host.runtime_file import find_running_directory, read_runtime
    from mangrove.host.versions.writing import check_authority

    run = find_running_directory(federation, run_dir)
    runtime = read_runtime(run)
    folder = runtime.keys if keys is None else str(keys)
    if not folder:
        raise InputError(f"{runtime.federation.name} has no keys: nothing there is signed")
    check_authority(folder)
    console = stdout_console()
    audit = AuditLog.at(str(run.audit_of("signer")))
    try:
        run_async(Signer(runtime, folder, audit, lambda line: console.print(line, markup=False)).run())
    finally:
        audit.close()


@app.command("show")
def show(
    subject: Annotated[str | None, typer.Argument(help="Only the one that governs this.")] = None,
    federation: FederationOption = None,
    run_dir: RunDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the contracts in force, in the order in which they are tried."""
    from mangrove.cli.versions.version_tables import contracts_table
    from mangrove.config.contract_text import terms_of
    from mangrove.host.runtime_file import find_running
    from mangrove.model.subjects import subject_problem

    if subject is not None and (problem := subject_problem(subject, wildcards=False)):
        raise InputError(f"{subject!r} is no subject: {problem}")
    now = present(find_running(federation, run_dir))
    topics = now.document.topics
    shown = list(topics.numbered())
    if subject is not None:
        governing = topics.class_of(subject)
        shown = [each for each in shown if each[0] == governing]
    if as_json:
        print_json(
            {
                "version": now.document.version,
                "contracts": [{"class": number, **terms_of(contract)} for number, contract in shown],
            }
        )
    elif subject is not None and not shown:
        stdout_console().print(f"no contract governs {subject}: best effort")
    else:
        contracts_table(now.document.version, shown).show(stdout_console())
