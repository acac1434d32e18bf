"""A site: brokers, gateway and agent on one host of a domain, started, supervised, and stopped in order."""

from __future__ import annotations

import asyncio
import logging
import secrets
import sys
from collections.abc import Iterator, Mapping
from functools import partial

import msgspec

from mangrove.agent.hosting.attachment import AttachmentGuard
from mangrove.agent.hosting.broker_keys import BrokerKeys
from mangrove.agent.hosting.broker_refusals import BrokerRefusals
from mangrove.agent.hosting.host_brokers import HostBrokers
from mangrove.agent.hosting.keys_guard import KeysGuard
from mangrove.agent.hosting.silence import SilenceGuard
from mangrove.agent.hosting.supervision import HINT, Supervision
from mangrove.agent.serving.settings import AgentSettings
from mangrove.broker.kinds import kind_of
from mangrove.errors import InputError
from mangrove.host.keys.login import LoginSource, by_password
from mangrove.host.keys.logins.user_login import login_of
from mangrove.host.private_file import write_private
from mangrove.host.process import ManagedProcess, stop_in_order
from mangrove.host.run_directory import RunDirectory
from mangrove.model.address import Address
from mangrove.model.agents.credentials import Credentials
from mangrove.model.agents.directions import directions_of
from mangrove.model.agents.names import AGENT_READY, AGENT_USER, agent_process
from mangrove.model.endpoints import BrokerEndpoints, DomainEndpoints
from mangrove.model.federation import Federation, Link
from mangrove.model.gateway_settings import Call, GatewaySettings, PairSettings
from mangrove.model.security.users import HOST_USER
from mangrove.model.shared_names import GATEWAY_READY, gateway_process

log = logging.getLogger(__name__)

GATEWAY_MODULE = "mangrove.gateway.daemon"
AGENT_MODULE = "mangrove.agent.daemon"
PASSWORD_BYTES = 24
ATTACH_S = 5.0
"""An edge that has not found its head by then is left to go on trying by itself."""
LOOK_S = 0.02
CANCEL_S, CANCEL_TIMES = 0.1, 10


class Site:
    """Runs one host of a domain on this machine: all of the domain, where it has but one."""

    def __init__(
        self,
        federation: Federation,
        endpoints: Mapping[str, DomainEndpoints],
        domain: str,
        run: RunDirectory,
        *,
        host: str = "",
        calls_through: Mapping[str, tuple[Address, ...]] | None = None,
        record_stimuli: bool = False,
        agents: bool = True,
        system_user: Credentials | None = None,
        keys: str = "",
    ) -> None:
        """`calls_through` replaces the address of a neighbour, which is how emulated links come in.

        The agents' `system_user` is the same on all hosts of a domain.
        `keys` is the folder with the keys of the domain; empty: nobody proves who it is.
        """
        self._system_user = system_user or new_system_user()
        self._keys = keys
        self._record_stimuli = record_stimuli
        self.domain = domain
        self.host = host
        self._federation = federation
        self._endpoints = endpoints
        self._own = endpoints[domain]
        self._run = run
        self._calls_through = dict(calls_through or {})
        hosts = [each.name for each in federation.domains[domain].all_hosts]
        self._first = host == hosts[0]
        broker_keys = BrokerKeys(keys, federation, domain) if keys else None
        self._brokers = HostBrokers(federation, self._own, host, run, self._system_user, broker_keys)
        self.brokers = self._brokers.processes
        self.gateways = [
            self._gateway(number + 1)
            for number in range(len(self._own.gateways))
            if hosts[number % len(hosts)] == host
        ]
        """Those that run on this host, in the order of their numbers."""
        self.agent = self._agent() if agents else None
        self._supervision: Supervision | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start the head first, then what attaches to it, and wait until it has.

        On failure everything is stopped again.
        """
        spares = {spare.name for spare in self._own.spares}
        edges = {edge.name for edge in self._own.edges}
        first = [process for name, process in self.brokers.items() if name not in edges | spares]
        rest = [process for name, process in self.brokers.items() if name in edges]
        try:
            await _start_all(first)
            await _start_all([*rest, *self.daemons()])
            await asyncio.gather(
                *(self._attached(edge) for edge in filter(self._brokers.is_here, self._own.edges))
            )
        except BaseException:
            await self.stop()
            raise
        self._supervise()

    def _supervise(self) -> None:
        urls = [broker.client_url for broker in self._own.managements]
        described = {each.name: each for each in (*self._own.succession, *self._own.managements)}
        brokers = {name: (described[name], process) for name, process in self.brokers.items()}
        self._supervision = Supervision(
            self.domain,
            self.host,
            urls,
            self._federation.digest(),
            brokers,
            self.daemons(),
            login_of(self._keys, HOST_USER),
        )
        run = asyncio.get_running_loop().create_task
        self._tasks.append(run(self._supervision.run(), name=f"supervision of {self.domain} {self.host}"))
        self._tasks += [run(guard.run(), name=f"guard of {self.domain}") for guard in self._guards()]
        refusals = self._refusals()
        self._tasks.append(run(refusals.run(), name=f"refusals of {self.domain}"))
        if self._brokers.keys is not None:
            guard = KeysGuard(self._brokers.keys, self._brokers.take_over_keys)
            self._tasks.append(run(guard.run(), name=f"keys of {self.domain}"))

    def _refusals(self) -> BrokerRefusals:
        described = {each.name: each.kind for each in (*self._own.succession, *self._own.managements)}
        logs = {name: (described[name], self._run.log(name)) for name in self.brokers}
        where = f"{self.domain}-{self.host}" if self._own.on_several_hosts else self.domain
        path, keys = str(self._run.audit_of(f"{where}-brokers")), self._brokers.keys
        return BrokerRefusals(logs, path) if keys is None else BrokerRefusals(logs, path, keys.name_of)

    def _guards(self) -> Iterator[SilenceGuard | AttachmentGuard]:
        """For each broker on another host, and for each of this host that has a choice where to attach."""
        succession = self._own.succession
        if self._own.head.external:
            return
        ours = [broker for broker in succession if self._brokers.is_here(broker)]
        for position, broker in enumerate(succession):
            if broker not in ours:
                yield SilenceGuard(broker, ours, self._system_login())
            elif position > 1:
                anew = partial(self._brokers.attach_anew, broker)
                yield AttachmentGuard(broker, succession[:position], self._system_login(), anew)

    def _system_login(self) -> LoginSource:
        """Who this host is in the system account of the data brokers."""
        user = self._system_user
        return login_of(self._keys, HOST_USER) or by_password(user.user, user.password)

    async def until_refused(self) -> None:
        """Return never, or with an error when this host must not go on beside the others of its domain."""
        assert self._supervision is not None
        reason = await self._supervision.disagreement
        raise InputError(f"this host leaves {self.domain}: {reason}", hint=HINT)

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
        await self.end_supervision()
        await stop_in_order(self.daemons(), self.brokers.values())

    async def end_supervision(self) -> None:
        """Take no orders any more.

        A task may have to be cancelled again: what nats-py does when it connects swallows cancellations.
        """
        tasks, self._tasks = set(self._tasks), []
        for _ in range(CANCEL_TIMES):
            for task in tasks:
                task.cancel()
            if tasks:
                _, tasks = await asyncio.wait(tasks, timeout=CANCEL_S)

    async def kill(self) -> None:
        """Kill all processes at once, as when the site loses power; it stays dark until it is started."""
        await asyncio.gather(*(process.kill() for process in self.processes()))
        await self.end_supervision()

    def processes(self) -> list[ManagedProcess]:
        """Everything that this site started."""
        return [*self.brokers.values(), *self.daemons()]

    @property
    def gateway(self) -> ManagedProcess:
        """The gateway on this host, or the first of them."""
        return self.gateways[0]

    def daemons(self) -> list[ManagedProcess]:
        """What needs the brokers, and ends before them."""
        return self.gateways if self.agent is None else [*self.gateways, self.agent]

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

    def _gateway(self, number: int) -> ManagedProcess:
        name = gateway_process(self.domain, number)
        recorded_as = self.domain if number == 1 else name
        listen = [self._own.gateways[number - 1]]
        calls = []
        for link in self._federation.links_of(self.domain):
            own = link.endpoint(self.domain)
            if own is not None and number == 1:
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
            keys=self._keys,
            listen=tuple(listen),
            calls=tuple(calls),
            pair=self._pair(number, name),
            events_path=str(self._run.events_of(recorded_as)),
            audit_path=str(self._run.audit_of(name)),
            journal_path=str(self._run.journal_of(recorded_as)),
            stimuli_path=str(self._run.stimuli_of(recorded_as)) if self._record_stimuli else "",
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

    def _pair(self, number: int, process: str) -> PairSettings | None:
        """What one of two gateways is told of the other."""
        line = self._own.gateway_line
        if line is None:
            return None
        other = self._run.journal_of(self.domain if number == 2 else gateway_process(self.domain, 2))
        return PairSettings(number=number, process=process, line=line, other_journal=str(other))

    def _agent(self) -> ManagedProcess:
        name = agent_process(self.domain, "" if self._first else self.host)
        settings = AgentSettings(
            federation=self._federation,
            domain=self.domain,
            agent=name,
            endpoints=self._own,
            system_user=self._system_user,
            keys=self._keys,
            events_path=str(self._run.events_of(name)),
            audit_path=str(self._run.audit_of(name)),
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
        return Call(peer, callee_addresses(link, self._endpoints), own.host if own is not None else "")


def new_system_user(secret: str = "") -> Credentials:
    """Who the agents of a domain are at its data brokers; without a `secret`, one that nobody knows yet."""
    return Credentials(user=AGENT_USER, password=secret or secrets.token_hex(PASSWORD_BYTES))


def callee_addresses(link: Link, endpoints: Mapping[str, DomainEndpoints]) -> tuple[Address, ...]:
    """Where the gateways of the end that is called listen for this link.

    An address of the link's own is that of the first; the second has none but its general one.
    """
    first, *second = endpoints[link.callee].gateways
    return (link.endpoint(link.callee) or first, *second)


async def _start_all(processes: list[ManagedProcess]) -> None:
    """Start side by side; the first failure is raised when all have been tried."""
    results = await asyncio.gather(*(process.start() for process in processes), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
