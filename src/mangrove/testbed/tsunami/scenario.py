"""The day of the earthquake on a running federation: its clients, its phases, and the account at the end."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec

from mangrove.agent.inspection import wait_for_interest
from mangrove.agent.management import ManagementConnection
from mangrove.agent.story import read_events
from mangrove.errors import MangroveError
from mangrove.testbed.accounting import Span
from mangrove.testbed.damage.account import progress
from mangrove.testbed.local_federation import LocalFederation
from mangrove.testbed.tsunami.account import Ledger, Stretch, TopicAccount
from mangrove.testbed.tsunami.centres import NATIONAL, Kind, centres, flows, readers
from mangrove.testbed.tsunami.phases import Phases
from mangrove.testbed.tsunami.report import Look, PhaseReport, Tell, TsunamiReport
from mangrove.testbed.tsunami.running import Running
from mangrove.testbed.tsunami.workers import Heard, Said, publish, subscribe
from mangrove.testbed.worker_process import Worker

USUAL_S = 75.0
"""How long messages flow if nothing else is asked for."""
READY_S = 60.0
SETTLE_S = 30.0
CALM_S = 1.0
SUBSCRIBER_PROCESSES = 2


class Tsunami:
    """The federation, its traffic and what befalls it. `run` does all of it."""

    def __init__(
        self,
        directory: Path,
        *,
        seed: int = 1,
        rabbitmq: bool = True,
        look: Look = lambda _moment: None,
        tell: Tell = lambda _text: None,
    ) -> None:
        self._directory = directory
        self._seed = seed
        self._rabbitmq = rabbitmq
        self._look = look
        self._tell = tell
        self._flows = list(flows())
        self._readers = list(readers())

    async def run(self, seconds: float = USUAL_S) -> TsunamiReport:
        """All phases, about `seconds` in all, and the account."""
        launched = LocalFederation(
            centres(rabbitmq=self._rabbitmq),
            self._directory,
            ephemeral=True,
            secured=True,
            seed=self._seed,
            emulate_brokers=True,
            progress=lambda text: self._tell(f"  {text}"),
        )
        async with AsyncExitStack() as stack:
            publisher, subscribers = self._start_workers(stack)
            await stack.enter_async_context(launched)
            for worker in (publisher, *subscribers):
                stack.callback(worker.end)  # again, so that clients are gone before their brokers are
            management = await stack.enter_async_context(ManagementConnection(launched.endpoints[NATIONAL]))
            await self._open_clients(launched, publisher, subscribers)
            began_at, began_ns = time.time(), time.monotonic_ns()
            await publisher.ask("start")
            run = Running(launched, management, publisher, subscribers, self._look, self._tell, self._seed)
            reports = await Phases(run, seconds / USUAL_S).all()
            said: list[Said] = await publisher.ask("stop")
            ended_ns = time.monotonic_ns()
            stretches = [
                Stretch(Span(began_ns, run.tightened_ns), tightened=False),
                Stretch(Span(run.tightened_ns, ended_ns), tightened=True),
            ]
            ledger, topics = await self._settled(run, said, stretches)
            story = tuple(event for event in read_events(launched.run.events) if event.at >= began_at)
        return TsunamiReport(
            seed=self._seed,
            rabbitmq=self._rabbitmq,
            seconds=(ended_ns - began_ns) / 1e9,
            phases=tuple(_with_shares(each, ledger, began_ns, run.tightened_ns) for each in reports),
            topics=topics,
            story=story,
            began_at=began_at,
        )

    def _start_workers(self, stack: AsyncExitStack) -> tuple[Worker, list[Worker]]:
        subscribers = []
        for process in range(SUBSCRIBER_PROCESSES):
            mine = self._readers[process::SUBSCRIBER_PROCESSES]
            subscribers.append(Worker(subscribe, self._directory, mine, self._flows))
            stack.callback(subscribers[-1].end)
        publisher = Worker(publish, self._directory, self._flows)
        stack.callback(publisher.end)
        return publisher, subscribers

    async def _open_clients(
        self, launched: LocalFederation, publisher: Worker, subscribers: list[Worker]
    ) -> None:
        """Connect everybody, and wait until it is known everywhere what is wanted where."""
        await asyncio.gather(*(each.ask("open") for each in (publisher, *subscribers)))
        wanted: dict[str, set[str]] = {}
        for reader in self._readers:
            wanted.setdefault(reader.site, set()).add(reader.topic)
        counts = {site: len(topics) for site, topics in wanted.items()}
        if not await wait_for_interest(launched.runtime(), counts, timeout_s=READY_S):
            raise MangroveError(
                "the gateways did not learn of all subscriptions in time",
                hint=f"keep the logs with --run-dir DIR and look below DIR/logs (now {self._directory})",
            )

    async def _settled(
        self, run: Running, said: list[Said], stretches: list[Stretch]
    ) -> tuple[Ledger, tuple[TopicAccount, ...]]:
        """The account once it adds up, or once nothing comes any more."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + SETTLE_S
        arrived, calm = -1, False
        while True:
            count = progress(
                await asyncio.gather(*(each.ask("progress") for each in run.subscribers))
            ).total()
            calm, arrived = count == arrived, count
            if calm or loop.time() > deadline:
                parts: list[list[Heard]] = await asyncio.gather(
                    *(each.ask("heard") for each in run.subscribers)
                )
                heard = _in_order(parts, len(self._readers))
                ledger = Ledger(self._flows, self._readers, said, heard)
                topics = ledger.accounts(stretches, await run.drops())
                if all(each.lost == 0 for each in topics) or loop.time() > deadline:
                    return ledger, topics
            await asyncio.sleep(CALM_S)


def _in_order(parts: list[list[Heard]], readers: int) -> list[Heard]:
    """What the processes heard, in the order of the readers that were dealt out to them in turn."""
    return [parts[place % len(parts)][place // len(parts)] for place in range(readers)]


def _with_shares(phase: PhaseReport, ledger: Ledger, began_ns: int, tightened_ns: int) -> PhaseReport:
    start_ns = began_ns + int(phase.start_s * 1e9)
    end_ns = start_ns + int(phase.seconds * 1e9)
    shares = {
        kind: ledger.share(kind, Stretch(Span(start_ns, end_ns), tightened=start_ns >= tightened_ns))
        for kind in Kind
    }
    return msgspec.structs.replace(phase, shares=shares)
