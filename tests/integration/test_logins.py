"""Clients that log in at brokers which encrypt: by key or password, under rules, and while keys change."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import nats.errors
import pytest
from tests.kit.secured_broker import HOST, SecuredBroker, keys_of_a_site
from tests.kit.waiting import eventually

import mangrove
from mangrove.broker.client_connection import NotAllowedError, RawMessage
from mangrove.broker.nats.client.connection import NatsClientConnection
from mangrove.client import LoginError
from mangrove.errors import InputError
from mangrove.host.keys.directory import DomainKeys
from mangrove.host.keys.login import BrokerLogin
from mangrove.host.keys.logins.user_login import client_login, login_of
from mangrove.host.keys.making import issue_client, revoke
from mangrove.host.keys.rotation import Part, finish, rotate
from mangrove.host.nats_connecting import close_in_time, connect_or_close
from mangrove.host.ports import PortReservation
from mangrove.model.subjects import MOVE_PREFIX

RULES = {
    "client": '{ publish: { allow: ["open.>", "_INBOX.>", "_MGR.>"] }, '
    'subscribe: { allow: ["open.>", "_INBOX.client.>"] } }'
}
EASIER = {"client": '{ publish: ">", subscribe: ">" }'}


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> DomainKeys:
    return keys_of_a_site(tmp_path_factory.mktemp("keys") / "keys")


@pytest.fixture
async def broker(keys: DomainKeys, tmp_path: Path) -> AsyncIterator[SecuredBroker]:
    with PortReservation() as ports:
        made = SecuredBroker(keys, ports.take(HOST), tmp_path)
        await made.process.start()
        try:
            yield made
        finally:
            await made.process.stop()


@pytest.fixture
def folder(keys: DomainKeys) -> Path:
    return keys.client("client").path


@pytest.fixture(autouse=True)
def no_credentials_by_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MANGROVE_CREDENTIALS", raising=False)


async def test_a_client_logs_in_with_its_folder_and_is_answered_at_its_own_inbox(
    broker: SecuredBroker, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.change(RULES)
    async with mangrove.connect(broker.url, credentials=folder) as one:
        monkeypatch.setenv("MANGROVE_CREDENTIALS", str(folder))
        async with mangrove.connect(broker.url) as other:

            async def answer(message: mangrove.Message) -> None:
                await message.respond(message.data.upper())

            subscription = await one.subscribe("open.a")
            await one.subscribe("open.service", callback=answer)
            await other.publish("open.a", b"hello")
            assert (await subscription.next(5)).data == b"hello"
            assert (await other.request("open.service", b"who", timeout=5)).data == b"WHO"


async def test_by_password_as_well(broker: SecuredBroker, folder: Path) -> None:
    password = (folder / "password").read_text().strip()
    known = client_login(folder)().tls
    wire = NatsClientConnection(
        [broker.url], "by password", login=lambda: BrokerLogin("client", tls=known, password=password)
    )
    await wire.connect(5)
    await wire.flush(5)
    await wire.close()


@pytest.mark.parametrize("of", ["nobody", "another federation", "somebody revoked"])
async def test_who_is_not_known_is_told_so_at_once(
    broker: SecuredBroker, keys: DomainKeys, tmp_path: Path, of: str
) -> None:
    folder = None
    if of == "another federation":
        other = keys_of_a_site(tmp_path / "other").client("client").path
        folder = tmp_path / "mixed" / "client"
        folder.mkdir(parents=True, mode=0o700)
        folder.parent.chmod(0o700)
        write(folder / "client.nk", (other / "client.nk").read_bytes())
        write(folder / "ca.pem", (keys.client("client").path / "ca.pem").read_bytes())
    elif of == "somebody revoked":
        folder = issue_client(keys.directory.path, "here", "passing").path
        kept = tmp_path / "kept" / "passing"
        kept.mkdir(parents=True, mode=0o700)
        kept.parent.chmod(0o700)
        for each in folder.iterdir():
            write(kept / each.name, each.read_bytes())
        folder = kept
        revoke(keys.directory.path, "here", client="passing")
        broker.change()
    with pytest.raises(LoginError) as caught:
        await mangrove.connect(broker.url, credentials=folder)
    assert caught.value.hint
    if folder is not None:
        assert (folder / "client.nk").read_text().strip() not in str(caught.value)


async def test_a_broker_that_somebody_else_certified_is_not_believed(
    broker: SecuredBroker, tmp_path: Path
) -> None:
    folder = keys_of_a_site(tmp_path / "other").client("client").path
    with pytest.raises(LoginError, match="not believed"):
        await mangrove.connect(broker.url, credentials=folder)
    with pytest.raises((OSError, nats.errors.Error)):
        await connect_or_close(broker.url, login=client_login(folder), allow_reconnect=False, error_cb=quiet)


async def test_nothing_is_said_in_the_clear_to_who_offers_no_tls(folder: Path) -> None:
    """The answer of a server in between, which would pass the login on."""
    heard = bytearray()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(
            b'INFO {"server_id":"s","version":"2.11","headers":true,"max_payload":1000,"nonce":"n"}\r\n'
        )
        while data := await reader.read(1000):
            heard.extend(data)
        writer.close()

    async with await asyncio.start_server(serve, HOST, 0) as server:
        url = f"nats://{HOST}:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(LoginError, match="offers no TLS"):
            await mangrove.connect(url, credentials=folder)
        with pytest.raises(nats.errors.Error, match="offers no TLS"):
            await connect_or_close(url, login=client_login(folder), allow_reconnect=False, error_cb=quiet)
    assert not heard


async def test_what_a_rule_forbids_is_an_error_for_who_asks(broker: SecuredBroker, folder: Path) -> None:
    broker.change(RULES)
    async with mangrove.connect(broker.url, credentials=folder) as connection:
        await connection.publish("closed.a", b"in vain")
        with pytest.raises(NotAllowedError, match=r"publish on closed\.a"):
            await connection.flush()
        with pytest.raises(NotAllowedError):
            await connection.publish("closed.a", b"in vain")
        with pytest.raises(NotAllowedError):
            connection.publish_nowait("closed.a", b"in vain", headers={"A": "b"})
        async with asyncio.timeout(3):
            with pytest.raises(NotAllowedError):
                await connection.request("closed.service", timeout=60)
        for queue in ("", "group"):
            with pytest.raises(NotAllowedError, match=r"subscribe to closed\.>"):
                await connection.subscribe("closed.>", queue=queue)
        assert dict(connection.denied) == {
            "publish closed.a": 1,
            "publish closed.service": 1,
            "subscribe closed.>": 1,
            "subscribe closed.> in group": 1,
        }
        await connection.publish("open.a", b"goes on")
        await connection.flush()


async def test_rules_that_change_are_noticed_both_ways(broker: SecuredBroker, folder: Path) -> None:
    broker.change(EASIER)
    async with mangrove.connect(broker.url, credentials=folder) as connection:
        reading = await connection.subscribe("closed.a")
        kept = await connection.subscribe("open.a")
        broker.change(RULES)
        with pytest.raises(NotAllowedError):
            await reading.next(5)
        await connection.publish("open.a", b"goes on")
        assert (await kept.next(5)).data == b"goes on"
        await connection.publish("closed.a")
        with pytest.raises(NotAllowedError):
            await connection.flush()
        broker.change(EASIER)

        async def taken() -> bool:
            try:
                await connection.publish("closed.a")
                await connection.flush()
            except NotAllowedError:
                return False
            return True

        await eventually(taken, "the subject is tried again")


async def test_who_logs_in_anew_misses_nothing_and_hears_nothing_twice(
    broker: SecuredBroker, keys: DomainKeys
) -> None:
    """Also of messages without ids that are all alike, in a queue group, and while it publishes itself."""
    listener, teller = (issue_client(keys.directory.path, "here", name) for name in ("listener", "teller"))
    broker.change()
    says = NatsClientConnection([broker.url], "teller", login=client_login(teller.path))
    hears = NatsClientConnection(
        [broker.url], "listener", login=client_login(listener.path), marker_prefix=MOVE_PREFIX
    )
    got: Counter[str] = Counter()
    counted: list[int] = []

    def take(messages: list[RawMessage], size_bytes: int) -> None:
        got.update(message.subject for message in messages)

    for wire in (says, hears):
        await wire.connect(5)
    hears.subscribe("alike", take)
    hears.subscribe("shared", take, queue="group")
    says.subscribe("own", lambda messages, _: counted.extend(int(each.data) for each in messages))
    await asyncio.gather(says.flush(5), hears.flush(5))
    rotate(keys.directory.path, parts=[Part.CLIENTS], client="listener", domains=["here"])
    broker.change()
    sent = 0
    while not hears.counts.renewals or sent < 2_000:
        for subject in ("alike", "shared"):
            says.publish(subject, b"tick")
        hears.publish("own", str(sent).encode())
        sent += 1
        assert sent < 20_000, "it should have logged in anew"
        await asyncio.sleep(0.001)
    for _ in range(2):
        await asyncio.gather(says.flush(5), hears.flush(5))

    async def all_there() -> bool:
        return got == {"alike": sent, "shared": sent} and counted == list(range(sent))

    await eventually(all_there, "each came once, in order", 5)
    assert not hears.counts.lost
    for wire in (says, hears):
        await wire.close()


async def test_keys_that_are_replaced_are_shown_at_the_next_login(
    broker: SecuredBroker, keys: DomainKeys
) -> None:
    """A user's old key goes while its connections last: they come back with the new one by themselves."""
    issued = issue_client(keys.directory.path, "here", "rotated")
    broker.change()
    agent = login_of(str(keys.path), "agent")
    assert agent is not None
    plain = await connect_or_close(
        broker.url, login=agent, max_reconnect_attempts=-1, reconnect_time_wait=0.05, error_cb=quiet
    )
    try:
        async with mangrove.connect(broker.url, credentials=issued.path) as connection:
            subscription = await connection.subscribe("open.a")
            before = agent().nkey
            rotate(keys.directory.path, parts=(Part.USERS, Part.CLIENTS))
            broker.change()
            await connection.publish("open.a", b"with the old key")
            assert (await subscription.next(5)).data == b"with the old key"
            assert connection.denied == {}
            finish(keys.directory.path)
            broker.change()

            async def renewed() -> bool:
                return plain.stats["reconnects"] > 0 and plain.is_connected

            await eventually(renewed, "the connection of nats-py came back")
            assert agent().nkey != before

            async def heard() -> bool:
                await plain.publish("open.a", b"with new keys")
                try:
                    return (await subscription.next(0.2)).data == b"with new keys"
                except TimeoutError:
                    return False

            await eventually(heard, "both came back with new keys")
            assert connection._subscriber.counts.connects == 2
    finally:
        await close_in_time(plain)


@pytest.mark.parametrize("how", ["open to others", "linked", "cut short", "missing"])
async def test_credentials_that_are_not_as_they_should_be_are_named(
    folder: Path, tmp_path: Path, how: str
) -> None:
    mine = tmp_path / "mine"
    mine.mkdir(mode=0o700)
    for name in ("client.nk", "ca.pem"):
        write(mine / name, (folder / name).read_bytes())
    seed = mine / "client.nk"
    if how == "open to others":
        seed.chmod(0o644)
    elif how == "linked":
        seed.unlink()
        seed.symlink_to(folder / "client.nk")
    elif how == "cut short":
        write(seed, seed.read_bytes()[:20])
    else:
        seed.unlink()
    with pytest.raises(InputError) as caught:
        await mangrove.connect(f"nats://{HOST}:1", credentials=mine)
    assert str(seed) in caught.value.message
    assert caught.value.hint


def test_a_login_shows_no_secret_of_itself(folder: Path) -> None:
    login = client_login(folder)()
    assert (folder / "client.nk").read_text().strip() not in repr(login)
    assert "hidden" not in repr(BrokerLogin("client", password="hidden"))


def write(path: Path, content: bytes) -> None:
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)


async def quiet(_: Exception) -> None:
    pass


async def test_a_connection_whose_tls_broke_is_closed_without_noise(
    broker: SecuredBroker, keys: DomainKeys
) -> None:
    """What was to be said has nowhere to go, and asyncio's TLS has forgotten that it once could be said."""
    client = await connect_or_close(
        broker.url, login=login_of(str(keys.path), "agent"), allow_reconnect=False
    )
    line = client._transport._io_writer.transport  # type: ignore[union-attr]
    line.close()
    line.close()
    client._pending, client._pending_data_size = [b"PING\r\n"], 6
    await close_in_time(client)
    assert line.is_closing()
