"""The brokers of one secured domain by themselves, and clients of all kinds."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from nats.aio.client import Client
from tests.kit.waiting import eventually

from mangrove.agent.hosting.broker_keys import BrokerKeys
from mangrove.agent.hosting.host_brokers import HostBrokers
from mangrove.agent.hosting.keys_guard import KeysGuard
from mangrove.agent.site import new_system_user
from mangrove.config import parse_federation
from mangrove.host.keys.directory import KeyDirectory
from mangrove.host.keys.login import BrokerLogin, LoginSource
from mangrove.host.keys.making import issue_client, make_keys
from mangrove.host.keys.ring import KeyRing
from mangrove.host.ports import PortReservation
from mangrove.host.process import stop_in_order
from mangrove.host.run_directory import RunDirectory
from mangrove.model.endpoints import BrokerEndpoints, DomainEndpoints, lay_out

SITE = """
federation: one
domains:
  here: {edges: 1}
  there: {edges: 0, base_port: 9000}
links:
  - {between: [here, there]}
"""


class SecuredDomain:
    """Head, one edge and a management broker, with their keys."""

    def __init__(self, directory: Path, endpoints: DomainEndpoints, brokers: HostBrokers) -> None:
        self.name = endpoints.domain
        self.keys = KeyDirectory(directory)
        self.endpoints = endpoints
        self.brokers = brokers
        assert brokers.keys is not None
        self.guard = KeysGuard(brokers.keys, brokers.take_over_keys)

    def login(self, user: str) -> LoginSource:
        """Who a user of ours is, as its key says now."""
        return lambda: self.ring().login(user)

    def ring(self) -> KeyRing:
        return KeyRing.read(self.keys.domain(self.name).path)

    def issue(self, client: str) -> Path:
        """The folder of a new client."""
        return issue_client(self.keys.path, self.name, client).path

    def by_password(self, client: str) -> LoginSource:
        password = self.keys.domain(self.name).client(client).password.read_text().strip()
        return lambda: BrokerLogin(user=client, tls=self.tls(), password=password)

    def tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.keys.trusted))

    async def connect(self, broker: BrokerEndpoints, login: LoginSource) -> Connected:
        """A client that notes what the broker complains of, and does not come back by itself."""
        complaints: list[str] = []

        async def complained(error: Exception) -> None:
            complaints.append(str(error))

        shown = login()
        proof: dict[str, Any] = {"user": shown.user, "password": shown.password}
        if shown.key is not None:
            proof = {"nkeys_seed_str": shown.key.seed}
        client = Client()
        try:
            await client.connect(
                broker.client_url,
                tls=shown.tls,
                inbox_prefix=f"_INBOX.{shown.user}",
                allow_reconnect=False,
                error_cb=complained,
                connect_timeout=3,
                **proof,
            )
        except BaseException:
            await client.close()
            raise
        return Connected(client, complaints)


class Connected:
    """A connection of nats-py and the complaints that came over it."""

    def __init__(self, client: Client, complaints: list[str]) -> None:
        self.client = client
        self.complaints = complaints

    async def complaint(self) -> str:
        """The next thing that the broker complains of."""
        await self.client.flush()
        await eventually(self._complained, "the broker should complain", 2)
        return self.complaints.pop(0)

    async def _complained(self) -> bool:
        return bool(self.complaints)


@asynccontextmanager
async def secured_domain(
    directory: Path, site: str = SITE, domain: str = "here"
) -> AsyncIterator[SecuredDomain]:
    """A running one; its keys guard does not run."""
    federation = parse_federation(site, "one").require()
    keys = make_keys(federation, directory / "keys")
    with PortReservation() as ports:
        endpoints = lay_out(federation.domains[domain], lambda _: ports.take("127.0.0.1"))
        folder = str(keys.domain(domain).path)
        brokers = HostBrokers(
            federation,
            endpoints,
            "",
            RunDirectory(directory / "run"),
            new_system_user(),
            BrokerKeys(folder, federation, domain),
        )
        try:
            for process in brokers.processes.values():
                await process.start()
            yield SecuredDomain(keys.path, endpoints, brokers)
        finally:
            await stop_in_order(brokers.processes.values())
