"""Clients that come are written down, each once, and a storm of them as a count."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from tests.kit.keyed import FEDERATION, made

from mangrove.agent.hosting.broker_keys import BrokerKeys
from mangrove.agent.hosting.client_logins import ClientLogins
from mangrove.host.audit.audit_file import AuditFile
from mangrove.host.audit.audit_log import AuditLog
from mangrove.host.keys.directory import KeyDirectory
from mangrove.host.keys.rotation import Part, rotate
from mangrove.model.audit.entry import AuditEntry, AuditKind, read_entry
from mangrove.model.endpoints import BrokerEndpoints


class Page:
    """A broker's page of connections, as nats-server shows it."""

    def __init__(self) -> None:
        self.start = "FIRST"
        self.connections: list[dict[str, object]] = []
        self.port = 0

    def come(self, user: str, times: int = 1) -> None:
        for _ in range(times):
            self.connections.append(
                {"cid": len(self.connections) + 1, "ip": "10.0.0.1", "type": "nats", "authorized_user": user}
            )

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = (await reader.readuntil(b"\r\n\r\n")).decode()
        asked = dict(each.split("=") for each in line.split(" ")[1].partition("?")[2].split("&"))
        first, most = int(asked["offset"]), int(asked["limit"])
        page = {
            "server_id": self.start,
            "total": len(self.connections),
            "connections": self.connections[first : first + most],
        }
        writer.write(b"HTTP/1.0 200 OK\r\n\r\n" + msgspec.json.encode(page))
        writer.close()

    @property
    def broker(self) -> BrokerEndpoints:
        return BrokerEndpoints(name="head", host="127.0.0.1", client_port=1, monitor_port=self.port)


@pytest.fixture
async def page() -> AsyncIterator[Page]:
    page = Page()
    async with await asyncio.start_server(page.serve, "127.0.0.1", 0) as server:
        page.port = server.sockets[0].getsockname()[1]
        yield page


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> KeyDirectory:
    return made(tmp_path_factory.mktemp("keys") / "keys")


def broker_keys(keys: KeyDirectory) -> BrokerKeys:
    return BrokerKeys(str(keys.domain("a").path), FEDERATION, "a")


def nkey(keys: KeyDirectory, user: str) -> str:
    return next(each for each in broker_keys(keys).nkeys() if broker_keys(keys).name_of(each) == user)


def entries(path: Path) -> list[AuditEntry]:
    found = [read_entry(line) for line in path.read_bytes().splitlines()] if path.exists() else []
    return [each for each in found if each is not None]


async def test_each_that_came_since_the_last_look(page: Page, keys: KeyDirectory, tmp_path: Path) -> None:
    path = tmp_path / "site.jsonl"
    audit = AuditLog(AuditFile(path, "site"))
    logins = ClientLogins([page.broker], broker_keys(keys), audit)
    page.come(nkey(keys, "client"))
    page.come(nkey(keys, "agent"))  # one of ours is no client
    page.come("nobody")
    await logins._look(page.broker)
    await logins._look(page.broker)
    (only,) = entries(path)
    assert only.kind is AuditKind.CLIENT_CONNECTED
    assert only.facts == {"broker": "head", "client": "client", "host": "10.0.0.1", "way": "nats"}

    page.come("client", 2_000)  # by its password, again and again
    await logins._look(page.broker)
    page.start, page.connections = "SECOND", []
    page.come("client")
    await logins._look(page.broker)
    assert len(entries(path)) <= 3
    audit.close()
    told = entries(path)
    assert sum(each.times for each in told if each.kind is AuditKind.CLIENT_CONNECTED) == 1 + 256 + 1
    assert [each.facts for each in told if each.kind is AuditKind.LOG_SKIPPED] == [
        {"broker": "head", "what": "connections"}
    ]


async def test_who_came_by_a_key_of_before_is_named(page: Page, keys: KeyDirectory) -> None:
    old = nkey(keys, "client")
    page.come(old, 1_500)
    page.come(nkey(keys, "agent"))
    assert await ClientLogins([page.broker], broker_keys(keys), AuditLog()).by_old_keys() == ()
    rotate(keys.path, domains=["a"], parts=[Part.CLIENTS, Part.USERS])
    (found,) = await ClientLogins([page.broker], broker_keys(keys), AuditLog()).by_old_keys()
    assert (found.client, found.broker, found.connections) == ("client", "head", 1_500)
