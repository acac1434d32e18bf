"""`mangrove load`: how loaded the brokers are, and what their agents do about it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from mangrove.cli.federation.status import FederationOption
from mangrove.cli.federation.up import RunDirOption
from mangrove.cli.output import JsonOption, print_json, stderr_console, stdout_console
from mangrove.cli.running import run_async
from mangrove.errors import InputError, MangroveError

if TYPE_CHECKING:
    from rich.console import Console

    from mangrove.agent.management import ManagementConnection
    from mangrove.model.agents.status import AgentStatus
    from mangrove.model.endpoints import DomainEndpoints, Runtime

DomainOption = Annotated[str | None, typer.Option(help="This domain alone.")]

EVERY_S = 1.0


def load(
    domain: DomainOption = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Look again every second.")] = False,
    federation: FederationOption = None,
    run_dir: RunDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the load of brokers, sessions that move it, neighbours' headroom and congestion."""
    from mangrove.host.runtime_file import find_running

    if watch and as_json:
        raise InputError("--watch and --json exclude each other", hint="call it again and again with --json")
    found = chosen_domains(find_running(federation, run_dir), domain)
    run_async(_load(found, watch, as_json))


def chosen_domains(runtime: Runtime, domain: str | None) -> list[DomainEndpoints]:
    """The domains to ask: the one named, or all."""
    if domain is None:
        return list(runtime.domains.values())
    if domain not in runtime.domains:
        raise InputError(
            f"the federation {runtime.federation.name!r} has no domain {domain!r}",
            hint=f"choose one of: {', '.join(runtime.domains)}",
        )
    return [runtime.domains[domain]]


def no_agent(domains: list[DomainEndpoints]) -> MangroveError:
    """Nobody answered."""
    names = ", ".join(each.domain for each in domains)
    return MangroveError(
        f"no agent answers in {names}",
        hint="`mangrove status` shows what runs; agents start with their sites",
    )


async def _load(domains: list[DomainEndpoints], watch: bool, as_json: bool) -> None:
    from contextlib import AsyncExitStack

    from mangrove.agent.management import ManagementConnection

    async with AsyncExitStack() as stack:
        connections = {
            each.domain: await stack.enter_async_context(ManagementConnection(each)) for each in domains
        }
        if watch:
            await _watch(connections)
            return
        found = await _ask(connections)
    if not found:
        raise no_agent(domains)
    if as_json:
        print_json({"domains": {each.domain: found.get(each.domain) for each in domains}})
        return
    _show(found, stdout_console())
    for each in domains:
        if each.domain not in found:
            stderr_console().print(f"the agent of {each.domain} does not answer")


async def _ask(connections: dict[str, ManagementConnection]) -> dict[str, AgentStatus]:
    told = await asyncio.gather(*(each.agent_status() for each in connections.values()))
    return {domain: status for domain, status in zip(connections, told, strict=True) if status is not None}


def _show(found: dict[str, AgentStatus], console: Console) -> None:
    from mangrove.cli.federation.load_tables import load_tables

    for table in load_tables(found):
        table.show(console)


async def _watch(connections: dict[str, ManagementConnection]) -> None:
    """The same tables, over and over, until interrupted."""
    from rich.live import Live
    from rich.text import Text

    from mangrove.cli.federation.load_tables import load_tables

    console = stdout_console()
    with Live(console=console, auto_refresh=False, screen=console.is_terminal) as live:
        while True:
            found = await _ask(connections)
            lines = [
                Text.assemble(*line)
                for table in load_tables(found)
                for line in (*table.lines(console.width), ())
            ]
            missing = [domain for domain in connections if domain not in found]
            if missing:
                lines.append(Text(f"no agent answers in {', '.join(missing)}", "red"))
            live.update(Text("\n").join(lines), refresh=True)
            await asyncio.sleep(EVERY_S)
