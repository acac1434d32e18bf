"""Three agents on one management broker: one leads, and another does when it dies, freezes or hands over."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from tests.kit.leaders import leader_after
from tests.kit.management_broker import ManagementBroker, management_broker
from tests.kit.waiting import eventually

from mangrove.agent.management import ManagementConnection
from mangrove.agent.serving.settings import AgentSettings
from mangrove.agent.site import AGENT_MODULE
from mangrove.config import parse_federation
from mangrove.host.ports import PortReservation
from mangrove.host.process import ManagedProcess
from mangrove.model.agents.members import agents_of
from mangrove.model.agents.names import AGENT_READY
from mangrove.model.agents.operations import HandOverAsked, OperationAnswer, PauseAsked
from mangrove.model.agents.status import AgentStatus
from mangrove.model.endpoints import lay_out
from mangrove.model.federation import Host

FILE = "federation: alone\ndomains:\n  here: {edges: 2}\n"
POWER = {"h1": 1000.0, "h2": 3000.0, "h3": 2000.0}


class Agents:
    """The agents of a domain on three hosts, whose brokers are all away."""

    def __init__(self, broker: ManagementBroker, directory: Path, ports: PortReservation) -> None:
        federation = parse_federation(FILE, "alone").require()
        hosts = tuple(
            Host(name=name, address="127.0.0.1", brokers=(each,))
            for name, each in zip(POWER, ("head", "edge1", "edge2"), strict=True)
        )
        domain = msgspec.structs.replace(federation.domains["here"], hosts=hosts)
        federation = msgspec.structs.replace(federation, domains={"here": domain})
        host, _, port = broker.url.removeprefix("nats://").rpartition(":")
        endpoints = lay_out(federation.domains["here"], lambda *_: ports.take("127.0.0.1"))
        management = msgspec.structs.replace(endpoints.management, host=host, client_port=int(port))
        self.endpoints = msgspec.structs.replace(endpoints, managements=(management,))
        self.processes: dict[str, ManagedProcess] = {}
        self.management = ManagementConnection(self.endpoints)
        for name, machine in agents_of(domain).items():
            settings = AgentSettings(
                federation=federation,
                domain="here",
                agent=name,
                endpoints=self.endpoints,
                power=POWER[machine],
            )
            path = directory / f"{name}.json"
            path.write_bytes(msgspec.json.encode(settings))
            self.processes[name] = ManagedProcess(
                name,
                [sys.executable, "-m", AGENT_MODULE, str(path)],
                log_path=directory / f"{name}.log",
                ready_text=AGENT_READY,
            )

    async def next_leader(self, after: int) -> AgentStatus:
        """Who leads in a term after this one."""
        return await leader_after(self.management, after)

    async def leads(self, agent: str, after: int = 0) -> AgentStatus:
        found: list[AgentStatus] = []

        async def leading() -> bool:
            status = await self.management.agent_status()
            if status is not None and status.leads and status.term > after:
                found.append(status)
            return bool(found) and found[-1].agent == agent

        await eventually(leading, f"{agent} should lead in a term after {after}", timeout_s=20.0)
        return found[-1]

    async def operate(self, operation: HandOverAsked | PauseAsked) -> OperationAnswer:
        answer = await self.management.operate(operation)
        assert answer is not None
        return answer

    def signal(self, agent: str, number: int) -> None:
        pid = self.processes[agent].pid
        assert pid is not None
        os.kill(pid, number)


ROUNDS = 3
FIRST, SECOND, THIRD = "here-agent", "here-h2-agent", "here-h3-agent"


@pytest.fixture
async def agents(tmp_path: Path) -> AsyncIterator[Agents]:
    async with management_broker(tmp_path) as broker:
        with PortReservation() as ports:
            found = Agents(broker, tmp_path, ports)
            try:
                await asyncio.gather(*(process.start() for process in found.processes.values()))
                yield found
            finally:
                await found.management.close()
                await asyncio.gather(*(process.kill() for process in found.processes.values()))


async def test_another_leads_when_a_leader_hands_over_freezes_or_dies(agents: Agents) -> None:
    management = agents.management

    async def some_leader() -> bool:
        status = await management.agent_status()
        return status is not None and status.leads and sum(each.live for each in status.members) == 3

    await eventually(some_leader, "somebody should lead, and know the others")
    refused = await agents.operate(HandOverAsked(to="h9"))
    assert "no agent is on 'h9'" in refused.problem
    assert not (await agents.operate(PauseAsked(paused=True, by="ann"))).problem
    assert not (await agents.operate(HandOverAsked(to="h3"))).problem
    status = await agents.leads(THIRD)
    assert status.paused is not None
    assert status.paused.by == "ann", "a pause outlives who was told"
    # The strongest of the others takes over from one that is frozen beyond its lease. It is ahead by so
    # little that the other may be faster on a busy machine: then the frozen one is handed the lead again.
    for _ in range(ROUNDS):
        agents.signal(THIRD, signal.SIGSTOP)
        later = await agents.next_leader(status.term)
        agents.signal(THIRD, signal.SIGCONT)
        await eventually(some_leader, "who woke up should be known to be alive")
        if later.agent == SECOND:
            break
        assert not (await agents.operate(HandOverAsked(to="h3"))).problem
        status = await agents.leads(THIRD, later.term)
    assert later.agent == SECOND
    refused = await agents.operate(HandOverAsked(to="h2"))
    assert not refused.problem, "who leads already stays"
    # The same when a leader dies.
    for _ in range(ROUNDS):
        await agents.processes[SECOND].kill()
        last = await agents.next_leader(later.term)
        if last.agent == THIRD:
            break
        await agents.processes[SECOND].start()
        await eventually(some_leader, "who was started again should be known to be alive")
        assert not (await agents.operate(HandOverAsked(to="h2"))).problem
        later = await agents.leads(SECOND, last.term)
    assert last.agent == THIRD
    assert {each.agent for each in last.members} == {FIRST, SECOND, THIRD}
    assert "does not answer" in (await agents.operate(HandOverAsked(to="h2"))).problem
    assert not (await agents.operate(PauseAsked(paused=False))).problem
