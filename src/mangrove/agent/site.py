"""A site: brokers, gateway and agent on one host of a domain, started, supervised, and stopped in order."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import msgspec

from mangrove.agent.hosting.attachment import AttachmentGuard
from mangrove.agent.hosting.broker_keys import BrokerKeys
from mangrove.agent.hosting.broker_refusals import BrokerRefusals
from mangrove.agent.hosting.client_logins import ClientLogins
from mangrove.agent.hosting.followed_versions import FollowedVersions
from mangrove.agent.hosting.host_brokers import HostBrokers
from mangrove.agent.hosting.keys_guard import KeysGuard
from mangrove.agent.hosting.process_book import ProcessBook
from mangrove.agent.hosting.silence import SilenceGuard
from mangrove.agent.hosting.supervision import HINT, Supervision
from mangrove.agent.serving.contracts.in_force import ContractsInForce
from mangrove.agent.serving.settings import AgentSettings
from mangrove.broker.kinds import kind_of
from mangrove.errors import InputError
from mangrove.host.audit.audit_log import AuditLog
from mangrove.host.daemon_start import daemon_command
from mangrove.host.keys.login import LoginSource, by_password
from mangrove.host.keys.logins.user_login import login_of
from mangrove.host.private_file import write_private
from mangrove.host.process import ManagedProcess, stop_in_order
from mangrove.host.run_directory import RunDirectory
from mangrove.host.versions.reloaded_file import ReloadedFile
from mangrove.host.web.health import Readiness, health_pages
from mangrove.host.web.page_server import PageServer
from mangrove.model.address import Address
from mangrove.model.agents.credentials import Credentials
from mangrove.model.agents.directions import directions_of
from mangrove.model.agents.names import AGENT_READY, AGENT_USER, agent_process
from mangrove.model.endpoints import BrokerEndpoints, DomainEndpoints
from mangrove.model.federation import Federation, Link
from mangrove.model.gateway_settings import Call, GatewaySettings, PairSettings
from mangrove.model.hosting.broker_status import BrokerStatus
from mangrove.model.hosting.health_ports import HealthPort, health_address
from mangrove.model.metrics.agent import put_brokers, put_processes
from mangrove.model.metrics.families import Families
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
        numbers = [number for number in range(1, len(self._own.gateways) + 1) if self._has_gateway(number)]
        self._versions_path = str(
            run.versions_of(self._recorded_as(numbers[0])) if numbers else run.followed_versions_of(domain)
        )
        """Where what is in force is written down on this host."""
        ReloadedFile(run.reloaded).forget()
        self._in_force = ContractsInForce(self._versions_path, str(run.reloaded))
        broker_keys = BrokerKeys(keys, self._in_force.federation(federation), domain) if keys else None
        self._brokers = HostBrokers(federation, self._own, host, run, self._system_user, broker_keys)
        self.brokers = self._brokers.processes
        self._event_logs: list[Path] = []
        """Where those of this host write down what happened."""
        self.gateways = [self._gateway(number) for number in numbers]
        """Those that run on this host, in the order of their numbers."""
        self.agent = self._agent() if agents else None
        self._supervision: Supervision | None = None
        self._audit: AuditLog | None = None
        self._book: ProcessBook | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._health: PageServer | None = None

    async def start(self) -> None:
        """Start the head first, then what attaches to it, and wait until it has.

        The daemons start beside the brokers: until they have loaded their code, the brokers are there, and
        otherwise they try again. On failure everything is stopped again.
        """
        spares = {spare.name for spare in self._own.spares}
        edges = {edge.name for edge in self._own.edges}
        first = [process for name, process in self.brokers.items() if name not in edges | spares]
        rest = [process for name, process in self.brokers.items() if name in edges]
        daemons = asyncio.create_task(_start_all(self.daemons()), name=f"daemons of {self.domain}")
        try:
            await _start_all(first)
            await _start_all(rest)
            await asyncio.gather(
                *(self._attached(edge) for edge in filter(self._brokers.is_here, self._own.edges))
            )
            await daemons
            self._health = await self._health_of_the_host()
        except BaseException:
            daemons.cancel()
            await asyncio.wait([daemons])
            await self.stop()
            raise
        self._supervise()

    async def _health_of_the_host(self) -> PageServer | None:
        """A host is ready when all that should run on it does."""
        at = self._health_at(HealthPort.HOST)
        if at is None:
            return None
        spares = {spare.name for spare in self._own.spares}

        def readiness() -> Readiness:
            running = {each.name: each.pid is not None for each in self.processes()}
            needed = {name: runs for name, runs in running.items() if name not in spares}
            return Readiness(process=f"host {self.host or self.domain}", checks=needed)

        async def counted() -> Families:
            families = Families()
            if self._supervision is not None:
                account = await self._supervision.full_account()
                put_processes(families, self.domain, self.host, account.processes)
                put_brokers(families, self.domain, map(self._with_role, account.brokers))
            return families

        server = PageServer(at, health_pages(readiness, counted))
        await server.start()
        return server

    def _with_role(self, broker: BrokerStatus) -> BrokerStatus:
        managements = {each.name for each in self._own.managements}
        role = "head" if broker.name == self._own.head.name else "edge"
        return msgspec.structs.replace(broker, role="management" if broker.name in managements else role)

    def _supervise(self) -> None:
        run = asyncio.get_running_loop().create_task
        audit = self._audit = AuditLog.at(str(self._audit_path()))
        book = self._book = ProcessBook(self.processes, audit)
        self._tasks.append(run(book.run(), name=f"processes of {self.domain}"))
        urls = [broker.client_url for broker in self._own.managements]
        described = {each.name: each for each in (*self._own.succession, *self._own.managements)}
        brokers = {name: (described[name], process) for name, process in self.brokers.items()}
        keys, logins = self._brokers.keys, None
        if keys is not None:
            logins = ClientLogins([broker for broker, _ in brokers.values()], keys, audit)
            guard = KeysGuard(self._brokers, keys, audit, file=self._federation, in_force=self._in_force)
            self._tasks.append(run(logins.run(), name=f"logins of {self.domain}"))
            self._tasks.append(run(guard.run(), name=f"keys of {self.domain}"))
        if not self.gateways:
            own = msgspec.structs.replace(self._own, keys=self._keys)
            followed = FollowedVersions(Path(self._versions_path), own)
            self._tasks.append(run(followed.run(), name=f"versions of {self.domain}"))
        self._supervision = Supervision(
            self.domain,
            self.host,
            urls,
            self._federation.digest(),
            brokers,
            self.daemons(),
            login_of(self._keys, HOST_USER),
            logins,
            self._event_logs,
        )
        self._tasks.append(run(self._supervision.run(), name=f"supervision of {self.domain} {self.host}"))
        self._tasks += [run(guard.run(), name=f"guard of {self.domain}") for guard in self._guards()]
        self._tasks.append(run(self._refusals(audit).run(), name=f"refusals of {self.domain}"))

    def _audit_path(self) -> Path:
        where = f"{self.domain}-{self.host}" if self._own.on_several_hosts else self.domain
        return self._run.audit_of(f"{where}-brokers")

    def _refusals(self, audit: AuditLog) -> BrokerRefusals:
        described = {each.name: each.kind for each in (*self._own.succession, *self._own.managements)}
        logs = {name: (described[name], self._run.log(name)) for name in self.brokers}
        keys = self._brokers.keys
        return BrokerRefusals(logs, audit) if keys is None else BrokerRefusals(logs, audit, keys.name_of)

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
        self.end_audit()

    def end_audit(self) -> None:
        """All is said: what has ended by now is the last of it."""
        if self._book is not None and self._audit is not None:
            self._book.look()
            self._audit.close()
        self._book = self._audit = None

    async def end_supervision(self) -> None:
        """Take no orders any more.

        A task may have to be cancelled again: what nats-py does when it connects swallows cancellations.
        """
        health, self._health = self._health, None
        if health is not None:
            await health.close()
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
        self.end_audit()

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

    def _has_gateway(self, number: int) -> bool:
        """Whether the gateway of this number, from 1 on, runs on this host."""
        hosts = [each.name for each in self._federation.domains[self.domain].all_hosts]
        return hosts[(number - 1) % len(hosts)] == self.host

    def _recorded_as(self, number: int) -> str:
        """Under which name a gateway keeps what it writes down."""
        return self.domain if number == 1 else gateway_process(self.domain, number)

    def _gateway(self, number: int) -> ManagedProcess:
        name, recorded_as = gateway_process(self.domain, number), self._recorded_as(number)
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
            health=self._health_at(HealthPort(HealthPort.GATEWAY + number - 1)),
            listen=tuple(listen),
            calls=tuple(calls),
            pair=self._pair(number, name),
            events_path=self._events_path(recorded_as),
            audit_path=str(self._run.audit_of(name)),
            journal_path=str(self._run.journal_of(recorded_as)),
            versions_path=str(self._run.versions_of(recorded_as)),
            reloaded_path=str(self._run.reloaded),
            stimuli_path=str(self._run.stimuli_of(recorded_as)) if self._record_stimuli else "",
        )
        path = self._run.settings(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.encode(settings))
        return ManagedProcess(
            name,
            daemon_command(GATEWAY_MODULE, path),
            log_path=self._run.log(name),
            ready_text=GATEWAY_READY,
        )

    def _health_at(self, which: HealthPort) -> Address | None:
        domain = self._federation.domains[self.domain]
        return health_address(domain, self.host, which, secured=bool(self._keys))

    def _pair(self, number: int, process: str) -> PairSettings | None:
        """What one of two gateways is told of the other."""
        line = self._own.gateway_line
        if line is None:
            return None
        other = self._run.journal_of(self.domain if number == 2 else gateway_process(self.domain, 2))
        return PairSettings(number=number, process=process, line=line, other_journal=str(other))

    def _events_path(self, process: str) -> str:
        path = self._run.events_of(process)
        self._event_logs.append(path)
        return str(path)

    def _agent(self) -> ManagedProcess:
        name = agent_process(self.domain, "" if self._first else self.host)
        settings = AgentSettings(
            federation=self._federation,
            domain=self.domain,
            agent=name,
            endpoints=self._own,
            system_user=self._system_user,
            keys=self._keys,
            health=self._health_at(HealthPort.AGENT),
            versions_path=self._versions_path,
            reloaded_path=str(self._run.reloaded),
            events_path=self._events_path(name),
            audit_path=str(self._run.audit_of(name)),
        )
        path = self._run.settings(name)
        write_private(path, msgspec.json.encode(settings))
        return ManagedProcess(
            name,
            daemon_command(AGENT_MODULE, path),
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
