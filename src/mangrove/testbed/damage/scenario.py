"""Runs damage on real brokers: load, edges that carry less for a while, and the account of all of it."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from itertools import pairwise
from pathlib import Path

import msgspec

from mangrove.agent.management import ManagementConnection
from mangrove.control.events.kinds import KINDS
from mangrove.model.agents.names import agent_process
from mangrove.model.agents.status import AgentStatus
from mangrove.model.agents.usefulness import LimitStatus
from mangrove.model.congestion.parameters import Mode
from mangrove.model.events.event_log import read_event
from mangrove.testbed.damage.account import DamageAccount, Heard, Spoken, account_of, progress
from mangrove.testbed.damage.lowering import lower
from mangrove.testbed.damage.watch import Watch
from mangrove.testbed.damage.workers import publish, subscribe
from mangrove.testbed.damage.workload import HOME, DamagePlan, federation_of
from mangrove.testbed.local_federation import LocalFederation
from mangrove.testbed.worker_process import Worker

LOOK_S = 0.1
COUNT_S = 0.5
REST_S = 10.0
RECOVERY_S = 20.0
SETTLE_S = 60.0
CALM_S = 1.5
SUBSCRIBER_PROCESSES = 2


class Told(msgspec.Struct, frozen=True):
    """An event of the agent."""

    at_s: float
    """Since the cut."""
    kind: str
    sentence: str


class DamageReport(msgspec.Struct, frozen=True, kw_only=True):
    """What one run came to."""

    seed: int
    mode: Mode
    damage: float
    """What was left of the damaged edges' bandwidth."""
    damaged: tuple[str, ...]
    before: DamageAccount
    during: DamageAccount
    after: DamageAccount
    peak_utilisation: float
    """Of all brokers while damaged, as the agent measured it."""
    below_after_s: float | None
    """From the cut until all brokers are measured below the threshold, and for three seconds on."""
    overloaded_again_s: float
    """How long any was measured above it after that."""
    limited_after_s: float | None
    """From the cut to the first limit in force."""
    most_limits: int
    lifted_after_s: float | None
    """From the return of capacity until no limit is left for good; None if some are, 0 if none was."""
    congested: bool
    """Whether the agent declared congestion."""
    moves: tuple[str, ...]
    """Topics that balancing moved while damaged, with where they went."""
    cut_off: int
    """Subscribers' connections that brokers ended as too slow."""
    limits: tuple[LimitStatus, ...] = ()
    """The limits that were in force just before capacity returned."""
    states: tuple[str, ...] = ()
    """States of congestion control, in the order in which they were seen."""
    story: tuple[Told, ...] = ()
    """What the agent tells of it, from the cut on."""


class Moment(msgspec.Struct, frozen=True):
    """What is known of a run while it runs."""

    phase: str
    elapsed_s: float
    status: AgentStatus | None
    counts: Counter[str]
    """Offered by class, withheld, delivered, and in time, since the run began."""


Look = Callable[[Moment], None]


class Damage:
    """A federation whose edges lose capacity for a while. `run` does all of it."""

    def __init__(
        self,
        plan: DamagePlan,
        directory: Path,
        *,
        mode: Mode = Mode.CONGESTED,
        damage: float = 0.3,
        damaged: int | None = None,
        look: Look = lambda _moment: None,
    ) -> None:
        """`damage`: the part of its bandwidth that is left to each of the first `damaged` edges (all)."""
        self._plan = plan
        self._directory = directory
        self._mode = mode
        self._damage = damage
        self._damaged = plan.edges if damaged is None else damaged
        self._look = look
        self._watch = Watch()
        self._counts: Counter[str] = Counter()
        self._counted_at = 0.0
        self._started_at = 0.0
        self._cut_wall_s = 0.0

    async def run(
        self, damaged_s: float, *, rest_s: float = REST_S, recovery_s: float = RECOVERY_S
    ) -> DamageReport:
        """Rest, damage, recovery, and the account of each."""
        federation = federation_of(self._plan, self._mode)
        async with AsyncExitStack() as stack:
            launched = await stack.enter_async_context(
                LocalFederation(
                    federation, self._directory, ephemeral=True, seed=self._plan.seed, emulate_brokers=True
                )
            )
            management = await stack.enter_async_context(ManagementConnection(launched.endpoints[HOME]))
            readers, publisher = self._start_workers(stack)
            await asyncio.gather(publisher.ask("open"), *(reader.ask("open") for reader in readers))
            self._started_at = asyncio.get_running_loop().time()
            await publisher.ask("start")
            workers = [publisher, *readers]
            names = tuple(edge.name for edge in launched.endpoints[HOME].edges[: self._damaged])
            marks = [time.monotonic_ns()]
            await self._phase(management, workers, "before", rest_s)
            marks.append(time.monotonic_ns())
            self._cut_wall_s = time.time()
            self._watch.cut_at = asyncio.get_running_loop().time()
            await lower(launched, management, names, self._plan.bandwidth_mbps, self._damage)
            await self._phase(management, workers, "damaged", damaged_s)
            marks.append(time.monotonic_ns())
            self._watch.restored_at = asyncio.get_running_loop().time()
            await lower(launched, management, names, self._plan.bandwidth_mbps, 1.0)
            await self._phase(management, workers, "after", recovery_s)
            marks.append(time.monotonic_ns())
            spoken: Spoken = await publisher.ask("stop")
            await self._settle(readers)
            parts: list[list[Heard]] = await asyncio.gather(*(reader.ask("heard") for reader in readers))
            heard = [each for part in parts for each in part]
            cut_off, story = self._cut_off(launched), self._story(launched)
            return self._report(names, marks, spoken, heard, cut_off, story)

    def _start_workers(self, stack: AsyncExitStack) -> tuple[list[Worker], Worker]:
        plan = self._plan
        everybody = [number for number, topic in enumerate(plan.topics) for _ in range(topic.subscribers)]
        workers = []
        for process in range(SUBSCRIBER_PROCESSES):
            workers.append(Worker(subscribe, self._directory, plan, everybody[process::SUBSCRIBER_PROCESSES]))
            stack.callback(workers[-1].end)
        publisher = Worker(publish, self._directory, plan)
        stack.callback(publisher.end)
        return workers, publisher

    async def _phase(
        self, management: ManagementConnection, workers: list[Worker], phase: str, seconds: float
    ) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while loop.time() < end:
            await asyncio.sleep(min(LOOK_S, max(0.0, end - loop.time())))
            status = await management.agent_status()
            now = loop.time()
            if status is not None:
                self._watch.take(status, now)
            if now - self._counted_at >= COUNT_S:
                self._counted_at = now
                self._counts = progress(await asyncio.gather(*(each.ask("progress") for each in workers)))
            self._look(Moment(phase, now - self._started_at, status, self._counts))

    async def _settle(self, readers: list[Worker]) -> None:
        """Wait until nothing arrives any more: what has not come by then is lost."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + SETTLE_S
        arrived = -1
        while loop.time() < deadline:
            counts = progress(await asyncio.gather(*(reader.ask("progress") for reader in readers)))
            if counts.total() == arrived:
                return
            arrived = counts.total()
            await asyncio.sleep(CALM_S)

    def _cut_off(self, launched: LocalFederation) -> int:
        """What the edges' logs say of subscribers that were too slow."""
        edges = launched.endpoints[HOME].edges
        logs = [launched.run.log(edge.name) for edge in edges]
        return sum(log.read_text(errors="replace").count("Slow Consumer Detected") for log in logs)

    def _story(self, launched: LocalFederation) -> tuple[Told, ...]:
        """The agent's events since the cut."""
        path = launched.run.events_of(agent_process(HOME))
        lines = path.read_bytes().split(b"\n") if path.exists() else []
        events = [event for line in lines if (event := read_event(line, KINDS)) is not None]
        return tuple(
            Told(event.at - self._cut_wall_s, event.kind, event.happening.sentence())
            for event in events
            if event.at >= self._cut_wall_s
        )

    def _report(
        self,
        names: tuple[str, ...],
        marks: list[int],
        spoken: Spoken,
        heard: list[Heard],
        cut_off: int,
        story: tuple[Told, ...],
    ) -> DamageReport:
        watch, plan = self._watch, self._plan
        before, during, after = (
            account_of(plan, spoken, heard, start, end) for start, end in pairwise(marks)
        )
        assert watch.cut_at is not None, "every run has its cut"
        assert watch.restored_at is not None, "and its end"
        return DamageReport(
            seed=plan.seed,
            mode=self._mode,
            damage=self._damage,
            damaged=names,
            before=before,
            during=during,
            after=after,
            peak_utilisation=watch.peak,
            overloaded_again_s=watch.overloaded_again_s,
            below_after_s=_since(watch.cut_at, watch.below_at),
            limited_after_s=_since(watch.cut_at, watch.limited_at),
            most_limits=watch.most_limits,
            lifted_after_s=_since(watch.restored_at, watch.lifted_at) if watch.most_limits else 0.0,
            congested=watch.congested,
            moves=tuple(f"{topic} → {to}" for topic, to in sorted(watch.moves.items())),
            cut_off=cut_off,
            limits=watch.limits,
            states=tuple(watch.states),
            story=story,
        )


def _since(start: float, end: float | None) -> float | None:
    return None if end is None else end - start
