"""The scenario of Harmony's section 5 with real brokers: a link is slowed, then cut, then a site dies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from mangrove.agent.inspection import gateway_status
from mangrove.evaluation.traces.harmony_phases import (
    LOOSE,
    PHASES,
    SLOWED_DELAY_MS,
    SOURCE,
    TIGHT,
    Disturbance,
    PhaseScript,
    Routes,
    two_each,
)
from mangrove.testbed.local_federation import LocalFederation
from mangrove.testbed.traffic import Account, Stream, Traffic

STREAMS = (
    Stream(TIGHT, SOURCE, ("washington",), 200, 60),
    Stream(LOOSE, SOURCE, ("orlando",), 200, 150),
)
SETTLE_S = 15.0
POLL_S = 0.25


class TopicPhase(msgspec.Struct, frozen=True, kw_only=True):
    """One topic in one phase."""

    topic: str
    sent: int
    delivered: int
    in_time: int
    longest_gap_ms: float
    routes: tuple[tuple[str, ...], ...]


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """What happened in one phase, and whether the routes did what they should."""

    name: str
    expectation: str
    held: bool
    topics: tuple[TopicPhase, ...]


class HarmonyScenario:
    """Drives the scenario on a running federation with its traffic."""

    def __init__(self, launched: LocalFederation, traffic: Traffic) -> None:
        self._launched = launched
        self._traffic = traffic

    async def run(self, seconds: float, tell: Callable[[str], None]) -> list[Phase]:
        """All phases, `seconds` in all."""
        phases: list[Phase] = []
        settled: Routes = {}
        for script in PHASES:
            await self._disturb(script.disturbance)
            phases.append(await self._phase(script, settled, seconds / len(PHASES), tell))
            settled = settled or await self._routes()
        return phases

    async def _disturb(self, what: Disturbance) -> None:
        match what:
            case Disturbance.NOTHING:
                pass
            case Disturbance.SLOWED:
                await self._launched.reshape("seattle", "denver", delay_ms=SLOWED_DELAY_MS)
            case Disturbance.CUT:
                await self._launched.reshape("seattle", "denver", black_hole=True)
            case Disturbance.SITE_DIED:
                await self._launched.sites["denver"].kill()

    async def routes_established(self) -> bool:
        """Wait until both topics have their two paths; False if that takes too long."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + SETTLE_S
        while not two_each(await self._routes()):
            if loop.time() > deadline:
                return False
            await asyncio.sleep(POLL_S)
        return True

    async def _phase(
        self, script: PhaseScript, settled: Routes, seconds: float, tell: Callable[[str], None]
    ) -> Phase:
        """Let traffic flow, and wait for the routes to do what is expected of them."""
        tell(script.name)
        before = [self._figures(account) for account in self._traffic.accounts]
        for account in self._traffic.accounts:
            account.restart_gap(self._traffic.awake_s())
        loop = asyncio.get_running_loop()
        start = loop.time()
        held = False
        while loop.time() - start < seconds or (not held and loop.time() - start < seconds + SETTLE_S):
            await asyncio.sleep(POLL_S)
            routes = await self._routes()
            held = script.holds(routes, settled)
        tell("  " + "; ".join(f"{topic}: {_shown(paths)}" for topic, paths in routes.items()))
        topics = []
        for account, (sent, delivered, in_time) in zip(self._traffic.accounts, before, strict=True):
            now = self._figures(account)
            topics.append(
                TopicPhase(
                    topic=account.stream.topic,
                    sent=now[0] - sent,
                    delivered=now[1] - delivered,
                    in_time=now[2] - in_time,
                    longest_gap_ms=1000 * account.longest_gap_s(self._traffic.awake_s()),
                    routes=routes[account.stream.topic],
                )
            )
        return Phase(name=script.name, expectation=script.expectation, held=held, topics=tuple(topics))

    @staticmethod
    def _figures(account: Account) -> tuple[int, int, int]:
        return account.sent, account.delivered, account.in_time

    async def _routes(self) -> Routes:
        """The paths that carry each topic, as Seattle's gateway has them."""
        status = await gateway_status(self._launched.endpoints[SOURCE])
        routes: dict[str, list[tuple[str, ...]]] = {stream.topic: [] for stream in STREAMS}
        for route in status.routes if status is not None else ():
            if route.active and route.topic in routes:
                routes[route.topic].append(route.path)
        return {topic: tuple(sorted(paths)) for topic, paths in routes.items()}


def _shown(paths: tuple[tuple[str, ...], ...]) -> str:
    return " | ".join(" → ".join(path) for path in paths) or "(by table)"
