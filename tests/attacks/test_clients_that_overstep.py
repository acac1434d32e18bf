"""Clients at the brokers: without a key, with a wrong one, or with a good one and beyond what they may.

Whom a broker turns away is in the audit log of its host, and the client is told.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from pathlib import Path

import nats
import nats.errors
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from nats.aio.client import Client
from tests.kit.battlefield import NAME, Battlefield
from tests.kit.forged_certificates import careless_context, load_chain
from tests.kit.waiting import eventually

from mangrove.host.keys.certificates import Authority, today
from mangrove.host.keys.directory import ClientKeys
from mangrove.host.keys.making import issue_client, revoke
from mangrove.model.audit.entry import AuditKind
from mangrove.model.endpoints import BrokerEndpoints
from mangrove.model.security.identity import Identity, Role

REFUSED, SUBJECT = AuditKind.CLIENT_REFUSED, AuditKind.SUBJECT_REFUSED


def head(field: Battlefield) -> BrokerEndpoints:
    return field.launched.endpoints["a"].head


def management(field: Battlefield) -> BrokerEndpoints:
    return field.launched.endpoints["a"].managements[0]


async def connected(broker: BrokerEndpoints, **options: object) -> Client:
    """A plain client that tries once, and keeps what it is told."""
    told: list[Exception] = []

    async def keep(error: Exception) -> None:
        told.append(error)

    client = await nats.connect(
        f"tls://{broker.host}:{broker.client_port}",
        error_cb=keep,
        allow_reconnect=False,
        max_reconnect_attempts=0,
        connect_timeout=3,
        **{"tls": careless_context(), **options},
    )
    client.told = told  # type: ignore[attr-defined]
    return client


@pytest.fixture(scope="module")
async def mallory(field: Battlefield) -> ClientKeys:
    """A client of a that was given keys, and means no good. The brokers have heard of it."""
    issued = await asyncio.to_thread(issue_client, field.keys.path, "a", "mallory")

    async def known() -> bool:
        for broker in (head(field), management(field)):
            try:
                await (await connected(broker, nkeys_seed=str(issued.seed))).close()
            except (nats.errors.Error, OSError):
                return False
        return True

    await eventually(known, "the brokers should let a new client in")
    return issued


async def is_turned_away(field: Battlefield, broker: BrokerEndpoints, *words: str, **options: object) -> None:
    async def attack() -> None:
        with pytest.raises((nats.errors.Error, OSError, TimeoutError)):
            await connected(broker, **options)

    await field.withstands(attack)
    await field.written("a-brokers", REFUSED, broker.name, *words)


async def test_nobody_connects_without_a_name(field: Battlefield) -> None:
    await is_turned_away(field, head(field))
    await is_turned_away(field, management(field))


async def test_a_wrong_password(field: Battlefield, mallory: ClientKeys) -> None:
    await is_turned_away(field, head(field), "mallory", user="mallory", password="guessed")
    assert mallory.seed.exists()


@pytest.mark.parametrize("user", ["gateway", "edge", "agent", "operator"])
async def test_a_password_guessed_for_a_user_of_ours(field: Battlefield, user: str) -> None:
    await is_turned_away(field, head(field), user, user=user, password="")


async def test_the_key_of_a_client_of_another_domain(field: Battlefield) -> None:
    other = issue_client(field.keys.path, "c", "stranger")
    await is_turned_away(field, head(field), nkeys_seed=str(other.seed))


async def test_in_the_clear(field: Battlefield) -> None:
    """Without TLS, as who wants to be overheard: nothing is said before the broker insists."""
    address = (head(field).host, head(field).client_port)

    async def attack() -> None:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b'CONNECT {"verbose":false}\r\nSUB > 1\r\nPING\r\n')
        heard = b""
        with contextlib.suppress(TimeoutError, OSError):
            async with asyncio.timeout(3):
                while more := await reader.read(4096):
                    heard += more
        assert b"PONG" not in heard
        writer.transport.abort()

    await field.withstands(attack)


async def oversteps(
    field: Battlefield, mallory: ClientKeys, broker: BrokerEndpoints, *subjects: str, listens: bool = True
) -> None:
    """He publishes where he may not, and listens there; the broker says so, and it is written down."""

    async def attack() -> None:
        client = await connected(broker, nkeys_seed=str(mallory.seed))
        expected = len(subjects) * (2 if listens else 1)

        def complaints() -> str:
            return " ".join(map(str, client.told)).lower()  # type: ignore[attr-defined]

        try:
            for subject in subjects:
                await client.publish(subject, b"{}")
                if listens:
                    await client.subscribe(subject)
            with contextlib.suppress(nats.errors.Error):
                await client.flush(timeout=2)

            async def complained() -> bool:
                return complaints().count("permissions violation") >= expected

            with contextlib.suppress(AssertionError):  # what it said instead is told below
                await eventually(complained, "the broker should complain of each", 10)
            assert complaints().count("permissions violation") >= expected, complaints()
        finally:
            await client.close()

    await field.withstands(attack)
    for subject in subjects:
        await field.written("a-brokers", SUBJECT, broker.name, "mallory", subject)


async def test_management_subjects_at_the_management_broker(field: Battlefield, mallory: ClientKeys) -> None:
    """He registers, reports and asks in the name of others; orders brokers off; touches what is stored."""
    subjects = (
        "mangrove.a.agent.operations",
        "mangrove.a.gateway.avoid",
        "mangrove.a.from.somebody.register",
        "mangrove.a.to.somebody.order",
        "$KV.directory.x",
        "$JS.API.STREAM.LIST",
        "_INBOX.agent.x",
    )
    await oversteps(field, mallory, management(field), *subjects, listens=False)


async def test_inner_subjects_at_a_data_broker(field: Battlefield, mallory: ClientKeys) -> None:
    subjects = ("$SYS.REQ.SERVER.PING", "$JS.API.STREAM.LIST", "$LDS.x")
    await oversteps(field, mallory, head(field), *subjects)


async def test_a_client_that_attaches_as_an_edge(field: Battlefield, mallory: ClientKeys) -> None:
    """With its password it calls the port for leaf nodes: an edge hears all, so only an edge may."""
    port = head(field).leaf_port
    assert port is not None
    password = mallory.password.read_text().strip()

    async def attack() -> None:
        raw = socket.create_connection((head(field).host, port), 3)
        raw.settimeout(3)
        assert raw.recv(4096).startswith(b"INFO")
        line = careless_context().wrap_socket(raw)
        line.settimeout(3)
        connect = f'CONNECT {{"user":"mallory","pass":"{password}","name":"edge9"}}\r\nLS+ >\r\nPING\r\n'
        heard = b""
        with contextlib.suppress(OSError):
            line.sendall(connect.encode())
            while more := line.recv(4096):
                heard += more
        line.close()
        assert b"PONG" not in heard
        assert b"Authorization Violation" in heard

    await field.withstands(lambda: asyncio.to_thread(lambda: asyncio.run(attack())))
    await field.written("a-brokers", REFUSED, head(field).name, "leaf node", "mallory")


async def test_a_broker_with_a_certificate_of_its_own(field: Battlefield) -> None:
    """Who pretends to be a broker learns nothing: clients of ours check whom they have called."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    key = ec.generate_private_key(ec.SECP256R1())
    identity = Identity(NAME, Role.BROKER, "a", head(field).name)
    stranger = Authority.make(NAME, 1, today())
    certificate = stranger.issue_broker(identity, ["127.0.0.1"], key, today())
    load_chain(server, certificate, key=key)
    listening = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0, ssl=server)
    port = listening.sockets[0].getsockname()[1]
    with pytest.raises(ssl.SSLCertVerificationError):
        await asyncio.open_connection(
            "127.0.0.1", port, ssl=field.ring_of("a").authority_context(), server_hostname="127.0.0.1"
        )
    listening.close()


async def test_headers_and_subjects_with_ends_of_lines(field: Battlefield, mallory: ClientKeys) -> None:
    """Commands smuggled in subjects and headers: the broker closes, or carries them as what they are."""

    async def attack() -> None:
        client = await connected(head(field), nkeys_seed=str(mallory.seed))
        try:
            for subject in ("honest.a\r\nPUB honest.c 1\r\n9", "honest.a 1\r\n"):
                with contextlib.suppress(nats.errors.Error, ValueError):
                    await client.publish(subject, b"1")
            with contextlib.suppress(nats.errors.Error, ValueError):
                await client.publish("free.x", b"1", headers={"A": "b\r\nMangrove-Id: x.00000000001\r\n\r\n"})
            with contextlib.suppress(nats.errors.Error):
                await client.flush(timeout=1)
        finally:
            with contextlib.suppress(nats.errors.Error):
                await client.close()

    await field.withstands(attack)


async def test_key_files_that_are_links_or_open_to_others_are_not_taken_over(field: Battlefield) -> None:
    """Somebody who may write in the key directory exchanges a file: the gateway goes on with what it has."""
    keys = field.keys_of("d")
    kept, mode = keys.gateway_key.read_bytes(), keys.gateway_key.stat().st_mode
    elsewhere = keys.path / "elsewhere"

    async def attack() -> None:
        elsewhere.write_bytes(kept)
        keys.gateway_key.unlink()
        keys.gateway_key.symlink_to(elsewhere)
        (field.keys.about).touch()
        await field.written("d-gateway", AuditKind.KEYS_REFUSED, "link")
        keys.gateway_key.unlink()
        keys.gateway_key.write_bytes(kept)
        keys.gateway_key.chmod(0o644)
        field.keys.about.touch()
        await field.written("d-gateway", AuditKind.KEYS_REFUSED, "gateway.key")
        keys.gateway_key.chmod(mode & 0o777)
        elsewhere.unlink(missing_ok=True)
        field.keys.about.touch()

    await field.withstands(attack)


async def test_a_revoked_client_is_sent_away(field: Battlefield, mallory: ClientKeys, tmp_path: Path) -> None:
    """While it is connected; and what it keeps of its key opens nothing any more."""
    stolen = tmp_path / "client.nk"
    stolen.write_bytes(mallory.seed.read_bytes())

    async def attack() -> None:
        client = await connected(head(field), nkeys_seed=str(stolen))
        await asyncio.to_thread(revoke, field.keys.path, "a", client="mallory")

        async def sent_away() -> bool:
            return not client.is_connected

        await eventually(sent_away, "the broker should send it away")
        await client.close()

    await field.withstands(attack)
    await is_turned_away(field, head(field), nkeys_seed=str(stolen))
