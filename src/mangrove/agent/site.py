"""A site: brokers, gateway and agent of one domain, started in order, supervised, and stopped in order."""

from __future__ import annotations

import asyncio
import logging
import secrets
import sys
from collections.abc import Mapping

import msgspec

from mangrove.agent.serving.settings import AgentSettings
from mangrove.broker.kinds import kind_of
from mangrove.host.private_file import write_private
from mangrove.host.process import ManagedProcess, stop_in_order
from mangrove.host.run_directory import RunDirectory
from mangrove.model.address import Address
from mangrove.model.agents.credentials import Credentials
from mangrove.model.agents.directions import directions_of
from mangrove.model.agents.names import AGENT_READY, AGENT_USER, agent_process
from mangrove.model.broker_kinds import BROKER_URLS
from mangrove.model.endpoints import BrokerEndpoints, DomainEndpoints
from mangrove.model.federation import Federation, Link
from mangrove.model.gateway_settings import Call, GatewaySettings
from mangrove.model.shared_names import GATEWAY_READY, gateway_process

log = logging.getLogger(__name__)

GATEWAY_MODULE = "mangrove.gateway.daemon"
AGENT_MODULE = "mangrove.agent.daemon"
PASSWORD_BYTES = 24
ATTACH_S = 5.0
"""An edge that has not found its head by then is left to go on trying by itself."""
LOOK_S = 0.02


class Site:
    """Runs one domain of a federation on this machine."""

    def __init__(
        self,
        federation: Federation,
        endpoints: Mapping[str, DomainEndpoints],
        domain: str,
        run: RunDirectory,
        *,
        calls_through: Mapping[str, Address] | None = None,
        record_stimuli: bool = False,
        agents: bool = True,
    ) -> None:
        """`calls_through` replaces the address of a neighbour, which is how emulated links come in."""
        self._system_user = Credentials(user=AGENT_USER, password=secrets.token_hex(PASSWORD_BYTES))
        self._record_stimuli = record_stimuli
        self.domain = domain
        self._federation = federation
        self._endpoints = endpoints
        self._own = endpoints[domain]
        self._run = run
        self._calls_through = dict(calls_through or {})
        self.brokers: dict[str, ManagedProcess] = {}
        self.gateway = self._gateway()
        self.agent = self._agent() if agents else None
        directory = run.path
        head, management = self._own.head, self._own.management
        limit = federation.max_message_bytes
        self.brokers[management.name] = kind_of(management.kind).management_server(management, directory)
        if not head.external:
            self.brokers[head.name] = kind_of(head.kind).server(
                head.itself, directory, max_message_bytes=limit, site=domain, system_user=self._system_user
            )
        for edge in self._own.edges:
            if not edge.external:
                self.brokers[edge.name] = kind_of(edge.kind).server(
                    edge.itself,
                    directory,
                    max_message_bytes=limit,
                    site=domain,
                    attach_to=self._uplink_urls(edge),
                    head_is_ours=not head.external,
                    system_user=self._system_user,
                )

    async def start(self) -> None:
        """Start the head first, then what attaches to it, and wait until it has.

        On failure everything is stopped again.
        """
        edges = {edge.name for edge in self._own.edges}
        first = [process for name, process in self.brokers.items() if name not in edges]
        rest = [process for name, process in self.brokers.items() if name in edges]
        try:
            await _start_all(first)
            await _start_all([*rest, *self.daemons()])
            await asyncio.gather(*(self._attached(edge) for edge in self._own.edges if not edge.external))
        except BaseException:
            await self.stop()
            raise

    async def _attached(self, edge: BrokerEndpoints) -> None:
        """Wait for an edge to be attached: an MQTT client that came before would be turned away."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + ATTACH_S
        while not (await kind_of(edge.kind).status(edge, "edge")).attached_to:
            if loop.time() > deadline:
                log.warning("%s is not attached to its head broker yet", edge.name)
                return
            await asyncio.sleep(LOOK_S)

    async def stop(self) -> None:
        """Stop the gateway and the agent, then the brokers."""
        await stop_in_order(self.daemons(), self.brokers.values())

    async def kill(self) -> None:
        """Kill all processes at once, as when the site loses power; it stays dark until it is started."""
        await asyncio.gather(*(process.kill() for process in self.processes()))

    def processes(self) -> list[ManagedProcess]:
        """Everything that this site started."""
        return [*self.brokers.values(), *self.daemons()]

    def daemons(self) -> list[ManagedProcess]:
        """What needs the brokers, and ends before them."""
        return [self.gateway] if self.agent is None else [self.gateway, self.agent]

    def _succeeding(self) -> list[BrokerEndpoints]:
        """The edge brokers that can take the head's place, in the order in which they do."""
        if self._own.head.external:
            return []
        return [edge for edge in self._own.succession[1:] if not edge.external]

    def _head_urls(self) -> tuple[str, ...]:
        """Where the gateway attaches, the head first."""
        external = self._federation.domains[self.domain].external
        head = self._own.head.leaf_url if external is None else external.leaf
        return (head, *(edge.leaf_url for edge in self._succeeding()))

    def _uplink_urls(self, edge: BrokerEndpoints) -> tuple[str, ...]:
        """Where an edge attaches: at the first living broker before it, or at the emulator of its line."""
        if self._own.head.external:
            return self._head_urls()
        if edge.behind is not None:
            scheme = BROKER_URLS[edge.kind].attach_scheme
            return tuple(f"{scheme}://{Address(edge.host, port)}" for port in edge.behind.uplink_ports)
        earlier = self._own.succession[: self._own.succession.index(edge)]
        return tuple(broker.leaf_url for broker in earlier)

    def _gateway(self) -> ManagedProcess:
        name = gateway_process(self.domain)
        listen = [self._own.gateway]
        calls = []
        for link in self._federation.links_of(self.domain):
            own = link.endpoint(self.domain)
            if own is not None:
                listen.append(own)
            if self.domain == link.caller:
                calls.append(self._call(link))
        settings = GatewaySettings(
            federation=self._federation,
            domain=self.domain,
            head_urls=self._head_urls(),
            mirror_urls={edge.name: edge.leaf_url for edge in self._succeeding()},
            head_kind=self._own.head.kind,
            head_client_url=self._own.head.client_url,
            head_is_ours=not self._own.head.external,
            edge_client_urls={edge.name: edge.client_url for edge in self._own.edges},
            management_urls=tuple(broker.client_url for broker in self._own.managements),
            directions=directions_of(self._federation, self._own),
            listen=tuple(listen),
            calls=tuple(calls),
            events_path=str(self._run.events_of(self.domain)),
            journal_path=str(self._run.journal_of(self.domain)),
            stimuli_path=str(self._run.stimuli_of(self.domain)) if self._record_stimuli else "",
        )
        path = self._run.settings(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.encode(settings))
        return ManagedProcess(
            name,
            [sys.executable, "-m", GATEWAY_MODULE, str(path)],
            log_path=self._run.log(name),
            ready_text=GATEWAY_READY,
        )

    def _agent(self) -> ManagedProcess:
        name = agent_process(self.domain)
        settings = AgentSettings(
            federation=self._federation,
            domain=self.domain,
            agent=name,
            endpoints=self._own,
            system_user=self._system_user,
            events_path=str(self._run.events_of(name)),
        )
        path = self._run.settings(name)
        write_private(path, msgspec.json.encode(settings))
        return ManagedProcess(
            name,
            [sys.executable, "-m", AGENT_MODULE, str(path)],
            log_path=self._run.log(name),
            ready_text=AGENT_READY,
        )

    def _call(self, link: Link) -> Call:
        peer = link.other(self.domain)
        if peer in self._calls_through:
            return Call(peer, self._calls_through[peer])
        own = link.endpoint(self.domain)
        return Call(peer, callee_address(link, self._endpoints), own.host if own is not None else "")


def callee_address(link: Link, endpoints: Mapping[str, DomainEndpoints]) -> Address:
    """Where the end that is called listens for this link."""
    return link.endpoint(link.callee) or endpoints[link.callee].gateway


async def _start_all(processes: list[ManagedProcess]) -> None:
    """Start side by side; the first failure is raised when all have been tried."""
    results = await asyncio.gather(*(process.start() for process in processes), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
