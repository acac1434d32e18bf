"""A site: the brokers and the gateway of one domain, started in order, supervised, and stopped in order."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from mangrove.broker.kinds import kind_of
from mangrove.broker.nats.config import log_path
from mangrove.host.process import ManagedProcess
from mangrove.model.endpoints import DomainEndpoints, events_path
from mangrove.model.federation import Federation, Link
from mangrove.model.gateway_settings import Call, GatewaySettings, Listen

log = logging.getLogger(__name__)

GATEWAY_MODULE = "mangrove.gateway.daemon"
GATEWAY_READY_TEXT = "gateway ready"


class Site:
    """Runs one domain of a federation on this machine."""

    def __init__(
        self,
        federation: Federation,
        endpoints: Mapping[str, DomainEndpoints],
        domain: str,
        directory: Path,
        *,
        calls_through: Mapping[str, tuple[str, int]] | None = None,
    ) -> None:
        """`calls_through` replaces the address of a neighbour, which is how emulated links come in."""
        self.domain = domain
        self._federation = federation
        self._endpoints = endpoints
        self._own = endpoints[domain]
        self._directory = directory
        self._calls_through = dict(calls_through or {})
        self.brokers: dict[str, ManagedProcess] = {}
        self.gateway = self._gateway()
        head, management = self._own.head, self._own.management
        limit = federation.max_message_bytes
        self.brokers[management.name] = kind_of(management.kind).management_server(management, directory)
        if not head.external:
            self.brokers[head.name] = kind_of(head.kind).server(head, directory, max_message_bytes=limit)
        for edge in self._own.edges:
            if not edge.external:
                self.brokers[edge.name] = kind_of(edge.kind).server(
                    edge, directory, max_message_bytes=limit, attach_to=self._head_url()
                )

    async def start(self) -> None:
        """Start the head first, then what attaches to it. On failure everything is stopped again."""
        edges = {edge.name for edge in self._own.edges}
        first = [process for name, process in self.brokers.items() if name not in edges]
        rest = [process for name, process in self.brokers.items() if name in edges]
        try:
            await _start_all(first)
            await _start_all([*rest, self.gateway])
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop the gateway, then the edges, then the rest."""
        await self.gateway.stop()
        for process in reversed(self.brokers.values()):
            await process.stop()

    async def kill(self) -> None:
        """Kill all processes at once, as when the site loses power; it stays dark until it is started."""
        await asyncio.gather(*(process.kill() for process in self.processes()))

    def processes(self) -> list[ManagedProcess]:
        """Everything that this site started."""
        return [*self.brokers.values(), self.gateway]

    def _head_url(self) -> str:
        """Where the gateway and the edge brokers attach."""
        external = self._federation.domains[self.domain].external
        return external.leaf if external is not None else self._own.head.leaf_url

    def _gateway(self) -> ManagedProcess:
        name = f"{self.domain}-gateway"
        listen = [Listen(self._own.gateway_host, self._own.gateway_port)]
        calls = []
        for link in self._federation.links_of(self.domain):
            if self.domain in link.endpoints:
                listen.append(Listen(*_host_port(link.endpoints[self.domain])))
            if self.domain == min(link.between):
                calls.append(self._call(link))
        settings = GatewaySettings(
            federation=self._federation,
            domain=self.domain,
            head_url=self._head_url(),
            head_kind=self._own.head.kind,
            management_url=self._own.management.client_url,
            listen=tuple(listen),
            calls=tuple(calls),
            events_path=str(events_path(self._directory, self.domain)),
            journal_path=str(self._directory / "delivered" / f"{self.domain}.ring"),
        )
        path = self._directory / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.encode(settings))
        return ManagedProcess(
            name,
            [sys.executable, "-m", GATEWAY_MODULE, str(path)],
            log_path=log_path(self._directory, name),
            ready_text=GATEWAY_READY_TEXT,
        )

    def _call(self, link: Link) -> Call:
        peer = link.other(self.domain)
        local_host = ""
        if peer in self._calls_through:
            host, port = self._calls_through[peer]
        else:
            host, port = callee_address(link, peer, self._endpoints[peer])
            if self.domain in link.endpoints:
                local_host = _host_port(link.endpoints[self.domain])[0]
        return Call(peer, host, port, local_host)


def callee_address(link: Link, peer: str, endpoints: DomainEndpoints) -> tuple[str, int]:
    """Where `peer` listens for this link."""
    if peer in link.endpoints:
        return _host_port(link.endpoints[peer])
    return endpoints.gateway_host, endpoints.gateway_port


def _host_port(endpoint: str) -> tuple[str, int]:
    host, _, port = endpoint.rpartition(":")
    return host.strip("[]"), int(port)


async def _start_all(processes: list[ManagedProcess]) -> None:
    """Start side by side; the first failure is raised when all have been tried."""
    results = await asyncio.gather(*(process.start() for process in processes), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
