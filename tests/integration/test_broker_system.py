"""What an agent asks of the brokers of its domain, with real ones."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import nats
import nats.errors
import pytest
from tests.kit.waiting import eventually

import mangrove
from mangrove.broker.kinds import kind_of
from mangrove.broker.system import BrokerAwayError, BrokerSystem
from mangrove.config import parse_federation
from mangrove.host.keys.login import by_password
from mangrove.host.ports import PortReservation
from mangrove.host.process import ManagedProcess
from mangrove.model.agents.credentials import Credentials
from mangrove.model.endpoints import BrokerEndpoints, DomainEndpoints, lay_out
from mangrove.model.shared_names import SDK_NAME

CREDENTIALS = Credentials(user="mangrove-agent", password="not to be seen")
SITE = "federation: one\ndomains:\n  here: {edges: 1}\n"


class Brokers:
    """A head and an edge, watched by an agent's user."""

    def __init__(self, endpoints: DomainEndpoints, directory: Path) -> None:
        self.endpoints = endpoints
        self.directory = directory
        kind = kind_of(endpoints.head.kind)
        options = {"max_message_bytes": 1 << 20, "site": "here", "system_user": CREDENTIALS}
        self.head: ManagedProcess = kind.server(endpoints.head, directory, **options)  # type: ignore[arg-type]
        self.edge: ManagedProcess = kind.server(
            endpoints.edges[0],
            directory,
            attach_to=[endpoints.head.leaf_url],
            **options,  # type: ignore[arg-type]
        )

    def system(self, broker: BrokerEndpoints, credentials: Credentials | None = CREDENTIALS) -> BrokerSystem:
        login = None if credentials is None else by_password(credentials.user, credentials.password)
        return kind_of(broker.kind).system(broker, login)


@pytest.fixture(scope="module")
async def brokers(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Brokers]:
    federation = parse_federation(SITE, "one").require()
    with PortReservation() as ports:
        endpoints = lay_out(federation.domains["here"], lambda _: ports.take("127.0.0.1"))
        found = Brokers(endpoints, tmp_path_factory.mktemp("brokers"))
        await found.head.start()
        await found.edge.start()
        try:
            yield found
        finally:
            await found.edge.stop()
            await found.head.stop()


async def test_counters_grow_with_what_passes_and_clients_need_no_name(brokers: Brokers) -> None:
    edge = brokers.endpoints.edges[0]
    system = brokers.system(edge)
    try:
        asked = time.monotonic()
        before = await system.sample()
        async with mangrove.connect(edge.client_url) as client:
            wanted = await client.subscribe("counted.>")
            for _ in range(50):
                await client.publish("counted.one", b"x" * 1000)
            for _ in range(50):
                await wanted.next(timeout=10)
            after = await system.sample(pending=True, delay=True)
        assert after.broker == edge.name
        assert after.started == before.started
        assert after.messages_in - before.messages_in >= 50
        assert after.messages_out - before.messages_out >= 50
        assert after.bytes_in - before.bytes_in >= 50_000
        assert after.bytes_out - before.bytes_out >= 50_000
        assert after.connections > before.connections
        assert after.memory_bytes > 0
        assert after.processing_ms is not None
        assert before.processing_ms is None
        assert before.taken_at is not None
        assert after.taken_at is not None
        assert asked <= before.taken_at < after.taken_at <= time.monotonic()
    finally:
        await system.close()


async def test_a_page_of_the_monitor_tells_the_same_and_a_port_that_it_is_there(brokers: Brokers) -> None:
    head = brokers.endpoints.head
    system, page = brokers.system(head), brokers.system(head, None)
    blind = brokers.system(BrokerEndpoints(name="x", host=head.host, client_port=head.client_port), None)
    try:
        by_page = await page.sample()
        by_account = await system.sample()
        assert by_page.started[:19] == by_account.started[:19]
        assert by_account.memory_bytes > 0 < by_page.memory_bytes
        assert by_account.messages_in >= by_page.messages_in
        assert (await blind.sample()).messages_in == 0
        with pytest.raises(BrokerAwayError, match="somebody else"):
            await page.kick(1)
    finally:
        await system.close()


async def test_plain_clients_are_seen_and_sent_away_and_no_others(brokers: Brokers) -> None:
    edge = brokers.endpoints.edges[0]
    system = brokers.system(edge)
    ended = asyncio.Event()

    async def disconnected() -> None:
        ended.set()

    plain = await nats.connect(
        edge.client_url, name="plain", allow_reconnect=False, disconnected_cb=disconnected
    )
    managed = await nats.connect(edge.client_url, name=f"{SDK_NAME}-1")
    try:
        got = await plain.subscribe("seen.>")
        await managed.subscribe("seen.too")
        await plain.publish("seen.one", b"1")
        await got.next_msg(timeout=5)
        found = await system.connections()
        assert [(client.name, client.patterns) for client in found.clients] == [
            ("plain", (("seen.>", 1),))
        ], "neither the head, nor the SDK, nor the agent itself"
        assert found.left_out == 0
        assert [client.cid for client in (await brokers.system(edge, None).connections()).clients] == [
            found.clients[0].cid
        ]
        await system.kick(found.clients[0].cid)
        await asyncio.wait_for(ended.wait(), 10)
        with pytest.raises(BrokerAwayError, match="does not disconnect"):
            await system.kick(1_000_000)
        assert managed.is_connected
    finally:
        await plain.close()
        await managed.close()
        await system.close()


async def test_a_broker_that_went_away_is_told_so_and_found_again(brokers: Brokers) -> None:
    system = brokers.system(brokers.endpoints.edges[0])
    try:
        first = await system.sample()
        await brokers.edge.kill()
        with pytest.raises(BrokerAwayError):
            await system.sample()
        await brokers.edge.start()

        async def another() -> bool:
            return (await system.sample()).started != first.started

        await eventually(another, "the broker should answer again, as another process")
    finally:
        await system.close()


async def test_a_wrong_password_opens_nothing_and_the_right_one_is_in_no_readable_file(
    brokers: Brokers,
) -> None:
    wrong = brokers.system(brokers.endpoints.head, Credentials(user="mangrove-agent", password="guessed"))
    with pytest.raises(BrokerAwayError):
        await wrong.sample()
    await wrong.close()
    nobody = await nats.connect(brokers.endpoints.head.client_url)
    try:
        with pytest.raises((nats.errors.NoRespondersError, nats.errors.TimeoutError)):
            await nobody.request("$SYS.REQ.SERVER.PING.STATSZ", b"", timeout=0.5)
    finally:
        await nobody.close()
    holding = [
        path
        for path in brokers.directory.rglob("*")
        if path.is_file() and CREDENTIALS.password.encode() in path.read_bytes()
    ]
    assert {path.suffix for path in holding} == {".conf"}
    assert all(path.stat().st_mode & 0o077 == 0 for path in holding)
    assert CREDENTIALS.password not in repr(CREDENTIALS)
