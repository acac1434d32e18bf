"""Tells a running federation which regions are endangered, and sees what has left them."""

from __future__ import annotations

import asyncio

import msgspec

from mangrove.agent.inspection import gateway_status
from mangrove.agent.management import ManagementConnection
from mangrove.errors import InputError, MangroveError
from mangrove.model.endpoints import Runtime
from mangrove.model.questions.endangered import AvoidRequest, EndangeredRegion, ExposedPath
from mangrove.model.status import GatewayStatus

POLL_S = 0.1


class NobodyAnswersError(MangroveError):
    """No gateway of a federation can be told anything."""

    def __init__(self, federation: str) -> None:
        super().__init__(f"no gateway of the federation {federation!r} answers", hint="see: mangrove status")


class Avoidance(msgspec.Struct, frozen=True):
    """What is endangered, and what still leads through it from which domain."""

    regions: tuple[EndangeredRegion, ...]
    exposed: tuple[tuple[str, ExposedPath], ...]
    settled: bool
    """Whether every gateway that answers knows the same, and all has left that can."""
    silent: tuple[str, ...]
    """Domains whose gateway does not answer."""


async def tell(runtime: Runtime, request: AvoidRequest) -> EndangeredRegion | None:
    """Tell one gateway, which tells the others; the region, or None if it is safe again.

    InputError if the gateway says that the request makes no sense.
    """
    request.check()
    for endpoints in runtime.domains.values():
        async with ManagementConnection(endpoints) as management:
            answer = await management.avoid(request)
        if answer is None:
            continue
        if answer.problem:
            raise InputError(answer.problem, hint=answer.hint)
        return answer.region
    raise NobodyAnswersError(runtime.federation.name)


async def look(runtime: Runtime) -> Avoidance:
    """What is endangered and exposed now."""
    names = list(runtime.domains)
    found = await asyncio.gather(*(gateway_status(runtime.domains[name]) for name in names))
    answered = {name: status for name, status in zip(names, found, strict=True) if status is not None}
    if not answered:
        raise NobodyAnswersError(runtime.federation.name)
    regions = {region.name: region for status in answered.values() for region in status.endangered}
    return Avoidance(
        regions=tuple(regions[name] for name in sorted(regions)),
        exposed=tuple((name, path) for name, status in answered.items() for path in status.exposed),
        settled=all(_settled(status, set(regions)) for status in answered.values()),
        silent=tuple(name for name in names if name not in answered),
    )


def _settled(status: GatewayStatus, regions: set[str]) -> bool:
    known = {region.name for region in status.endangered}
    leaving = any(not path.reason for path in status.exposed)
    return known == regions and not leaving and status.routes_settled


async def settle(runtime: Runtime, name: str, *, endangered: bool, timeout_s: float) -> Avoidance:
    """Wait until a region is known, or known to be over, and all that can has left or returned."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + timeout_s
    while True:
        found = await look(runtime)
        known = name in {region.name for region in found.regions}
        if (found.settled and known == endangered) or clock() >= deadline:
            return found
        await asyncio.sleep(POLL_S)
