"""`mangrove leader`: which agent leads a domain, who would be next, and a planned hand-over."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from mangrove.cli.agents.asking import DomainOption, domain_of, told_by
from mangrove.cli.federation.load import no_agent
from mangrove.cli.federation.status import FederationOption
from mangrove.cli.federation.up import RunDirOption
from mangrove.cli.output import JsonOption, print_json, stdout_console
from mangrove.cli.running import run_async
from mangrove.errors import MangroveError

if TYPE_CHECKING:
    from mangrove.agent.management import ManagementConnection
    from mangrove.model.agents.status import AgentStatus
    from mangrove.model.endpoints import DomainEndpoints

WAIT_S = 15.0
LOOK_S = 0.1


def leader(
    domain: DomainOption = None,
    to: Annotated[
        str | None, typer.Option(help="Have this host's agent lead, and wait until it does.")
    ] = None,
    federation: FederationOption = None,
    run_dir: RunDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show which agent leads and who would be next, or hand the lead over."""
    from mangrove.cli.federation.load import chosen_domains
    from mangrove.host.runtime_file import find_running

    runtime = find_running(federation, run_dir)
    if to is None:
        found = run_async(_look(chosen_domains(runtime, domain)))
    else:
        found = run_async(_hand_over(domain_of(runtime, domain), to))
    if as_json:
        print_json({"domains": {name: _document(status) for name, status in found.items()}})
        return
    from mangrove.cli.agents.member_tables import members_table

    console = stdout_console()
    for name, status in found.items():
        console.print(f"{name}: {status.leader or 'nobody'} leads, in term {status.term}", highlight=False)
    members_table(found).show(console)


async def _look(domains: list[DomainEndpoints]) -> dict[str, AgentStatus]:
    from mangrove.agent.management import ManagementConnection

    async def ask(endpoints: DomainEndpoints) -> AgentStatus | None:
        async with ManagementConnection(endpoints) as management:
            return await management.agent_status()

    told = await asyncio.gather(*map(ask, domains))
    found = {each.domain: status for each, status in zip(domains, told, strict=True) if status is not None}
    if not found:
        raise no_agent(domains)
    return found


async def _hand_over(endpoints: DomainEndpoints, to: str) -> dict[str, AgentStatus]:
    import msgspec

    from mangrove.agent.management import ManagementConnection
    from mangrove.model.agents.operations import HandOverAsked

    async with ManagementConnection(endpoints) as management:
        answer = await told_by(management, endpoints, HandOverAsked(to=to))
        successor = msgspec.json.decode(answer.result)["to"]
        return {endpoints.domain: await _led_by(management, successor)}


async def _led_by(management: ManagementConnection, agent: str) -> AgentStatus:
    """Wait until an agent leads."""
    try:
        async with asyncio.timeout(WAIT_S):
            while True:
                status = await management.agent_status()
                if status is not None and status.leads and status.agent == agent:
                    return status
                await asyncio.sleep(LOOK_S)
    except TimeoutError:
        raise MangroveError(
            f"{agent} does not lead after {WAIT_S:g} s", hint="`mangrove leader` shows who does"
        ) from None


def _document(status: AgentStatus) -> dict[str, object]:
    import msgspec

    return {
        "leader": status.leader,
        "term": status.term,
        "policy": status.policy,
        "agents": [msgspec.to_builtins(member) for member in status.members],
    }
