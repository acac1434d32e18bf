"""Domains on several hosts, each a supervisor of its own on this machine."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import msgspec
import nats
import nats.errors
import nats.js.errors
import pytest
from nats.js.kv import KeyValue
from tests.kit.waiting import eventually

import mangrove
from mangrove.agent.inspection import inspect
from mangrove.agent.launcher import Launcher
from mangrove.agent.management import ManagementConnection
from mangrove.config import parse_federation
from mangrove.errors import InputError
from mangrove.host.keys.logins.user_login import login_of
from mangrove.host.keys.making import make_keys
from mangrove.host.nats_connecting import connect_or_close
from mangrove.model.agents.names import supervisor_subject
from mangrove.model.federation import Federation
from mangrove.model.hosting.supervision import BrokerAction, BrokerOrder, HostAnswer
from mangrove.model.security.users import AGENT_USER
from mangrove.testbed.hosts.namespaces import HostNetwork

SECRET = "a word that all hosts share"
STORE_AWAY = (nats.errors.TimeoutError, nats.errors.NoRespondersError, nats.js.errors.Error)


def site(hosts: dict[str, str], addresses: str, further: str = "") -> Federation:
    """A domain whose hosts run the brokers given, at the first addresses of a network."""
    text = f"federation: f\ndomains:\n  oslo:\n    edges: 2\n    base_port: 7800\n    {further}\n    hosts:\n"
    for number, (host, brokers) in enumerate(hosts.items(), 1):
        text += f"      {host}: {{address: {addresses}.{number}, brokers: [{brokers}]}}\n"
    return parse_federation(text, "f").require()


class Domain:
    """A running domain, and what is asked of it."""

    def __init__(self, launched: Launcher) -> None:
        self.launched = launched
        self.hosts = launched.hosts.get("oslo", {})
        self.endpoints = launched.endpoints["oslo"]
        self.management = ManagementConnection(self.endpoints)

    async def term(self) -> int:
        """Of the leader; 0 if nobody leads."""
        status = await self.management.agent_status()
        return status.term if status is not None and status.leads else 0

    def leader_after(self, term: int) -> Callable[[], Awaitable[bool]]:
        async def look() -> bool:
            return await self.term() > term

        return look

    async def leader_elsewhere(self) -> bool:
        """Whether an agent leads that is not on the first host."""
        status = await self.management.agent_status()
        return status is not None and status.leads and status.agent != "oslo-agent"

    def answer(self, expected: list[bool]) -> Callable[[], Awaitable[bool]]:
        async def look() -> bool:
            (domain,) = (await inspect(self.launched.runtime())).domains
            return [host.answers for host in domain.hosts] == expected

        return look

    async def order(self, host: str, broker: str, action: BrokerAction, term: int) -> HostAnswer:
        connection = await nats.connect([each.client_url for each in self.endpoints.managements])
        try:
            order = msgspec.json.encode(BrokerOrder(broker=broker, action=action, term=term))
            reply = await connection.request(supervisor_subject("oslo", host), order, timeout=10)
        finally:
            await connection.close()
        return msgspec.json.decode(reply.data, type=HostAnswer)


@pytest.fixture(scope="module")
async def three(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Domain]:
    federation = site({"h1": "head", "h2": "edge1", "h3": "edge2"}, "127.0.31")
    async with Launcher(federation, tmp_path_factory.mktemp("three"), ephemeral=True) as launched:
        running = Domain(launched)
        await eventually(running.leader_after(0), "an agent leads")
        yield running
        await running.management.close()


async def test_status_tells_what_runs_where_and_what_a_loss_would_cost(three: Domain) -> None:
    async def whole() -> bool:
        return (await inspect(three.launched.runtime())).healthy

    await eventually(whole, "everything is up")
    (domain,) = (await inspect(three.launched.runtime())).domains
    assert [host.host for host in domain.hosts] == ["h1", "h2", "h3"]
    assert [host.agent for host in domain.hosts] == ["oslo-agent", "oslo-h2-agent", "oslo-h3-agent"]
    assert domain.hosts[0].brokers == ("oslo-head", "oslo-management")
    assert set(domain.hosts[1].running) == {"oslo-edge1", "oslo-management2", "oslo-h2-agent"}
    assert "any one may be lost" in domain.loss_of_a_host


async def test_brokers_are_switched_as_the_leader_asks_and_only_by_it(three: Domain) -> None:
    term = await three.term()
    assert "answers" in (await three.order("h3", "oslo-edge2", BrokerAction.RESTART, term)).problem
    assert "not run on this host" in (await three.order("h3", "oslo-edge1", BrokerAction.STOP, term)).problem
    assert "any more" in (await three.order("h3", "oslo-edge2", BrokerAction.STOP, term - 1)).problem

    stopped = await three.order("h3", "oslo-edge2", BrokerAction.STOP, term)
    (edge,) = (each for each in stopped.processes if each.name == "oslo-edge2")
    assert (stopped.problem, edge.pid, edge.switched_off) == ("", None, True)
    await asyncio.sleep(0.5)  # supervision would have restarted it by now
    assert three.hosts["h3"].pid_of("oslo-edge2") is None
    assert (await three.order("h3", "oslo-edge2", BrokerAction.START, term)).problem == ""
    before = three.hosts["h3"].pid_of("oslo-edge2")
    assert before is not None

    os.kill(before, signal.SIGSTOP)
    assert (await three.order("h3", "oslo-edge2", BrokerAction.RESTART, term)).problem == ""
    assert three.hosts["h3"].pid_of("oslo-edge2") not in (None, before)


async def test_a_host_that_is_frozen_is_left_by_the_others(three: Domain) -> None:
    """Nobody closes a connection; still what is published at one living edge arrives at the other.

    Just before, the second edge was started anew while the head lived, so it is attached to that.
    """
    first, second = [await nats.connect(edge.client_url) for edge in three.endpoints.edges]
    wanted = await second.subscribe("plain")
    await second.flush()

    async def arrives() -> bool:
        await first.publish("plain", b"")
        try:
            await wanted.next_msg(0.2)
        except nats.errors.TimeoutError:
            return False
        return True

    await eventually(arrives, "messages arrive before")
    three.hosts["h1"].freeze()
    try:
        await asyncio.sleep(0.1)
        await eventually(arrives, "messages arrive while the head is frozen")
    finally:
        three.hosts["h1"].resume()
        await first.close()
        await second.close()


async def test_the_loss_of_the_heads_host_stops_neither_messages_nor_control(three: Domain) -> None:
    await goes_on_without_the_first_host(three)
    assert not (await inspect(three.launched.runtime())).healthy
    await three.hosts["h1"].start()
    await eventually(three.answer([True, True, True]), "it is back")


async def test_neither_does_it_where_everybody_proves_who_it_is(tmp_path: Path) -> None:
    """The members of the store know each other by certificates, all others log in."""
    federation = site({"h1": "head", "h2": "edge1", "h3": "edge2"}, "127.0.32")
    keys = make_keys(federation, tmp_path / "keys")
    async with Launcher(federation, tmp_path / "run", ephemeral=True, keys=keys.path) as launched:
        domain = Domain(launched)
        await eventually(domain.leader_after(0), "an agent leads")
        await goes_on_without_the_first_host(domain)
        await domain.management.close()


async def goes_on_without_the_first_host(three: Domain) -> None:
    """Messages arrive, an agent leads, and what was stored is kept when the head's host is killed."""
    stored = await connect_or_close(
        [each.client_url for each in three.endpoints.managements[1:]],
        login=login_of(three.endpoints.keys, AGENT_USER),
        max_reconnect_attempts=-1,
        reconnect_time_wait=0.1,
    )

    async def made() -> bool:
        # The members of the cluster may just be electing who makes streams, or finding each other.
        try:
            await stored.jetstream().create_key_value(bucket="kept", replicas=3)
        except STORE_AWAY:
            return False
        return True

    await eventually(made, "the store should take a bucket")
    found: list[KeyValue] = []

    async def holds() -> bool:
        # Its members may still be electing their leader.
        try:
            found.append(await stored.jetstream().key_value("kept"))
            return await found[-1].put("key", b"before") > 0
        except STORE_AWAY:
            return False

    await eventually(holds, "the store should keep something")
    bucket = found[-1]
    async with mangrove.connect(domain="oslo", run_dir=three.launched.directory) as client:
        wanted = await client.subscribe("news")
        await wanted.ready()
        await client.publish("news", b"first")
        assert (await wanted.next(timeout=10)).data == b"first"

        await three.hosts["h1"].kill()

        async def arrives() -> bool:
            await client.publish("news", b"later")
            try:
                return (await wanted.next(timeout=0.2)).data == b"later"
            except TimeoutError:
                return False

        await eventually(arrives, "messages of publishers of the dead head go on")
    await eventually(three.leader_elsewhere, "an agent on another host leads")

    async def kept() -> bool:
        # The leader may have been elsewhere all along; the store of the others elects one of its own first.
        try:
            return (await bucket.get("key")).value == b"before"
        except STORE_AWAY:
            return False

    async def stores() -> bool:
        # What was stored is told by any of them; for what is new, one must have been elected.
        try:
            return await bucket.put("key", b"after") > 0
        except STORE_AWAY:
            return False

    await eventually(kept, "what was stored is still there")
    await eventually(stores, "the store takes something new", 40)
    await stored.close()
    await eventually(three.answer([False, True, True]), "one host is lost")


async def test_hosts_that_run_alone_join_if_their_files_agree(tmp_path: Path) -> None:
    hosts = {"h1": "head, edge1", "h2": "edge2"}
    federation = site(hosts, "127.0.32")
    other = site(hosts, "127.0.32", "placement: wan")

    def alone(file: Federation, host: str, directory: str) -> Launcher:
        return Launcher(file, tmp_path / directory, only="oslo", host=host, secret=SECRET)

    async with alone(federation, "h1", "first") as first:
        running = Domain(first)

        async def supervised() -> bool:
            return len(await running.management.hosts(1)) == 1

        await eventually(supervised, "the first host answers")
        with pytest.raises(InputError, match="host 'h1' runs by another federation file"):
            await alone(other, "h2", "second").start()
        async with alone(federation, "h2", "second"):
            await eventually(running.leader_after(0), "an agent leads")

            async def whole() -> bool:
                (domain,) = (await inspect(first.runtime())).domains
                return domain.healthy and all(host.answers for host in domain.hosts)

            await eventually(whole, "both hosts are one domain")
            (domain,) = (await inspect(first.runtime())).domains
            assert domain.loss_of_a_host.startswith("2 hosts: control stops while h1 is lost, data goes on")
            await running.management.close()


@pytest.mark.soak
async def test_a_host_that_is_cut_off_is_left_and_found_again(tmp_path: Path) -> None:
    network = HostNetwork(["h1", "h2", "h3"])
    federation = site({"h1": "head", "h2": "edge1", "h3": "edge2"}, network.net)
    inside = {("oslo", host): network.inside(host) for host in ("h1", "h2", "h3")}
    async with network, Launcher(federation, tmp_path, inside=inside) as launched:
        running = Domain(launched)
        await eventually(running.leader_after(0), "an agent leads")
        edge2 = await nats.connect(running.endpoints.edges[1].client_url)
        wanted = await edge2.subscribe("plain")
        await edge2.flush()

        def arrives_from(url: str) -> Callable[[], Awaitable[bool]]:
            async def look() -> bool:
                try:
                    async with asyncio.timeout(2):
                        sender = await nats.connect(url, allow_reconnect=False, error_cb=_quiet)
                        await sender.publish("plain", b"")
                        await wanted.next_msg(0.3)
                        await sender.close()
                except (TimeoutError, OSError, nats.errors.Error):
                    return False
                return True

            return look

        edge1 = running.endpoints.edges[0].client_url
        await eventually(arrives_from(edge1), "messages arrive before")
        await network.cut_off("h1")
        await asyncio.sleep(0.2)
        await eventually(arrives_from(edge1), "messages arrive between those who are left")
        await eventually(running.leader_elsewhere, "an agent on another host leads", 40)
        await network.join("h1")
        await eventually(arrives_from(running.endpoints.head.client_url), "the head is found again", 40)
        await edge2.close()
        await running.management.close()


async def _quiet(_: Exception) -> None:
    """A broker that is away is what is looked for."""
