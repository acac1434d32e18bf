"""`mangrove broker`: say that a broker can carry less from now on, or again what its file says."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated

import typer

from mangrove.cli.federation.status import FederationOption
from mangrove.cli.federation.up import RunDirOption
from mangrove.cli.output import JsonOption, print_json, stderr_console
from mangrove.cli.running import run_async
from mangrove.errors import EXIT_NEGATIVE, InputError

if TYPE_CHECKING:
    from mangrove.model.agents.usefulness import CapacityTold
    from mangrove.model.endpoints import DomainEndpoints, Runtime
    from mangrove.model.federation import Edge

WHOLE = 1.0


def broker(
    name: Annotated[str, typer.Argument(help="A head or an edge, such as seattle-edge1.")],
    bandwidth: Annotated[
        float | None, typer.Option(help="Part of its bandwidth that is left, above 0 and up to 1.")
    ] = None,
    bandwidth_mbps: Annotated[
        float | None, typer.Option(help="The same in megabits per second, of each direction.")
    ] = None,
    capacity: Annotated[
        float | None, typer.Option(help="Part of the messages per second that it can match.")
    ] = None,
    restore: Annotated[bool, typer.Option("--restore", help="All that its file says.")] = False,
    federation: FederationOption = None,
    run_dir: RunDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Lower what a broker can carry, or restore it; what is not named goes back to what the file says."""
    from mangrove.host.runtime_file import find_running

    runtime = find_running(federation, run_dir)
    domain, described = described_broker(runtime, name)
    told = what_is_told(
        name,
        described,
        bandwidth=bandwidth,
        bandwidth_mbps=bandwidth_mbps,
        capacity=capacity,
        restore=restore,
    )
    emulated, problem = run_async(_tell(runtime, domain, described, told))
    left_mbps = None if described.bandwidth_mbps is None else told.bandwidth * described.bandwidth_mbps
    if as_json:
        print_json(
            {
                "broker": name,
                "domain": domain.domain,
                "bandwidth": told.bandwidth,
                "bandwidth_mbps": left_mbps,
                "capacity": told.matching,
                "emulated": emulated,
                "agent": not problem,
                "problem": problem,
            }
        )
    else:
        _say(name, domain.domain, told, left_mbps, emulated, problem)
    if problem:
        raise typer.Exit(EXIT_NEGATIVE)


def described_broker(runtime: Runtime, name: str) -> tuple[DomainEndpoints, Edge]:
    """The domain of a data broker, and what the federation file says of the broker."""
    from mangrove.model.federation import Edge

    names = []
    for domain in runtime.domains.values():
        description = runtime.federation.domains[domain.domain]
        described = [description.head, *description.edges]
        for number, each in enumerate((domain.head, *domain.edges)):
            if each.name == name:
                return domain, described[number] if number < len(described) else Edge()
            names.append(each.name)
    raise InputError(
        f"the federation {runtime.federation.name!r} has no head or edge {name!r}",
        hint=f"choose one of: {', '.join(names)}",
    )


def what_is_told(
    name: str,
    described: Edge,
    *,
    bandwidth: float | None,
    bandwidth_mbps: float | None,
    capacity: float | None,
    restore: bool,
) -> CapacityTold:
    """The parts that are left, or an `InputError` that says what cannot be."""
    from mangrove.model.agents.usefulness import CapacityTold

    given = [value for value in (bandwidth, bandwidth_mbps, capacity) if value is not None]
    if restore == bool(given):
        raise InputError(
            "either say what is left, or --restore",
            hint="such as: --bandwidth 0.3, --bandwidth-mbps 4, --capacity 0.5",
        )
    if bandwidth is not None and bandwidth_mbps is not None:
        raise InputError("--bandwidth and --bandwidth-mbps exclude each other")
    if (bandwidth is not None or bandwidth_mbps is not None) and described.bandwidth_mbps is None:
        raise _not_described(name, "bandwidth", "bandwidth_mbps")
    if capacity is not None and described.capacity is None:
        raise _not_described(name, "capacity", "capacity")
    if bandwidth_mbps is not None and described.bandwidth_mbps is not None:
        if not 0 < bandwidth_mbps <= described.bandwidth_mbps:
            raise InputError(
                f"--bandwidth-mbps {bandwidth_mbps:g}: it must be above 0 and at most "
                f"{described.bandwidth_mbps:g}, which the federation file says of {name}"
            )
        bandwidth = bandwidth_mbps / described.bandwidth_mbps
    return CapacityTold(
        broker=name, bandwidth=_part("--bandwidth", bandwidth), matching=_part("--capacity", capacity)
    )


def _part(option: str, value: float | None) -> float:
    if value is None:
        return WHOLE
    if math.isnan(value) or not 0 < value <= 1:
        raise InputError(
            f"{option} {value:g}: it must be a part above 0 and at most 1",
            hint="a broker that carries nothing at all is stopped, not narrowed",
        )
    return value


def _not_described(name: str, what: str, key: str) -> InputError:
    return InputError(
        f"the federation file says nothing of the {what} of {name}, so there is no part of it",
        hint=f"give the broker `{key}` in the federation file",
    )


async def _tell(
    runtime: Runtime, domain: DomainEndpoints, described: Edge, told: CapacityTold
) -> tuple[bool, str]:
    """Change the line, if it is emulated, and tell the agent. Whether it is, and why the agent was not."""
    from mangrove.agent.management import ManagementConnection

    emulated = False
    if runtime.lines_control is not None and described.bandwidth_mbps is not None:
        from mangrove.testbed.broker_lines.emulated_brokers import send_bandwidth

        left_mbps = told.bandwidth * described.bandwidth_mbps
        await send_bandwidth(runtime.lines_control, told.broker, left_mbps)
        emulated = True
    async with ManagementConnection(domain) as management:
        answer = await management.tell_capacity(told)
    return emulated, "the agent does not answer" if answer is None else answer.problem


def _say(
    name: str, domain: str, told: CapacityTold, left_mbps: float | None, emulated: bool, problem: str
) -> None:
    console = stderr_console()
    mbps = "" if left_mbps is None else f" ({left_mbps:g} Mbit/s)"
    console.print(
        f"{name} has {told.bandwidth:.0%} of its bandwidth{mbps}, {told.matching:.0%} of its capacity"
    )
    line = "its line is emulated and changed" if emulated else "its line is not emulated: it stays as it is"
    agent = f"the agent of {domain} was told"
    if problem:
        agent = f"[red]the agent of {domain} does not know it: {problem}[/red]"
    console.print(f"{line}; {agent}")
