"""How commands ask the leader of one domain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from mangrove.errors import InputError, MangroveError

if TYPE_CHECKING:
    from mangrove.agent.management import ManagementConnection
    from mangrove.model.agents.operations import Operation, OperationAnswer
    from mangrove.model.endpoints import DomainEndpoints, Runtime

DomainOption = Annotated[str | None, typer.Option(help="Which domain, if there are several.")]


def domain_of(runtime: Runtime, domain: str | None) -> DomainEndpoints:
    """The domain that is meant: the one named, or the only one."""
    from mangrove.cli.federation.load import chosen_domains

    found = chosen_domains(runtime, domain)
    if len(found) > 1:
        raise InputError(
            f"the federation {runtime.federation.name!r} has several domains",
            hint=f"say which: --domain {' | '.join(each.domain for each in found)}",
        )
    return found[0]


async def told_by(
    management: ManagementConnection, endpoints: DomainEndpoints, operation: Operation
) -> OperationAnswer:
    """What the leader answers; raises an error if there is none, or nothing was done."""
    answer = await management.operate(operation)
    if answer is None:
        raise MangroveError(
            f"no agent that leads answers in {endpoints.domain}",
            hint="`mangrove leader` shows who does; after a crash the next leads within seconds",
        )
    if answer.problem:
        raise InputError(f"the agent of {endpoints.domain} refuses: {answer.problem}")
    return answer
