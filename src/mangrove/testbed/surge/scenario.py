"""Runs a surge on real brokers: rest, bursts, what the agents do about it, and the account at the end."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec

from mangrove.agent.launcher import Launcher
from mangrove.agent.management import ManagementConnection
from mangrove.model.agents.load import LoadState
from mangrove.model.agents.status import AgentStatus
from mangrove.testbed.local_federation import LocalFederation
from mangrove.testbed.surge.account import SubscriberAccount, SurgeAccount, summed_up
from mangrove.testbed.surge.edges import busiest_edge, serving
from mangrove.testbed.surge.workers import Reader, publish, subscribe
from mangrove.testbed.surge.workload import HOME, SurgePlan, burst_on, federation_of
from mangrove.testbed.worker_process import Worker

LOOK_S = 0.1
QUICK_LOOK_S = 0.02
"""Clients move within some hundredths of a second: who wants to kill the agent meanwhile looks that often."""
REST_S = 6.0
SETTLE_S = 10.0
SUBSCRIBER_PROCESSES = 2
CALM_S = 2.0
MID_SESSION = ("preparing", "migrating", "settling")


class Burst(msgspec.Struct, frozen=True, kw_only=True):
    """One burst: which edge was to be overloaded, and how long it took to be seen and to be over."""

    edge: str
    topics: int
    detected_s: float | None
    """From the burst to the first state OVERLOAD; None if it was never seen."""
    relieved_s: float | None
    """From the burst until the edge is measured below the threshold for good; None if it never was."""
    peak_utilisation: float
    moves: tuple[str, ...]
    """Topics moved, with where they went."""
    held_ms: float = 0.0
    """How much later than without its move the most delayed message was handed over, as clients tell."""


class SurgeReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a surge came to."""

    seed: int
    method: str
    rate_msg_s: float
    capacity_msg_s: float
    bursts: tuple[Burst, ...]
    account: SurgeAccount
    agent_killed_in: tuple[str, ...]
    """The states of the sessions in the middle of which the agent was killed."""


Look = Callable[[AgentStatus | None, str], None]
"""Called with the agent's status, several times a second, and the name of the phase."""


class Surge:
    """A federation under a surge. `run` does all of it."""

    def __init__(
        self,
        plan: SurgePlan,
        directory: Path,
        *,
        method: str = "drd",
        bursts: int = 2,
        kill_agent: bool = False,
        look: Look = lambda _status, _phase: None,
    ) -> None:
        """With `kill_agent` the agent is killed in the middle of a session, once in every burst."""
        self._plan = plan
        self._directory = directory
        self._method = method
        self._bursts = bursts
        self._kill_agent = kill_agent
        self._look = look
        self._killed_in: list[str] = []

    async def run(self, burst_s: float = 15.0) -> SurgeReport:
        """Rest, bursts of `burst_s` each with rest between them, and the account."""
        federation = federation_of(self._plan, self._method)
        async with AsyncExitStack() as stack:
            launched = await stack.enter_async_context(
                LocalFederation(federation, self._directory, ephemeral=True, seed=self._plan.seed)
            )
            management = ManagementConnection(launched.endpoints[HOME])
            stack.push_async_callback(management.close)
            readers, publisher = self._start_workers(stack)
            await asyncio.gather(publisher.ask("open"), *(reader.ask("open") for reader in readers))
            await publisher.ask("start")
            await self._rest(management, "rest")
            bursts = [
                await self._burst(number, launched, management, publisher, burst_s)
                for number in range(self._bursts)
            ]
            sent: dict[str, int] = await publisher.ask("stop")
            return SurgeReport(
                seed=self._plan.seed,
                method=self._method,
                rate_msg_s=self._plan.rate_msg_s,
                capacity_msg_s=self._plan.capacity_msg_s,
                bursts=tuple(bursts),
                account=summed_up(sent, await self._settled(readers, sent)),
                agent_killed_in=tuple(self._killed_in),
            )

    def _start_workers(self, stack: AsyncExitStack) -> tuple[list[Worker], Worker]:
        plan = self._plan
        everybody = [
            Reader(number, topic)
            for number, topic in enumerate(plan.topics)
            for _ in range(plan.subscribers_of(number))
        ]
        workers = []
        for process in range(SUBSCRIBER_PROCESSES):
            mine = everybody[process::SUBSCRIBER_PROCESSES]
            workers.append(Worker(subscribe, self._directory, HOME, mine))
            stack.callback(workers[-1].end)
        publisher = Worker(publish, self._directory, HOME, list(plan.topics), plan.payload_bytes)
        stack.callback(publisher.end)
        return workers, publisher

    async def _rest(self, management: ManagementConnection, phase: str) -> AgentStatus | None:
        loop = asyncio.get_running_loop()
        end = loop.time() + REST_S
        status = None
        while loop.time() < end:
            await asyncio.sleep(LOOK_S)
            status = await management.agent_status()
            self._look(status, phase)
        return status

    async def _burst(
        self,
        number: int,
        launched: Launcher,
        management: ManagementConnection,
        publisher: Worker,
        seconds: float,
    ) -> Burst:
        serves = await serving(management)
        edge, earlier = await busiest_edge(management)
        plan = self._plan
        factors = burst_on(plan.rates, serves, edge, plan.capacity_msg_s, seed=plan.seed)
        await publisher.ask("burst", factors)
        loop = asyncio.get_running_loop()
        start = loop.time()
        detected = relieved = None
        peak, killed = 0.0, False
        moves: dict[str, str] = {}
        held_ms = 0.0
        while loop.time() - start < seconds:
            await asyncio.sleep(QUICK_LOOK_S if self._kill_agent and not killed else LOOK_S)
            status = await management.agent_status()
            self._look(status, f"burst {number + 1}")
            if status is None:
                continue
            load = next((each for each in status.brokers if each.broker == edge), None)
            if load is None:
                continue
            peak = max(peak, max(load.utilisation.values(), default=0.0))
            if load.measured is LoadState.OVERLOAD:
                relieved = None
                detected = loop.time() - start if detected is None else detected
            elif detected is not None and relieved is None:
                relieved = loop.time() - start
            for session in status.sessions:
                if session.id in earlier:
                    continue
                for move in session.moves:
                    moves[move.topic] = move.to
                    held_ms = max(held_ms, move.held_ms)
                if self._kill_agent and not killed and session.state in MID_SESSION:
                    killed = self._kill(launched, session.state)
        await publisher.ask("burst", {})
        await self._rest(management, f"after burst {number + 1}")
        return Burst(
            edge=edge,
            topics=len(factors),
            detected_s=detected,
            relieved_s=relieved,
            peak_utilisation=peak,
            moves=tuple(f"{topic} → {to}" for topic, to in sorted(moves.items())),
            held_ms=held_ms,
        )

    def _kill(self, launched: Launcher, state: str) -> bool:
        agent = launched.sites[HOME].agent
        if agent is None or agent.pid is None:
            return False
        os.kill(agent.pid, signal.SIGKILL)
        self._killed_in.append(state)
        return True

    async def _settled(self, readers: list[Worker], sent: dict[str, int]) -> list[SubscriberAccount]:
        """The subscribers' accounts once everything has arrived, or nothing comes any more."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + SETTLE_S
        while True:
            parts = await asyncio.gather(*(reader.ask("account", sent) for reader in readers))
            accounts = [each for part in parts for each in part]
            if not any(each.lost for each in accounts) or loop.time() > deadline:
                await asyncio.sleep(CALM_S)  # time for a second copy to show up
                parts = await asyncio.gather(*(reader.ask("account", sent) for reader in readers))
                return [each for part in parts for each in part]
            await asyncio.sleep(0.2)
