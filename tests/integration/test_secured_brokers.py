"""The brokers of a secured domain, real ones: who comes in, who is heard, and what changes while they run."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import nats
import nats.errors
import pytest
from msgspec.structs import replace
from nats.aio.msg import Msg
from tests.kit.secured_domain import Connected, SecuredDomain, secured_domain
from tests.kit.waiting import eventually

from mangrove.broker.attachment import Attachment
from mangrove.broker.kinds import kind_of
from mangrove.gateway.line_table import LineTable
from mangrove.host.keys.login import LoginSource
from mangrove.host.keys.making import revoke
from mangrove.model.broker_kinds import BrokerKind
from mangrove.overlay.protocol.bodies import DISCARD, Entry, parse_message_line


@pytest.fixture(scope="module")
async def domain(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SecuredDomain]:
    async with secured_domain(tmp_path_factory.mktemp("secured")) as running:
        for client in ("alice", "bob"):
            running.issue(client)
        assert running.brokers.keys is not None
        running.brokers.keys.renew()
        await running.brokers.take_over_keys()
        await attached(running)
        yield running


async def attached(domain: SecuredDomain) -> None:
    edge = domain.endpoints.edges[0]

    async def so() -> bool:
        return bool((await kind_of(edge.kind).status(edge, "edge")).attached_to)

    await eventually(so, "the edge should be attached")


class Heard:
    """What comes to a subscription."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, bytes]] = []
        self.reached = False
        """Whether a probe has come."""

    async def listen(self, connected: Connected, subject: str) -> None:
        async def heard(message: Msg) -> None:
            if message.data == PROBE:
                self.reached = True
            else:
                self.messages.append((message.subject, message.data))

        await connected.client.subscribe(subject, cb=heard)
        await connected.client.flush()

    async def reached_from(self, publisher: Connected, subject: str) -> None:
        """Wait until what is published elsewhere comes: its broker must have learned of the subscription."""

        async def probed() -> bool:
            await publisher.client.publish(subject, PROBE)
            return self.reached

        await eventually(probed, f"{subject} should reach the subscriber")


PROBE = b"probe"


async def test_nobody_comes_in_without_a_key(domain: SecuredDomain) -> None:
    for broker in (domain.endpoints.head, domain.endpoints.edges[0], domain.endpoints.management):
        with pytest.raises(nats.errors.Error, match="Authorization"):
            await nats.connect(broker.client_url, tls=domain.tls(), allow_reconnect=False, error_cb=quiet)


async def quiet(_: Exception) -> None:
    """Being refused is what is tested."""


async def test_an_edges_key_lets_nobody_in_as_a_client(domain: SecuredDomain) -> None:
    for user in ("edge", "gateway"):
        with pytest.raises(nats.errors.Error, match="Authorization"):
            await domain.connect(domain.endpoints.head, domain.login(user))


@pytest.mark.parametrize("how", ["key", "password"])
async def test_clients_reach_each_other_over_head_and_edge(domain: SecuredDomain, how: str) -> None:
    login = domain.login if how == "key" else domain.by_password
    alice = await domain.connect(domain.endpoints.head, login("alice"))
    bob = await domain.connect(domain.endpoints.edges[0], login("bob"))
    heard = Heard()
    await heard.listen(bob, ">")
    await heard.reached_from(alice, "sensor.probe")
    await alice.client.publish("sensor.a", b"1")
    await alice.client.publish("_MGR._MIRROR.sensor.a", b"copy")
    await eventually(lambda: _so(heard.messages == [("sensor.a", b"1")]), "it should arrive, and no copy")
    assert alice.complaints == bob.complaints == []
    await alice.client.close()
    await bob.client.close()


async def _so(what: bool) -> bool:
    return what


@pytest.mark.parametrize("how", ["key", "password"])
async def test_a_client_is_told_what_it_may_not(domain: SecuredDomain, how: str) -> None:
    login = domain.login if how == "key" else domain.by_password
    alice = await domain.connect(domain.endpoints.head, login("alice"))
    for subject in (
        "$SYS.REQ.USER.INFO",
        "$JS.API.INFO",
        "$MQTT.msgs.x",
        "$MGV.here.in",
        "_MGR.@stored",
        "_MGL",
    ):
        await alice.client.publish(subject, b"")
        assert subject.lower() in await alice.complaint()
    for subject in (
        "$SYS.>",
        "$LDS.>",
        "_MGR.>",
        "_MGR._WHERE",
        "_MGR.there._INBOX.x",
        "$MQTT.sess.>",
        "$JS.>",
    ):
        await alice.client.subscribe(subject)
        assert subject.lower() in await alice.complaint()
    await alice.client.close()


async def test_a_client_of_the_management_broker_speaks_for_itself(domain: SecuredDomain) -> None:
    alice = await domain.connect(domain.endpoints.management, domain.login("alice"))
    agent = await domain.connect(domain.endpoints.management, domain.login("agent"))
    heard = Heard()
    await heard.listen(agent, "mangrove.here.>")
    await alice.client.publish("mangrove.here.from.alice.agent.register", b"me")
    for forbidden in (
        "mangrove.here.from.bob.agent.register",
        "mangrove.here.agent.operate",
        "mangrove.here.supervisor._all",
        "mangrove.here.agent.started",
        "mangrove.here.to.bob.client.x",
        "$JS.API.INFO",
        "$KV.directory.x",
        "_INBOX.agent.1",
    ):
        await alice.client.publish(forbidden, b"")
        assert forbidden.lower() in await alice.complaint()
    for forbidden in ("mangrove.here.>", "mangrove.here.to.bob.>", "_INBOX.>", "_INBOX.agent.>", "$KV.>"):
        await alice.client.subscribe(forbidden)
        assert forbidden.lower() in await alice.complaint()
    await eventually(lambda: _so(bool(heard.messages)), "the agent should hear alice")
    assert heard.messages == [("mangrove.here.from.alice.agent.register", b"me")], "and nobody else"
    await alice.client.close()
    await agent.client.close()


async def test_the_agent_watches_and_the_broker_is_not_its_own(domain: SecuredDomain) -> None:
    head = domain.endpoints.head
    agent = await domain.connect(head, domain.login("agent"))
    answer = await agent.client.request("$SYS.REQ.SERVER.PING.STATSZ", b"", timeout=2)
    assert b'"statsz"' in answer.data
    await agent.client.publish("$SYS.REQ.SERVER.X.RELOAD", b"")
    assert "reload" in await agent.complaint()
    await agent.client.close()


async def test_clients_come_and_go_while_brokers_run(domain: SecuredDomain) -> None:
    guard = asyncio.create_task(domain.guard.run())
    edge = domain.endpoints.edges[0]
    steady = await domain.connect(edge, domain.login("bob"))
    pids = {name: process.pid for name, process in domain.brokers.processes.items()}
    try:
        domain.issue("carol")

        async def comes_in() -> bool:
            try:
                connected = await domain.connect(edge, domain.login("carol"))
            except (nats.errors.Error, OSError):
                return False
            carol.append(connected)
            return True

        carol: list[Connected] = []
        await eventually(comes_in, "carol should come in", 5)
        revoke(domain.keys.path, "here", client="carol")
        await eventually(lambda: _so(carol[0].client.is_closed), "carol should be sent away", 5)
        assert steady.client.is_connected
        assert {name: process.pid for name, process in domain.brokers.processes.items()} == pids
    finally:
        guard.cancel()
        await asyncio.gather(guard, return_exceptions=True)
        await steady.client.close()


class Owner:
    """Of an attachment: keeps what it is told."""

    def __init__(self) -> None:
        self.sorter = LineTable(self._judge, lambda: None)
        self.lines: list[bytes] = []
        self.told: list[str] = []
        self.wanted: set[str] = set()

    def _judge(self, line: bytes) -> Entry:
        self.lines.append(line)
        return Entry(parse_message_line(line).skip, DISCARD)

    def attached(self, broker: str = "", *, elsewhere: bool = False) -> None:
        self.told.append(f"attached to {broker}")

    def lost(self, reason: str) -> None:
        self.told.append(reason)

    def interest(self, subject: str, group: str, wanted: bool) -> None:
        (self.wanted.add if wanted else self.wanted.discard)(subject)

    def doubted(self, doubted: bool) -> None: ...
    def buffer_done(self) -> None: ...
    def ignored(self, what: str) -> None: ...
    def undelivered(self, reason: str, count: int, topic: str = "") -> None: ...
    def writable(self, writable: bool) -> None: ...


@asynccontextmanager
async def leaf_node(url: str, login: LoginSource) -> AsyncIterator[tuple[Owner, Attachment]]:
    owner = Owner()
    attachment = kind_of(BrokerKind.NATS).attach("gateway-here", (url,), owner, login=login)
    task = asyncio.create_task(attachment.run())
    try:
        yield owner, attachment
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_gateway_attaches_with_its_key(domain: SecuredDomain) -> None:
    head = domain.endpoints.head
    async with leaf_node(head.leaf_url, domain.login("gateway")) as (owner, attachment):
        await eventually(lambda: _so(owner.told == ["attached to here-head"]), "it should be attached")
        alice = await domain.connect(domain.endpoints.edges[0], domain.login("alice"))
        heard = Heard()
        await heard.listen(alice, "from.abroad")
        await eventually(lambda: _so("from.abroad" in owner.wanted), "interest should be told")
        attachment.subscribe(["to.abroad"])
        known = asyncio.Event()
        attachment.confirm(known.set)
        await known.wait()
        probe = b"LMSG to.abroad %d" % len(PROBE)

        async def probed() -> bool:
            await alice.client.publish("to.abroad", PROBE)
            return probe in owner.lines

        await eventually(probed, "the edge should learn of what is wanted abroad")
        await alice.client.publish("to.abroad", b"out")
        real = [b"LMSG to.abroad 3"]
        await eventually(
            lambda: _so([line for line in owner.lines if line != probe] == real), "it should get the message"
        )
        line = b"LMSG from.abroad 2"
        attachment.outlet(line, parse_message_line(line), ()).take(line + b"\r\nin\r\n")
        await eventually(lambda: _so(heard.messages == [("from.abroad", b"in")]), "it should be delivered")
        await alice.client.close()


async def test_who_attached_by_a_key_of_before_is_sent_away(domain: SecuredDomain) -> None:
    head = domain.endpoints.head
    gateway = domain.login("gateway")
    async with leaf_node(head.leaf_url, gateway) as (owner, _):
        await eventually(lambda: _so(owner.told == ["attached to here-head"]), "it should be attached")
        system = kind_of(head.kind).system(head, domain.login("host"))
        believed = {user.name: user.nkeys for user in domain.ring().users()}
        keys = [key for name, keys in believed.items() if name != "gateway" for key in keys]
        try:
            assert await system.expel([*keys, *believed["gateway"]]) == 0
            assert await system.expel(keys) == 1
        finally:
            await system.close()
        await eventually(lambda: _so(len(owner.told) >= 3), "it should be sent away, and come again")
    await attached(domain)


async def test_nobody_else_attaches(domain: SecuredDomain) -> None:
    head = domain.endpoints.head
    for user in ("alice", "probe", "agent", "host", "operator", "recorder"):
        async with leaf_node(head.leaf_url, domain.login(user)) as (owner, _):
            await eventually(lambda: _so(bool(owner.told)), f"{user} should be refused")
            assert owner.told[0] == "Authorization Violation", user


async def test_a_gateway_says_nothing_to_a_broker_that_it_does_not_know(
    domain: SecuredDomain, tmp_path: Path
) -> None:
    """Neither to one that does not encrypt, nor to one that somebody else has certified."""
    said: list[bytes] = []

    async def pretend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"server_name":"x","version":"2","headers":true,"nonce":"abc"}\r\n')
        said.append(await reader.read(1000))
        writer.close()

    server = await asyncio.start_server(pretend, "127.0.0.1")
    port = server.sockets[0].getsockname()[1]
    async with leaf_node(f"nats-leaf://127.0.0.1:{port}", domain.login("gateway")) as (owner, _):
        await eventually(lambda: _so(bool(said)), "it should call")
        assert b"CONNECT" not in said[0]
        assert owner.told == []
    server.close()
    strange = domain.login("gateway")()
    context = ssl.create_default_context()  # believes other authorities
    async with leaf_node(domain.endpoints.head.leaf_url, lambda: replace(strange, tls=context)) as (owner, _):
        await asyncio.sleep(0.5)
        assert owner.told == []


def test_no_secret_can_be_read_by_others(domain: SecuredDomain) -> None:
    run = Path(domain.brokers.processes["here-head"].log_path).parent.parent
    for path in run.rglob("*.conf"):
        assert path.stat().st_mode & 0o077 == 0
    seed = domain.keys.domain("here").user_seed("edge").read_text().strip()
    assert seed not in "".join(path.read_text() for path in run.rglob("*.log"))
