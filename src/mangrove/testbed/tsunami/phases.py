"""What befalls the centres, phase by phase, and how it is seen that the federation did what it should."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping

from mangrove.agent.avoidance import settle, tell
from mangrove.agent.inspection import gateway_status
from mangrove.agent.versioning import put_in_force, standing, time_of_day
from mangrove.config.contract_text import checked_contracts
from mangrove.host.process import ProcessFailedError
from mangrove.host.versions.writing import written
from mangrove.model.agents.load import LoadState
from mangrove.model.agents.status import AgentStatus
from mangrove.model.agents.usefulness import LimitStatus
from mangrove.model.congestion.rate_limit import LimitCause
from mangrove.model.questions.endangered import AvoidRequest
from mangrove.model.versions.succession import difference, successor
from mangrove.testbed.damage.lowering import lower
from mangrove.testbed.surge.edges import serving
from mangrove.testbed.surge.workload import burst_on
from mangrove.testbed.tsunami.centres import (
    BANDWIDTH_MBPS,
    CAPACITY_MSG_S,
    EPICENTRE,
    NATIONAL,
    RADIUS_KM,
    REGION,
    RELAY,
    TIGHTENED,
    flows,
)
from mangrove.testbed.tsunami.report import PhaseReport
from mangrove.testbed.tsunami.running import Running

LOOK_S = 0.25
PATIENCE_S = 30.0
"""So much longer than planned a phase lasts at most until what is expected of it has come."""
CHANGE_S = 60.0
DAMAGE = 0.17
"""What is left of the edges' bandwidth."""
SURGE_FACTOR = 4.0
SURGE_TO = 1.1
SHOWN = 3
STARTS = 3


class Phases:
    """All of them, in their order; `scale` stretches the time that each is given."""

    def __init__(self, run: Running, scale: float) -> None:
        self._run = run
        self._scale = scale
        self._reports: list[PhaseReport] = []

    async def all(self) -> list[PhaseReport]:
        """Everything that happens."""
        await self._normal()
        await self._surge()
        await self._endangered()
        await self._site_dies()
        await self._tightened()
        await self._site_returns()
        await self._damaged()
        await self._recovery()
        return self._reports

    async def _phase(
        self,
        name: str,
        expectation: str,
        seconds: float,
        *,
        seen: Callable[[AgentStatus | None], bool] = lambda _status: True,
        details: Callable[[], Iterable[str]] = tuple,
        since_s: float | None = None,
    ) -> None:
        """Let messages flow until the time is over and the expectation was seen, or patience is at an end."""
        run = self._run
        start_s = run.elapsed_s if since_s is None else since_s
        planned_s = start_s + seconds * self._scale
        held = False
        while run.elapsed_s < planned_s or (not held and run.elapsed_s < planned_s + PATIENCE_S):
            await asyncio.sleep(LOOK_S)
            held = seen(await run.look(name)) or held
        told = tuple(details())
        for line in told:
            run.tell(f"     {line}")
        self._reports.append(
            PhaseReport(
                name=name,
                expectation=expectation,
                held=held,
                details=told,
                start_s=start_s,
                seconds=run.elapsed_s - start_s,
            )
        )

    def _announce(self, name: str, text: str) -> float:
        self._run.tell(f"{len(self._reports) + 1}. {name}: {text}")
        return self._run.elapsed_s

    # -- 1, 2: a day like others, and more of it -----------------------------------------------------------

    async def _normal(self) -> None:
        self._announce("a quiet day", "readings, simulations, alerts and posts cross the centres")
        await self._phase("a quiet day", "everything arrives", 7.0)

    async def _surge(self) -> None:
        run = self._run
        start_s = self._announce("surge", "the sea moves: gauges report four times as often")
        before = await run.look("surge")
        earlier = frozenset(() if before is None else (session.id for session in before.sessions))
        rates: dict[str, float] = {}
        for flow in flows():
            rates[flow.topic] = rates.get(flow.topic, 0.0) + flow.rate_msg_s
        serves = await serving(run.management)
        gauges = {edge: _gauges(rates, serves.get(edge, ())) for edge in self._edges}
        edge = max(gauges, key=lambda each: sum(gauges[each].values()))
        tide, load = gauges[edge], sum(rates.get(topic, 0.0) for topic in serves.get(edge, ()))
        # What the edge serves besides counts, too: the gauges' part of its capacity is what is left.
        room = CAPACITY_MSG_S - (load - sum(tide.values())) / SURGE_TO
        factors = burst_on(
            tide, serves, edge, room, seed=run.seed, to_utilisation=SURGE_TO, factor=SURGE_FACTOR
        )
        await run.publisher.ask("burst", factors)
        moves: dict[str, str] = {}
        overloaded = relieved = False

        def seen(status: AgentStatus | None) -> bool:
            nonlocal overloaded, relieved
            if status is None:
                return False
            load = next((each for each in status.brokers if each.broker == edge), None)
            overloaded = overloaded or (load is not None and load.measured is LoadState.OVERLOAD)
            for session in status.sessions:
                if session.id not in earlier:
                    moves.update({move.topic: move.to for move in session.moves if move.confirmed})
            relieved = load is not None and load.measured is not LoadState.OVERLOAD
            return overloaded and bool(moves) and relieved

        def details() -> Iterable[str]:
            if overloaded:
                yield f"{edge} was overloaded"
            for to in sorted(set(moves.values())):
                moved = sorted(topic for topic, where in moves.items() if where == to)
                yield f"moved to {to}: {', '.join(moved)}"

        await self._phase(
            "surge", "the agent relieves the edge", 14.0, seen=seen, details=details, since_s=start_s
        )
        await run.publisher.ask("burst", {})

    # -- 3: the region of the earthquake ---------------------------------------------------------------------

    async def _endangered(self) -> None:
        run = self._run
        start_s = self._announce("earthquake", f"{RADIUS_KM:g} km around the relay's island are endangered")
        request = AvoidRequest(name=REGION, centre=EPICENTRE, radius_km=RADIUS_KM, for_s=3600.0)
        runtime = run.launched.runtime()
        await tell(runtime, request)
        found = await settle(runtime, REGION, endangered=True, timeout_s=PATIENCE_S)
        exposed = [path for site, path in found.exposed if site != RELAY]
        held = found.settled and not any(not path.reason for path in exposed)
        told = sorted({f"{path.topic} stays: {path.reason}" for path in exposed})
        if held and not told:
            told = ["every topic goes round the region now"]
        await self._phase(
            "earthquake",
            "topics leave the region before it fails",
            3.0,
            seen=lambda _status: held,
            details=lambda: told,
            since_s=start_s,
        )

    async def _site_dies(self) -> None:
        start_s = self._announce("the relay dies", "every process there is killed at once")
        await self._run.launched.sites[RELAY].kill()
        await self._phase("the relay dies", "nobody misses it", 5.0, since_s=start_s)

    async def _tightened(self) -> None:
        run = self._run
        start_s = self._announce("contracts", "alerts must be there sooner, posts get a rate")
        runtime = run.launched.runtime()
        now = await standing(runtime)
        contracts = now.document.topics.contracts
        for wanted in TIGHTENED:
            contracts = checked_contracts(runtime.federation, contracts, dict(wanted))
        after = successor(now.document, contracts, by="tsunami", at=time_of_day(), note="earthquake")
        changes = difference(now.document, after).sentences()
        signed = written(after, runtime.keys)
        found = await put_in_force(
            runtime, now.domain, signed, progress=lambda _change, _now: None, timeout_s=CHANGE_S
        )
        run.tightened_ns = time.monotonic_ns()
        there = [name for name, version in sorted(found.versions.items()) if version >= after.version]
        await self._phase(
            "contracts",
            "agreed on while messages flow, without the relay",
            4.0,
            seen=lambda _status: len(there) == len(found.versions) - len(found.away),
            details=lambda: [*changes, f"version {after.version} is in force in {', '.join(there)}"],
            since_s=start_s,
        )

    async def _site_returns(self) -> None:
        run = self._run
        start_s = self._announce("the relay returns", "the region is safe again")
        await self._start_relay()
        runtime = run.launched.runtime()
        await tell(runtime, AvoidRequest(name=REGION))
        deadline = run.elapsed_s + PATIENCE_S
        caught_up = False
        while not caught_up and run.elapsed_s < deadline:
            status = await gateway_status(run.launched.endpoints[RELAY])
            caught_up = status is not None and status.version > 1 and all(link.up for link in status.links)
            await run.look("the relay returns")
            await asyncio.sleep(LOOK_S)
        await settle(runtime, REGION, endangered=False, timeout_s=PATIENCE_S)
        await self._phase(
            "the relay returns",
            "it catches up with the new contracts, and is used again",
            5.0,
            seen=lambda _status: caught_up,
            details=lambda: ["it has the new contracts"] if caught_up else [],
            since_s=start_s,
        )

    async def _start_relay(self) -> None:
        """As whoever runs it would: on a machine that is too busy once more."""
        for _ in range(STARTS - 1):
            try:
                await self._run.launched.sites[RELAY].start()
            except ProcessFailedError as error:
                self._run.tell(f"     {error.name} was not ready in time; once more")
            else:
                return
        await self._run.launched.sites[RELAY].start()

    # -- 4, 5: the wave, and what is left after it -----------------------------------------------------------

    async def _damaged(self) -> None:
        run, watch = self._run, self._run.watch
        start_s = self._announce("the wave", f"all edges of {NATIONAL} keep {DAMAGE:.0%} of their lines")
        watch.cut_at = asyncio.get_running_loop().time()
        await lower(run.launched, run.management, self._edges, BANDWIDTH_MBPS, DAMAGE)

        most: dict[tuple[str, str], LimitStatus] = {}

        def seen(status: AgentStatus | None) -> bool:
            for limit in () if status is None else _for_congestion(status):
                most.setdefault((limit.topic, limit.publisher), limit)
            return bool(most) and watch.below_at is not None

        def details() -> Iterable[str]:
            first = sorted(most.values(), key=lambda limit: (limit.utility or 0.0, limit.topic))
            for limit in first[:SHOWN]:
                judged = "nobody judges" if limit.utility is None else f"utility {limit.utility:.2f}"
                yield f"limited: {limit.topic}, {limit.offered_msg_s:.0f} msg/s offered, {judged}"
            if len(first) > SHOWN:
                yield f"and {len(first) - SHOWN} more limits; none of them on an alert"

        await self._phase(
            "the wave",
            "the least useful are limited, alerts never",
            18.0,
            seen=seen,
            details=details,
            since_s=start_s,
        )

    async def _recovery(self) -> None:
        run = self._run
        start_s = self._announce("recovery", "the lines are as they were")
        run.watch.restored_at = asyncio.get_running_loop().time()
        await lower(run.launched, run.management, self._edges, BANDWIDTH_MBPS, 1.0)

        lifted_s: float | None = None

        def seen(status: AgentStatus | None) -> bool:
            nonlocal lifted_s
            over = status is not None and status.congestion.state == "clear" and not _for_congestion(status)
            lifted_s = (lifted_s or run.elapsed_s - start_s) if over else None
            return over

        def details() -> Iterable[str]:
            if lifted_s is not None:
                yield f"the last of these limits was lifted after {lifted_s:.1f} s"

        await self._phase(
            "recovery",
            "no limit of congestion control is left",
            12.0,
            seen=seen,
            details=details,
            since_s=start_s,
        )

    @property
    def _edges(self) -> list[str]:
        return [edge.name for edge in self._run.launched.endpoints[NATIONAL].edges]


def _gauges(rates: Mapping[str, float], topics: Iterable[str]) -> dict[str, float]:
    """Of these topics the gauges', with their rates."""
    return {topic: rates[topic] for topic in topics if topic.startswith("sensor.tide")}


def _for_congestion(status: AgentStatus) -> list[LimitStatus]:
    """Limits for want of capacity; those that a contract asks for stay."""
    return [each for each in status.congestion.limits if each.limit.cause is LimitCause.CONGESTION]
