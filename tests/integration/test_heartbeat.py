"""A nats-server's pulse: it answers, its end is noticed at once, and its return as well."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.kit.waiting import eventually

from mangrove.broker.nats.server import nats_server
from mangrove.broker.nats.watching.heartbeat import NatsHeartbeat
from mangrove.host.keys.login import by_password
from mangrove.host.ports import PortReservation
from mangrove.host.process import ManagedProcess
from mangrove.host.run_directory import RunDirectory
from mangrove.model.agents.credentials import Credentials
from mangrove.model.endpoints import BrokerEndpoints


class Server:
    """One server that only `agent` may enter, and its heartbeat."""

    def __init__(self, process: ManagedProcess, port: int) -> None:
        self.process = process
        self.endpoints = BrokerEndpoints(name="broker", host="127.0.0.1", client_port=port)
        self.refused = 0
        self.heartbeat = self.watched_by(Credentials(user="agent", password="secret"))

    def watched_by(self, credentials: Credentials | None) -> NatsHeartbeat:
        def refused() -> None:
            self.refused += 1

        login = None if credentials is None else by_password(credentials.user, credentials.password)
        return NatsHeartbeat(self.endpoints, login, refused)

    async def answers(self, heartbeat: NatsHeartbeat) -> bool:
        beat = heartbeat.beat()
        await asyncio.sleep(0.05)
        return heartbeat.answered(beat)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    with PortReservation() as ports:
        port = ports.take("127.0.0.1")
        config = (
            f'server_name: broker\nlisten: "127.0.0.1:{port}"\n'
            f'log_file: "{RunDirectory(tmp_path).log("broker")}"\n'
            "authorization { user: agent, password: secret }\n"
        )
        process = nats_server("broker", config, tmp_path)
        await process.start()
    made = Server(process, port)
    try:
        yield made
    finally:
        await made.heartbeat.close()
        await process.stop()


async def test_it_answers_ends_and_returns(server: Server) -> None:
    heartbeat = server.heartbeat
    await eventually(lambda: server.answers(heartbeat), "the server should answer")
    assert server.refused == 0
    await server.process.kill()

    async def noticed() -> bool:
        return server.refused > 0

    await eventually(noticed, "its end should be noticed without asking")
    assert not await server.answers(heartbeat)
    await server.process.start()
    await eventually(lambda: server.answers(heartbeat), "it should answer again")


async def test_a_server_that_does_not_let_us_in_is_not_taken_for_dead(server: Server) -> None:
    stranger = server.watched_by(None)

    async def sent_away() -> bool:
        stranger.beat()
        await asyncio.sleep(0.02)
        return bool(stranger.silenced)

    try:
        await eventually(sent_away, "it should be known that it cannot be asked")
        assert server.refused == 0
    finally:
        await stranger.close()
