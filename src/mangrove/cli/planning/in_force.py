"""`mangrove plan apply|offer|show|history|rollback`: put plans in force, and see what became of them."""

from __future__ import annotations

import asyncio
import getpass
import json
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mangrove.cli.federation.load import chosen_domains, no_agent
from mangrove.cli.federation.status import FederationOption
from mangrove.cli.federation.up import RunDirOption
from mangrove.cli.output import JsonOption, print_json, stderr_console, stdout_console
from mangrove.cli.running import run_async
from mangrove.errors import InputError, MangroveError

if TYPE_CHECKING:
    from mangrove.agent.management import ManagementConnection
    from mangrove.model.agents.operations import Operation
    from mangrove.model.endpoints import DomainEndpoints, Runtime
    from mangrove.model.plans.account import PlansTold, PlanTaken

DomainOption = Annotated[
    str | None, typer.Option(help="Whose plan; by default the one that the plan names, or the only one.")
]
ForceOption = Annotated[bool, typer.Option("--force", help="Do not ask.")]

LOOK_S = 0.5
AWAY_S = 30.0
"""A leader that does not answer for so long is given up by the command; another may take over before."""


def apply(
    plan: Annotated[
        str,
        typer.Argument(
            help="Answer of `plan allocate|mirror --json`, file of `plan cases`, or the name of a plan that "
            "`plan show` tells as proposed."
        ),
    ],
    domain: DomainOption = None,
    force: ForceOption = False,
    off_peak: Annotated[
        bool, typer.Option("--off-peak", help="Move topics only in the window of the federation file.")
    ] = False,
    worse: Annotated[
        bool, typer.Option("--worse", help="Also if it is worse than what is in force.")
    ] = False,
    check: Annotated[bool, typer.Option("--check", help="Only show what would happen.")] = False,
    federation: FederationOption = None,
    run_dir: RunDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put a plan in force: check it, show what would move and what it does to risk, ask, and do it."""
    from mangrove.model.agents.operations import PlanApplied
    from mangrove.model.plans.packing import packed

    path = Path(plan)
    data = _read(path) if path.exists() else b""
    if not data and (path.suffix or len(path.parts) > 1):
        raise InputError(f"cannot read {plan}: no such file, or it is empty")
    endpoints = _domain(federation, run_dir, domain or _named(data))
    asked = PlanApplied(
        plan=packed(data) if data else b"",
        proposed="" if data else plan,
        at_once=not off_peak,
        anyway=worse,
        by=operator(),
    )
    if as_json and not force and not check:
        raise InputError("--json asks nothing", hint="add --check to look, or --force to apply")
    run_async(_apply(endpoints, asked, plan, force=force, check=check, as_json=as_json))


def offer(
    plan: Annotated[str, typer.Argument(help="A plan's file; with --withdraw, its name or the file.")],
    domain: DomainOption = None,
    withdraw: Annotated[bool, typer.Option("--withdraw", help="Take it out of the store again.")] = False,
    federation: FederationOption = None,
    run_dir: RunDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Leave a plan in the store, where the agents look if `plans.policy` is propose or auto."""
    from mangrove.model.agents.operations import MAX_OPERATION_BYTES
    from mangrove.model.plans.packing import packed
    from mangrove.model.plans.rules import PlanPolicy
    from mangrove.store.offers import MAX_NAME_LENGTH

    path = Path(plan)
    data = None if withdraw else _read(path)
    endpoints = _domain(federation, run_dir, domain or _named(data or b""))
    document = None if data is None else packed(data)
    if len(path.name) > MAX_NAME_LENGTH:
        raise InputError(f"a plan's name has at most {MAX_NAME_LENGTH} characters", hint="rename the file")
    if document is not None and len(document) > MAX_OPERATION_BYTES:
        raise InputError(f"{plan} is larger than {MAX_OPERATION_BYTES >> 20} MB, compressed")
    if _running(federation, run_dir).federation.plans.policy is PlanPolicy.MANUAL and not withdraw:
        raise InputError(
            "nobody looks into the store: plans.policy is manual",
            hint="mangrove plan apply puts it in force",
        )
    run_async(_offer(endpoints, path.name, document))
    did = "withdrawn from" if withdraw else "left in"
    if as_json:
        print_json({"domain": endpoints.domain, "name": path.name, "withdrawn": withdraw})
    else:
        stdout_console().print(f"{path.name} is {did} the store of {endpoints.domain}")
        stdout_console().print("mangrove plan show tells what became of it")


def rollback(
    version: Annotated[
        int, typer.Argument(min=0, help="Of the history; by default the one before that in force.")
    ] = 0,
    domain: DomainOption = None,
    force: ForceOption = False,
    federation: FederationOption = None,
    run_dir: RunDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put an earlier plan in force again."""
    from mangrove.model.agents.operations import PlanRolledBack

    endpoints = _domain(federation, run_dir, domain)
    if not force and not as_json:
        back = f"version {version}" if version else "the plan before the one in force"
        typer.confirm(f"Put {back} in force in {endpoints.domain}?", abort=True, err=True)
    asked = PlanRolledBack(version=version, by=operator())
    run_async(_roll_back(endpoints, asked, as_json=as_json))


def show(
    version: Annotated[int, typer.Argument(min=0, help="Of the history; by default that in force.")] = 0,
    domain: DomainOption = None,
    federation: FederationOption = None,
    run_dir: RunDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the plan in force, how far it has got, and plans that were found."""
    from mangrove.cli.planning.in_force_tables import show_plans

    endpoints = _domain(federation, run_dir, domain)
    told = run_async(_shown(endpoints, version))
    if as_json:
        print_json(told)
    else:
        show_plans(told, stdout_console())


def history(
    domain: DomainOption = None,
    federation: FederationOption = None,
    run_dir: RunDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the plans that were in force, latest first."""
    from mangrove.cli.planning.in_force_tables import show_history

    endpoints = _domain(federation, run_dir, domain)
    told = run_async(_shown(endpoints, 0))
    if as_json:
        print_json({"domain": told.domain, "version": told.version, "history": told.history})
    else:
        show_history(told, stdout_console())


# -- what is asked -----------------------------------------------------------------------------------------


async def _apply(
    endpoints: DomainEndpoints, asked: Any, name: str, *, force: bool, check: bool, as_json: bool
) -> None:
    import msgspec

    from mangrove.agent.management import ManagementConnection
    from mangrove.cli.planning.in_force_tables import show_preview

    async with ManagementConnection(endpoints) as management:
        looked = await _taken(management, endpoints, msgspec.structs.replace(asked, check=True))
        if check and as_json:
            print_json(looked)
            return
        if not as_json:
            show_preview(looked.preview, stdout_console())
        if looked.preview.problem and not asked.anyway:
            raise MangroveError(
                f"{name} is refused: {looked.preview.problem}", hint="--worse applies it all the same"
            )
        if check:
            return
        if not force and not await asyncio.to_thread(
            typer.confirm, f"Put it in force in {endpoints.domain}?", err=True
        ):
            stderr_console().print("nothing was changed")
            return
        taken = await _taken(management, endpoints, asked)
        await _followed(management, endpoints, taken, as_json=as_json)


async def _roll_back(endpoints: DomainEndpoints, asked: Operation, *, as_json: bool) -> None:
    from mangrove.agent.management import ManagementConnection

    async with ManagementConnection(endpoints) as management:
        taken = await _taken(management, endpoints, asked)
        await _followed(management, endpoints, taken, as_json=as_json)


async def _offer(endpoints: DomainEndpoints, name: str, document: bytes | None) -> None:
    from mangrove.agent.management import ManagementConnection

    async with ManagementConnection(endpoints) as management:
        await management.offer(name, document)


async def _taken(management: ManagementConnection, endpoints: DomainEndpoints, asked: Operation) -> PlanTaken:
    import msgspec

    from mangrove.model.plans.account import PlanTaken

    told = await management.operate(asked)
    if told is None:
        raise no_agent([endpoints])
    if told.problem:
        raise InputError(told.problem)
    return msgspec.json.decode(told.result, type=PlanTaken)


async def _shown(endpoints: DomainEndpoints, version: int) -> PlansTold:
    from mangrove.agent.management import ManagementConnection

    async with ManagementConnection(endpoints) as management:
        told = await _ask(management, version)
    if told is None:
        raise no_agent([endpoints])
    return told


async def _ask(management: ManagementConnection, version: int) -> PlansTold | None:
    import msgspec

    from mangrove.model.agents.operations import PlanShown
    from mangrove.model.plans.account import PlansTold

    told = await management.operate(PlanShown(version=version), timeout_s=2.0)
    if told is None:
        return None
    if told.problem:
        raise MangroveError(told.problem)
    return msgspec.json.decode(told.result, type=PlansTold)


async def _followed(
    management: ManagementConnection, endpoints: DomainEndpoints, taken: PlanTaken, *, as_json: bool
) -> None:
    """A progress bar until everything has moved; an interruption leaves the moves going."""
    from mangrove.cli.planning.in_force_tables import outcome

    if taken.waits:
        if as_json:
            print_json(taken)
        else:
            stdout_console().print(f"version {taken.version} is in force; {taken.waits}")
            stdout_console().print("mangrove plan show tells how far it is")
        return
    try:
        told = await _until_done(management, taken.version)
    except asyncio.CancelledError:
        stderr_console().print(
            f"version {taken.version} is in force in {endpoints.domain}, and topics go on to move; "
            "mangrove plan show tells how far it is, mangrove plan rollback goes back"
        )
        raise
    if as_json:
        print_json({"version": taken.version, "preview": taken.preview, "rollout": told.rollout})
    else:
        stdout_console().print(outcome(told, taken.version))


async def _until_done(management: ManagementConnection, version: int) -> PlansTold:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from mangrove.model.plans.account import RolloutState

    console = stderr_console()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("moving topics", total=None)
        silent_s = 0.0
        while True:
            told = await _ask(management, 0)
            if told is None:
                silent_s += LOOK_S
                bar.update(task, description="waiting for a leader")
                if silent_s >= AWAY_S:
                    raise MangroveError(
                        "no agent leads the domain; the plan is in force, and the next leader completes it"
                    )
            else:
                silent_s = 0.0
                rollout = told.rollout
                superseded = told.version != version
                if superseded or rollout is None or rollout.state is RolloutState.DONE:
                    return told
                words = rollout.waits or f"moving {', '.join(rollout.moving[:2])}"[:40]
                bar.update(task, description=words, completed=rollout.done, total=max(1, rollout.topics))
            await asyncio.sleep(LOOK_S)


# -- whom and what -----------------------------------------------------------------------------------------


def _running(federation: str | None, run_dir: Path | None) -> Runtime:
    from mangrove.host.runtime_file import find_running

    return find_running(federation, run_dir)


def _domain(federation: str | None, run_dir: Path | None, domain: str | None) -> DomainEndpoints:
    runtime = _running(federation, run_dir)
    if domain is None and len(runtime.domains) > 1:
        raise InputError("which domain is it for?", hint=f"--domain: one of {', '.join(runtime.domains)}")
    return chosen_domains(runtime, domain)[0]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None


def _named(data: bytes) -> str | None:
    """The domain that a document names; whatever else is wrong with it the agent says."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return None
    named = document.get("domain") if isinstance(document, dict) else None
    return named if isinstance(named, str) and named else None


def operator() -> str:
    """Who asks, for the history."""
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (KeyError, OSError):
        return socket.gethostname()
