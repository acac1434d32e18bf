"""Two sites with keys: clients of all kinds, commands, and keys that change while everything runs."""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
import threading
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import nats.errors
import paho.mqtt.client as paho
import pytest
from nats.aio.client import Client
from paho.mqtt.enums import CallbackAPIVersion
from tests.kit.running import Running
from tests.kit.waiting import eventually

import mangrove
from mangrove.agent.inspection import inspect_domain
from mangrove.agent.management import ManagementConnection
from mangrove.client import AskRefusedError, LoginError
from mangrove.client.connecting import Connecting
from mangrove.config import parse_federation
from mangrove.host.keys.directory import DomainKeys, KeyDirectory
from mangrove.host.keys.logins.user_login import client_login
from mangrove.host.keys.making import issue_client, revoke
from mangrove.host.keys.rotation import Part, finish, rotate
from mangrove.host.nats_connecting import close_in_time, connect_or_close
from mangrove.model.agents.names import client_subject, operations_subject, register_subject
from mangrove.model.endpoints import DomainEndpoints
from mangrove.testbed.local_federation import LocalFederation

TWO = """
federation: two
domains:
  here:  {edges: 2}
  there: {edges: 1, accept_load_from: [here]}
links:
  - {between: [here, there]}
topics:
  - {match: "twice.>", mirror: true}
  - {match: "seldom.>", rate_msg_s: 2}
  - {match: "asked.>", limits: {deadline_ms: 50}}
access:
  - {who: {client: client}, may_not: [publish, subscribe], subjects: ["closed.>"]}
"""


class Secured(Running):
    """A running federation with keys."""

    @property
    def directory(self) -> Path:
        return self.launched.directory

    def keys(self, domain: str) -> DomainKeys:
        assert self.launched.keys is not None
        return KeyDirectory(self.launched.keys).domain(domain)

    def endpoints(self, domain: str) -> DomainEndpoints:
        return self.launched.endpoints[domain]

    def connect(self, domain: str) -> Connecting:
        return mangrove.connect(run_dir=self.directory, domain=domain)

    async def plain(self, url: str, domain: str, client: str = "client") -> Client:
        """A connection of nats-py at a broker, as a client of a domain."""
        return await connect_or_close(
            url,
            login=client_login(self.keys(domain).client(client).path),
            error_cb=quiet,
            allow_reconnect=False,
        )


@pytest.fixture(scope="module")
async def two(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Secured]:
    directory = tmp_path_factory.mktemp("state") / "two"
    federation = parse_federation(TWO, "two").require()
    async with LocalFederation(federation, directory, ephemeral=True, secured=True) as launched:
        running = Secured(launched)
        await running.links_up()
        yield running


async def test_clients_of_two_sites_speak_with_each_other_and_are_managed(two: Secured) -> None:
    async with two.connect("here") as here, two.connect("there") as there:

        async def answer(message: mangrove.Message) -> None:
            await message.respond(message.data.upper())

        reading = await there.subscribe("any.>")
        await reading.ready()
        serving = await there.subscribe("service", callback=answer)
        await serving.ready()
        await here.publish("any.thing", b"over the link")
        assert (await reading.next(5)).data == b"over the link"
        assert (await here.request("service", b"who", timeout=5)).data == b"WHO"
        assert here.denied == there.denied == {}

        async def registered() -> bool:
            agent = (await inspect_domain(two.endpoints("there"))).agent
            assert agent is None or not agent.refused
            return agent is not None and agent.clients == 1 and "service" in there.directory

        await eventually(registered, "the agent knows the client, and the client the directory")


async def test_contracts_hold_as_without_keys(two: Secured) -> None:
    """A mirror, a limit, and what a session asks for beyond its contract."""
    async with two.connect("here") as here, two.connect("here") as reader:
        twice = await reader.subscribe("twice.a")
        await twice.ready()
        await here.publish("twice.a", b"first")

        async def mirrored() -> bool:
            await here.publish("twice.a", b"again")
            return twice.mirrored.messages > 0

        await eventually(mirrored, "second copies come by the mirror")
        outcomes = [await here.publish("seldom.a") for _ in range(10)]
        assert mangrove.Outcome.LIMITED in outcomes
        asked = await reader.subscribe("asked.a", deadline_ms=50)
        await asked.unsubscribe()
        with pytest.raises(AskRefusedError, match="beyond"):
            await reader.subscribe("asked.a", deadline_ms=1)
        assert here.denied == reader.denied == {}


async def test_what_the_file_forbids_is_an_error_of_the_client(two: Secured) -> None:
    async with two.connect("here") as here:
        with pytest.raises(mangrove.NotAllowedError, match=r"subscribe to closed\.a"):
            await here.subscribe("closed.a")
        await here.publish("closed.a", b"in vain")
        with pytest.raises(mangrove.NotAllowedError, match=r"publish on closed\.a"):
            await here.flush()
        assert dict(here.denied) == {"subscribe closed.a": 1, "publish closed.a": 1}


async def test_subscribers_move_when_their_edge_goes(two: Secured) -> None:
    async with two.connect("here") as publisher, two.connect("here") as reader:
        reading = await reader.subscribe("steady")
        await reading.ready()
        leg = reader._legs.of(reading)
        assert leg is not None
        served_by = leg.wire.url
        edge = next(each for each in two.endpoints("here").edges if each.client_url == served_by)
        await two.launched.sites["here"].brokers[edge.name].kill()
        try:

            async def goes_on() -> bool:
                await publisher.publish("steady", b"x")
                try:
                    await reading.next(0.2)
                except TimeoutError:
                    return False
                return True

            await eventually(goes_on, "another broker serves it")
            moved = reader._legs.of(reading)
            assert moved is not None
            assert moved.wire.url != served_by
        finally:
            await two.launched.sites["here"].brokers[edge.name].start()


async def test_a_client_speaks_for_itself_alone(two: Secured) -> None:
    """Nobody but its user reaches a client's subjects, and none of them what is for operators and agents."""
    issue_client(two.keys("here").directory.path, "here", "other")
    url = two.endpoints("here").management.client_url
    complaints: list[str] = []

    async def complained(error: Exception) -> None:
        complaints.append(str(error))

    async def known() -> bool:
        try:
            await close_in_time(await two.plain(url, "here", "other"))
        except (OSError, nats.errors.Error):
            return False
        return True

    await eventually(known, "the broker has read of the new client")
    login = client_login(two.keys("here").client("other").path)
    connection = await connect_or_close(url, login=login, error_cb=complained, allow_reconnect=False)
    try:
        for subject in (
            register_subject("here", "client"),
            register_subject("here"),
            operations_subject("here"),
            client_subject("here", "x", "client"),
            "mangrove.here.gateway.limits",
            "mangrove.here.peers.to.there",
            "$JS.API.STREAM.LIST",
            "$KV.mangrove.x",
        ):
            complaints.clear()
            await connection.publish(subject, b"{}")
            await flushed(connection)
            assert any("publish" in each for each in complaints), subject
        for subject in ("mangrove.here.to.client.>", "mangrove.>", "_INBOX.client.>", "$KV.>", ">"):
            complaints.clear()
            await connection.subscribe(subject, cb=ignore)
            await flushed(connection)
            assert any("subscription" in each for each in complaints), subject
    finally:
        await close_in_time(connection)


async def test_strangers_and_clients_of_other_sites_do_not_get_in(
    two: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MANGROVE_CREDENTIALS", raising=False)
    brokers = [two.endpoints("here").head, *two.endpoints("here").edges, two.endpoints("here").management]
    for broker in brokers:
        with pytest.raises(LoginError, match="not believed") as caught:
            await mangrove.connect(broker.client_url)
        assert "credentials" in caught.value.hint
        with pytest.raises(LoginError, match="does not let the user 'client' in"):
            await mangrove.connect(broker.client_url, credentials=two.keys("there").client("client").path)


async def test_clients_of_a_site_whose_load_is_taken_are_guests(two: Secured) -> None:
    """By their keys, with the rights that they have at home, until they are revoked there."""
    keys = two.launched.keys
    assert keys is not None
    issue_client(keys, "here", "roamer")
    at = two.endpoints("there")

    async def comes() -> bool:
        try:
            await close_in_time(await two.plain(at.head.client_url, "here", "roamer"))
        except (nats.errors.Error, OSError):
            return False
        return True

    await eventually(comes, "the brokers of the other site know it")
    guest = await two.plain(at.head.client_url, "here", "roamer")
    with pytest.raises((nats.errors.Error, OSError)):
        await two.plain(two.head("here"), "there")  # the other way nobody was invited
    revoke(keys, "here", client="roamer")

    async def sent_away() -> bool:
        return not guest.is_connected

    await eventually(sent_away, "a guest that was revoked is sent away")
    await close_in_time(guest)


async def test_mqtt_clients_show_their_password(two: Secured) -> None:
    """A device with the files that it was given, at one site; the SDK at the other."""
    folder = two.keys("here").client("client")
    connected, refused = threading.Event(), threading.Event()

    def answered(_client: paho.Client, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        (refused if reason.is_failure else connected).set()

    def device(password: str) -> paho.Client:
        made = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv311, reconnect_on_failure=False)
        made.username_pw_set("client", password)
        made.tls_set(ca_certs=str(folder.trusted), tls_version=ssl.PROTOCOL_TLS_CLIENT)
        made.on_connect = answered
        made.connect("127.0.0.1", two.endpoints("here").head.mqtt_port or 0)
        made.loop_start()
        return made

    guessing = await asyncio.to_thread(device, "guessed")
    assert await asyncio.to_thread(refused.wait, 10)
    await asyncio.to_thread(guessing.loop_stop)
    async with two.connect("there") as there:
        reading = await there.subscribe("plant.a")
        await reading.ready()
        made = await asyncio.to_thread(device, folder.password.read_text().strip())
        assert await asyncio.to_thread(connected.wait, 10)
        made.publish("plant/a", b"from a device", qos=1)
        assert (await reading.next(10)).data == b"from a device"
        made.disconnect()
        await asyncio.to_thread(made.loop_stop)


@pytest.mark.parametrize(
    "command",
    [
        ["status"],
        ["directory", "--domain", "here"],
        ["leader", "--domain", "here"],
        ["load", "--domain", "here"],
        ["pub", "any.thing", "x", "--domain", "here"],
    ],
    ids=lambda command: command[0],
)
async def test_commands_log_in_by_themselves(two: Secured, command: list[str]) -> None:
    process = await asyncio.create_subprocess_exec(
        *[sys.executable, "-m", "mangrove.cli.main", *command, "--json", "--run-dir", str(two.directory)],
        stdout=PIPE,
        stderr=PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), 30)
    assert process.returncode == 0, err.decode()
    told = json.loads(out)
    if command[0] == "status":
        assert all(domain["gateway"] and domain["agent"] for domain in told["domains"])
        assert all(broker["reachable"] for domain in told["domains"] for broker in domain["brokers"])


async def test_new_keys_are_taken_over_by_all_who_run(two: Secured) -> None:
    """Users of ours and clients: the old keys are believed for a while, then no longer; nobody restarts."""
    directory = two.keys("here").directory.path
    pids = {process.name: process.pid for process in two.launched.processes()}
    async with two.connect("here") as here, two.connect("there") as there:
        reading = await there.subscribe("during")
        await reading.ready()
        rotate(directory, parts=(Part.USERS, Part.CLIENTS))
        await here.publish("during", b"with old keys")
        assert (await reading.next(5)).data == b"with old keys"
        await asyncio.sleep(1.0)  # brokers look for new keys several times a second
        finish(directory)

        async def goes_on() -> bool:
            await here.publish("during", b"with new keys")
            try:
                return (await reading.next(0.2)).data == b"with new keys"
            except TimeoutError:
                return False

        async def renewed() -> bool:
            return here._publisher.counts.connects > 1 and await goes_on()

        await eventually(renewed, "both sites speak with new keys")
        async with ManagementConnection(two.endpoints("here")) as management:

            async def answered() -> bool:
                return (
                    await management.gateway_status() is not None
                    and await management.agent_status() is not None
                )

            await eventually(answered, "the gateway and the agent are back at the management broker")
        await two.links_up()
    assert {process.name: process.pid for process in two.launched.processes()} == pids


async def flushed(connection: Client) -> None:
    """The library may write its first PING before what waits for its flusher."""
    for _ in range(2):
        await connection.flush()


async def quiet(_: Exception) -> None:
    pass


async def ignore(_: object) -> None:
    pass
