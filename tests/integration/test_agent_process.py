"""The agent as a process: it leads, comes back, gives way, and is missed by nobody."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator

import msgspec
import nats
import psutil
import pytest
from tests.kit import secured_runs
from tests.kit.leaders import leader_after
from tests.kit.registrations import SigningClient
from tests.kit.running import Running
from tests.kit.waiting import eventually

import mangrove
from mangrove.agent.inspection import inspect
from mangrove.agent.management import ManagementConnection
from mangrove.agent.serving.settings import AgentSettings
from mangrove.agent.site import AGENT_MODULE
from mangrove.config import parse_federation
from mangrove.host.private_file import write_private
from mangrove.host.process import ManagedProcess
from mangrove.model.agents.directory import DirectoryQuestion
from mangrove.model.agents.names import AGENT_READY, register_subject, report_subject
from mangrove.model.agents.registration import Registered
from mangrove.model.agents.status import AgentStatus
from mangrove.store.buckets import Buckets, StoreAwayError
from mangrove.store.directory import read_directory
from mangrove.testbed.local_federation import LocalFederation

SITE = """
federation: alone
domains:
  here: {edges: [{capacity: 1000}, {capacity: 1000}]}
"""


class Here:
    """The only domain, and what its agent says."""

    def __init__(self, launched: LocalFederation, management: ManagementConnection) -> None:
        self.launched = launched
        self.management = management
        self.endpoints = launched.endpoints["here"]
        self.user = Running(launched).user

    @property
    def agent(self) -> ManagedProcess:
        agent = self.launched.sites["here"].agent
        assert agent is not None
        return agent

    async def leads(self, after: int = 0) -> AgentStatus:
        """Wait for a leader in a later term than `after`."""
        return await leader_after(self.management, after)

    async def register(self, client: SigningClient, *subjects: str) -> Registered:
        """One request, as an SDK makes it."""
        connection = await nats.connect(self.endpoints.management.client_url)
        try:
            answer = await connection.request(
                register_subject("here", self.user), client.signed(client.registration(*subjects)), timeout=5
            )
        finally:
            await connection.close()
        registered = msgspec.json.decode(answer.data, type=Registered)
        if not registered.problem:
            client.share(registered.exchange_key)
        return registered

    async def has_stored(self, topic: str) -> None:
        """Wait until the store has a topic's record: it is written a moment after the directory."""
        connection = await Running(self.launched).as_agent("here")
        try:
            buckets = Buckets(connection, len(self.endpoints.managements))

            async def written() -> bool:
                with contextlib.suppress(StoreAwayError):
                    directory = await read_directory(buckets, "here")
                    return topic in [record.topic for record in directory.records]
                return False

            await eventually(written, f"{topic} should be in the store")
        finally:
            await connection.close()

    async def topics(self) -> list[str]:
        answer = await self.management.directory(DirectoryQuestion())
        return [] if answer is None else [topic.topic for topic in answer.topics if topic.record is not None]


@pytest.fixture(scope="module")
async def here(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Here]:
    federation = parse_federation(SITE, "alone").require()
    directory = tmp_path_factory.mktemp("state") / "alone"
    async with (
        LocalFederation(federation, directory, ephemeral=True) as launched,
        ManagementConnection(launched.endpoints["here"]) as management,
    ):
        yield Here(launched, management)


async def test_it_leads_from_the_start_and_watches_every_broker(here: Here) -> None:
    status = await here.leads()

    async def seen() -> bool:
        found = await here.management.agent_status()
        return found is not None and all(load.reachable and load.memory_bytes for load in found.brokers)

    await eventually(seen, "every broker should have been sampled")
    assert [load.broker for load in status.brokers] == ["here-head", "here-edge1", "here-edge2"]
    assert (await inspect(here.launched.runtime())).healthy


async def test_registrations_are_placed_and_shown_and_forged_ones_are_counted(here: Here) -> None:
    await here.leads()
    client, thief = SigningClient(), SigningClient()
    answer = await here.register(client, "plant.one", "plant.>")
    assert set(answer.assignments) == {"plant.one", "plant.>"}
    assert {each.broker for each in answer.assignments.values()} <= {"here-edge1", "here-edge2"}
    assert set(await here.topics()) >= {"plant.one", "plant.>"}
    forged = msgspec.structs.replace(thief.registration("plant.two"), client=client.client)
    connection = await nats.connect(here.endpoints.management.client_url)
    try:
        refusal = await connection.request(
            register_subject("here", here.user), thief.signed(forged), timeout=5
        )
        assert msgspec.json.decode(refusal.data, type=Registered).problem
        await connection.publish(report_subject("here", here.user), client.sealed(client.report()))
        stale = client.sealed(client.report())
        for _ in range(2):
            await connection.publish(report_subject("here", here.user), stale)
        thief.client, thief.key = client.client, b"k" * 32
        await connection.publish(report_subject("here", here.user), thief.sealed(client.report()))
        await connection.publish(report_subject("here", here.user), b"\xff")
        await connection.flush()
    finally:
        await connection.close()

    async def counted() -> bool:
        status = await here.management.agent_status()
        return status is not None and sum(status.refused.values()) >= 4

    await eventually(counted, "what was refused should be counted")
    assert "plant.two" not in await here.topics()


async def test_killed_it_comes_back_with_its_directory_while_messages_go_on(here: Here) -> None:
    before = await here.leads()
    client = SigningClient()
    await here.register(client, "kept.one")

    async def stored() -> bool:
        return "kept.one" in await here.topics()

    await eventually(stored, "the record should be in the directory")
    await here.has_stored("kept.one")
    edge = here.endpoints.edges[0].client_url
    pid = here.agent.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    async with mangrove.connect(edge) as connection:
        wanted = await connection.subscribe("kept.one")
        await wanted.ready()  # what is published may go by another broker than what is wanted
        await connection.publish("kept.one", b"without an agent")
        assert (await wanted.next(timeout=10)).data == b"without an agent"
    after = await here.leads(before.term)
    assert after.records >= 1
    assert "kept.one" in await here.topics()
    assert await here.register(client, "kept.two"), "a client registers with the new one"


async def test_it_survives_its_management_broker(here: Here) -> None:
    before = await here.leads()
    records, pid = before.records, here.agent.pid
    broker = here.launched.sites["here"].brokers["here-management"].pid
    assert broker is not None
    os.kill(broker, signal.SIGKILL)

    async def again() -> bool:
        status = await here.management.agent_status()
        return status is not None and status.leads

    await eventually(again, "the agent should lead again")
    after = await here.leads()
    assert here.agent.pid == pid, "the same process"
    assert after.records == records


async def test_of_two_agents_one_leads_and_the_other_takes_over(here: Here) -> None:
    before = await here.leads()
    run = here.launched.run
    settings = msgspec.json.decode(run.settings("here-agent").read_bytes(), type=AgentSettings)
    path = run.settings("here-second")
    another = msgspec.structs.replace(settings, agent="here-second", audit_path="")
    write_private(path, msgspec.json.encode(another))
    second = ManagedProcess(
        "here-second",
        [sys.executable, "-m", AGENT_MODULE, str(path)],
        log_path=run.log("here-second"),
        ready_text=AGENT_READY,
    )
    await second.start()
    try:
        for _ in range(3):
            assert (await here.leads()).agent == before.agent
            await asyncio.sleep(0.2)
        pid = here.agent.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        try:
            taken = await here.leads(before.term)
            assert taken.agent == "here-second"
        finally:
            os.kill(pid, signal.SIGCONT)

        async def gave_way() -> bool:
            return "does not lead any more" in here.agent.log_path.read_text()

        await eventually(gave_way, "the first should notice that its lease has ended")
        assert (await here.leads()).agent == "here-second"
    finally:
        await second.stop()
    back = await here.leads(taken.term)
    assert back.agent == before.agent, "what was given back is taken at once"


@pytest.mark.skipif(secured_runs.WANTED, reason="with keys there is no password to look for")
async def test_secrets_are_in_private_files_alone(here: Here) -> None:
    run = here.launched.run
    settings = msgspec.json.decode(run.settings("here-agent").read_bytes(), type=AgentSettings)
    assert settings.system_user is not None
    password = settings.system_user.password.encode()
    holding = [path for path in run.path.rglob("*") if path.is_file() and password in path.read_bytes()]
    assert {path.name for path in holding} >= {"here-agent.json", "here-head.conf", "here-edge1.conf"}
    assert {path.suffix for path in holding} == {".conf", ".json"}
    assert not [path for path in holding if path.stat().st_mode & 0o077]
    assert password not in msgspec.json.encode(here.launched.runtime())
    assert password.decode() not in " ".join(psutil.Process(here.agent.pid).cmdline())


async def mangrove_command(*arguments: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "mangrove.cli.main", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()


async def test_commands_tell_load_and_directory_and_that_nobody_answers(here: Here) -> None:
    await here.leads()
    await here.register(SigningClient(), "shown.one")
    where = ("--run-dir", str(here.launched.directory))
    (code, loads, _), (_, topics, _), (wrong, _, why) = await asyncio.gather(
        mangrove_command("load", "--json", *where),
        mangrove_command("directory", "shown.>", "--json", *where),
        mangrove_command("load", "--domain", "nowhere", *where),
    )
    assert code == 0
    assert json.loads(loads)["domains"]["here"]["brokers"][0]["broker"] == "here-head"
    assert [each["topic"] for each in json.loads(topics)["domains"]["here"]["topics"]] == ["shown.one"]
    assert wrong == 2
    assert "choose one of: here" in why
    await here.agent.stop()
    try:
        (code, _, why), (state, told, _) = await asyncio.gather(
            mangrove_command("load", *where), mangrove_command("status", "--json", *where)
        )
        assert code == 1
        assert "no agent answers in here" in why
        assert state == 1
        assert json.loads(told)["healthy"] is False
    finally:
        await here.agent.start()
    await here.leads()
