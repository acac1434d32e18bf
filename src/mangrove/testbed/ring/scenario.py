"""The ring whose link and site fail: what happens when, and the account of every message.

Four sites a – b – c – d – a. In one run: all is well; the link a – d silently swallows everything, without a
reset; it returns; the site b, on the detour from a to d, has all of its processes killed at once; it returns.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from mangrove.agent.inspection import inspect, wait_for_interest
from mangrove.config import parse_federation
from mangrove.errors import MangroveError
from mangrove.host.run_directory import RunDirectory
from mangrove.testbed.accounting import Figures, Record, Span, figures
from mangrove.testbed.load import PLAIN_OPTIONS, BrokerAddress
from mangrove.testbed.local_federation import LocalFederation
from mangrove.testbed.probe_traffic import ProbeTopic

RING = """
federation: ring
domains: {a: {}, b: {}, c: {}, d: {}}
links:
  - {between: [a, b], delay_ms: 10}
  - {between: [b, c], delay_ms: 10}
  - {between: [c, d], delay_ms: 11}
  - {between: [d, a], delay_ms: 10}
topics:
  - {match: "double.>", paths: 2, deadline_ms: 100}
  - {match: "single.>", paths: 1, deadline_ms: 100}
"""
RATE_MSG_S = 1000.0
LATE_AFTER_MS = 100.0
# The account of a failure begins this long before it: what was under way when it happened is part of it.
UNDER_WAY_NS = 100_000_000
HEALTHY_TIMEOUT_S = 30.0

TWO_PATHS, ONE_PATH, DEFAULT, TRANSIT = "paths: 2", "paths: 1", "default", "transit"
SUBJECTS = {
    TWO_PATHS: "double.probe",
    ONE_PATH: "single.probe",
    DEFAULT: "plain.probe",
    TRANSIT: "single.transit",
}
STEADY, BLACK_HOLE, LINK_RETURNS = "steady", "black hole", "link returns"
SITE_DIES, SITE_RETURNS = "transit site dies", "site returns"
CLIENT = "meter"
"""The client of each site that publishes and subscribes, where brokers ask who connects."""

# The bars: where nothing may be lost, where nothing may come twice or out of order, where no silence may last
# so long.
ONCE = [(phase, topic) for phase in (BLACK_HOLE, LINK_RETURNS) for topic in (TWO_PATHS, ONE_PATH, DEFAULT)]
COMPLETE = [*ONCE, (SITE_DIES, TWO_PATHS)]
GAP_BARS_MS = [
    (BLACK_HOLE, ONE_PATH, 200.0),
    (BLACK_HOLE, DEFAULT, 200.0),
    (LINK_RETURNS, ONE_PATH, 100.0),
    (LINK_RETURNS, TWO_PATHS, 100.0),
    (LINK_RETURNS, DEFAULT, 100.0),
]


class Schedule(NamedTuple):
    """How long each phase lasts, in seconds."""

    warm_up: float = 2.0
    steady: float = 5.0
    black_hole: float = 30.0
    link_returns: float = 10.0
    site_dies: float = 10.0
    site_returns: float = 10.0


QUICK = Schedule(steady=2.0, black_hole=5.0, link_returns=3.0, site_dies=4.0, site_returns=4.0)


def head_address(launched: LocalFederation, domain: str, client: str = CLIENT) -> BrokerAddress:
    """Where clients of a domain connect, and as whom where brokers ask."""
    head, keys = launched.endpoints[domain].head, launched.keys
    if keys is None:
        return (head.host, head.client_port, PLAIN_OPTIONS)
    from mangrove.host.keys.directory import KeyDirectory

    found = KeyDirectory(keys).domain(domain).client(client)
    login = {"user": client, "pass": found.password.read_text().strip()}
    options = msgspec.json.decode(PLAIN_OPTIONS, type=dict[str, object]) | login
    return (head.host, head.client_port, msgspec.json.encode(options).decode(), str(found.trusted))


class Ring:
    """The running ring."""

    def __init__(self, launched: LocalFederation) -> None:
        self._launched = launched

    def head(self, domain: str) -> BrokerAddress:
        """Where clients of a domain connect, and as whom."""
        return head_address(self._launched, domain)

    def topics(self) -> list[ProbeTopic]:
        """What is published at `a`, and where it is awaited."""
        awaited_at = {TWO_PATHS: "d", ONE_PATH: "d", DEFAULT: "d", TRANSIT: "c"}
        return [
            ProbeTopic(SUBJECTS[title], RATE_MSG_S, self.head(domain)) for title, domain in awaited_at.items()
        ]

    async def settle(self) -> None:
        """All links are up, and everybody knows who wants what."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + HEALTHY_TIMEOUT_S
        while not (await inspect(self._launched.runtime())).healthy:
            if loop.time() > deadline:
                raise MangroveError("the ring did not come up")
            await asyncio.sleep(0.1)
        if not await wait_for_interest(self._launched.runtime(), {"d": 3, "c": 1}):
            raise MangroveError("the subscriptions did not reach all sites")

    async def disturb(
        self,
        schedule: Schedule,
        swallow: Callable[[bool], Awaitable[object]] | None = None,
        before_site_dies: Callable[[], None] = lambda: None,
    ) -> dict[str, Span]:
        """Go through the phases; return when each was. `swallow` also strikes somebody else."""
        starts: dict[str, int] = {}

        def begins(phase: str, *, failure: bool = False) -> None:
            starts[phase] = time.monotonic_ns() - (UNDER_WAY_NS if failure else 0)

        async def black_hole(swallows: bool) -> None:
            others = [] if swallow is None else [swallow(swallows)]
            await asyncio.gather(self._launched.reshape("a", "d", black_hole=swallows), *others)

        begins(STEADY)
        await asyncio.sleep(schedule.steady)
        begins(BLACK_HOLE, failure=True)
        await black_hole(True)
        await asyncio.sleep(schedule.black_hole)
        begins(LINK_RETURNS)
        await black_hole(False)
        await asyncio.sleep(schedule.link_returns)
        before_site_dies()
        begins(SITE_DIES, failure=True)
        await self._launched.sites["b"].kill()
        await asyncio.sleep(schedule.site_dies)
        begins(SITE_RETURNS)
        await self._launched.sites["b"].start()
        await asyncio.sleep(schedule.site_returns)
        ends = [*list(starts.values())[1:], time.monotonic_ns()]
        return {phase: Span(start, end) for (phase, start), end in zip(starts.items(), ends, strict=True)}


@asynccontextmanager
async def running_ring(directory: Path, seed: int, *, secured: bool = False) -> AsyncIterator[Ring]:
    """The ring in processes of its own; `secured`, with keys for everything and everybody."""
    federation = parse_federation(RING, "ring").require()
    keys = RunDirectory(directory).keys
    if secured:
        from mangrove.host.keys.making import issue_client, make_keys

        make_keys(federation, keys)
        for domain in federation.domains:
            issue_client(keys, domain, CLIENT)
    async with LocalFederation(
        federation,
        directory.joinpath("ring"),
        ephemeral=True,
        seed=seed,
        agents=False,
        secured=secured,
        keys=keys if secured else None,
    ) as launched:
        yield Ring(launched)


def account(spans: dict[str, Span], records: dict[str, Record]) -> dict[str, dict[str, Figures]]:
    """Figures by phase and topic."""
    return {
        phase: {title: figures(records[subject], span, LATE_AFTER_MS) for title, subject in SUBJECTS.items()}
        for phase, span in spans.items()
    }


def shortfalls(phases: dict[str, dict[str, Figures]]) -> list[str]:
    """What is promised for one and for two paths and was not kept; the topic over the dying site has none."""
    problems: list[str] = []
    for phase, topic in COMPLETE:
        row = phases[phase][topic]
        if row.lost:
            problems.append(f"{phase}, {topic}: {row.lost} of {row.sent} messages lost")
    for phase, topic in ONCE:
        row = phases[phase][topic]
        if row.duplicated:
            problems.append(f"{phase}, {topic}: {row.duplicated} messages delivered again")
        # A deadline is stronger than order: others go on without what is late.
        if row.out_of_order > (0 if topic == DEFAULT else row.late):
            problems.append(f"{phase}, {topic}: {row.out_of_order} messages out of order")
    late = phases[BLACK_HOLE][TWO_PATHS].late
    if late:
        problems.append(f"{BLACK_HOLE}, {TWO_PATHS}: {late} messages took over {LATE_AFTER_MS:g} ms")
    for phase, topic, bar_ms in GAP_BARS_MS:
        gap_ms = phases[phase][topic].longest_gap_ms
        if gap_ms >= bar_ms:
            problems.append(f"{phase}, {topic}: a gap of {gap_ms:,.0f} ms, the bar is {bar_ms:g} ms")
    return problems
