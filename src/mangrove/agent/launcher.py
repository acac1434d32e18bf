"""Runs a federation on this machine, or one site or host of it: lock, ports, sites, the runtime file."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import msgspec

from mangrove.agent.hosting.host_process import HostProcess
from mangrove.agent.hosting.settings import HostSettings
from mangrove.agent.hosting.supervision import check_agreement
from mangrove.agent.site import Site, new_system_user
from mangrove.errors import InputError, InvalidDocumentError, MangroveError, Mistake
from mangrove.host.keys.directory import KeyDirectory
from mangrove.host.keys.logins.user_login import login_of
from mangrove.host.ports import PortReservation
from mangrove.host.process import STOP_WITHIN_S, ManagedProcess, stop_in_order
from mangrove.host.run_directory import RunDirectory
from mangrove.host.runtime_file import lock_directory, write_runtime
from mangrove.model.address import Address
from mangrove.model.agents.credentials import Credentials
from mangrove.model.endpoints import DomainEndpoints, Runtime, fixed_endpoints, lay_out, shown_locally
from mangrove.model.federation import Domain, Federation, Host
from mangrove.model.security.rules import Security, SecurityMode
from mangrove.model.security.users import HOST_USER

log = logging.getLogger(__name__)

ANYWHERE = "127.0.0.1"
SUPERVISORS_STOP_S = STOP_WITHIN_S + 1.0
"""What a supervisor needs to stop its own children, each of which may have to be killed."""


class Launcher:
    """Starts, supervises and stops the processes of a federation. Use as an async context manager.

    With `keys`, a key directory, everybody proves who it is. With `only`, one site is run and the others are
    elsewhere; with `host`, one host of it, and then the agents' `secret`, which all its hosts share.
    Otherwise each host of a site that has several is a supervisor of its own, which may run `inside`
    something that has a network of its own. With `ephemeral` ports any number of federations run side by
    side; otherwise the ports are those of the federation file. With `record_stimuli`, what the gateways'
    engines are told is recorded, to be replayed. Without `agents`, load is neither watched nor moved, as far
    as a measurement must not have that.
    """

    def __init__(
        self,
        federation: Federation,
        directory: Path,
        *,
        only: str | None = None,
        host: str | None = None,
        secret: str = "",
        keys: Path | None = None,
        inside: Mapping[tuple[str, str], Sequence[str]] | None = None,
        ephemeral: bool = False,
        record_stimuli: bool = False,
        agents: bool = True,
        progress: Callable[[str], None] = log.info,
    ) -> None:
        check_choice(federation, only, host)
        mode = SecurityMode.NONE if keys is None else SecurityMode.KEYS
        self.federation = msgspec.structs.replace(federation, security=Security(mode=mode))
        """As it runs here: whether it is secured is what all processes agree on, and not where keys are."""
        self.run = RunDirectory(directory)
        self.sites: dict[str, Site] = {}
        """Domains, or the one host of one, that this process supervises itself."""
        self.hosts: dict[str, dict[str, HostProcess]] = {}
        """Hosts of domains with several, by domain and name."""
        self.endpoints: dict[str, DomainEndpoints] = {}
        self.ports = PortReservation()
        self.local_domains = list(federation.domains) if only is None else [only]
        self._host = host
        self._secret = secret
        self.keys = None if keys is None else keys.absolute()
        """The key directory; None: nobody proves who it is."""
        self._inside = dict(inside or {})
        self._ephemeral = ephemeral
        self._record_stimuli = record_stimuli
        self._agents = agents
        self._progress = progress
        self._lock: IO[str] | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def directory(self) -> Path:
        """Where all files of this run are."""
        return self.run.path

    # -- life ---------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start everything, or nothing: a failure stops what was started and is raised."""
        self._lock = lock_directory(self.run)
        try:
            await asyncio.to_thread(self._prepare_keys)
            self._resolve()
            await self._start_links()
            for name in self.local_domains:
                await self._make_site(name)
            await self._start_sites()
            write_runtime(self.run, self.runtime())
        except BaseException:
            await self.stop()
            raise

    def _prepare_keys(self) -> None:
        """Refuse to start with keys that are missing or that others may know."""
        if self.keys is None:
            return
        from mangrove.host.keys.checking import check_site

        for name in self.local_domains:
            check_site(self.keys, self.federation, name, self._host)

    def keys_of(self, domain: str) -> str:
        """The folder with the keys of a domain; empty: nobody proves who it is."""
        return "" if self.keys is None else str(KeyDirectory(self.keys).domain(domain).path)

    async def _make_site(self, name: str) -> None:
        """A site that this process runs, or the supervisors of its hosts."""
        hosts = self.federation.domains[name].all_hosts
        user = new_system_user(self._secret)
        if self._host is None and len(hosts) > 1:
            self.hosts[name] = {host.name: self._host_process(name, host.name, user) for host in hosts}
            return
        host = hosts[0].name if self._host is None else self._host
        if len(hosts) > 1:
            urls = [broker.client_url for broker in self.endpoints[name].managements]
            login = login_of(self.keys_of(name), HOST_USER)
            await check_agreement(name, host, self.federation.digest(), urls, login)
        self.sites[name] = Site(
            self.federation,
            self.endpoints,
            name,
            self.run,
            host=host,
            calls_through=self._calls_through(name),
            record_stimuli=self._record_stimuli,
            agents=self._agents,
            system_user=user,
            keys=self.keys_of(name),
        )

    def _host_process(self, domain: str, host: str, user: Credentials) -> HostProcess:
        settings = HostSettings(
            federation=self.federation,
            endpoints=self.endpoints,
            domain=domain,
            host=host,
            directory=str(self.run.path),
            system_user=user,
            keys=self.keys_of(domain),
            calls_through=dict(self._calls_through(domain)),
            record_stimuli=self._record_stimuli,
            agents=self._agents,
        )
        return HostProcess(settings, inside=self._inside.get((domain, host), ()))

    async def until_refused(self) -> None:
        """Return never, or with an error when what runs here must not go on beside other hosts."""
        if self.sites:
            await asyncio.gather(*(site.until_refused() for site in self.sites.values()))
        await asyncio.Event().wait()

    async def stop(self) -> None:
        """Stop all processes, within seconds whatever state they are in, and give the ports back."""
        for site in self.sites.values():
            await site.end_supervision()
        supervisors = [host.process for host in self._all_hosts()]
        daemons = [daemon for site in self.sites.values() for daemon in site.daemons()]
        others = [each for each in self.processes() if each not in (*daemons, *supervisors)]
        try:
            await asyncio.gather(
                stop_in_order(supervisors, within_s=SUPERVISORS_STOP_S), stop_in_order(daemons, others)
            )
        finally:
            for site in self.sites.values():
                site.end_audit()
            self.ports.release()
            if self._lock is not None:
                self._lock.close()

    def runtime(self) -> Runtime:
        """Where everything listens."""
        return Runtime(
            federation=self.federation,
            domains=self.endpoints,
            pid=os.getpid(),
            agents=self._agents,
            keys="" if self.keys is None else str(self.keys),
        )

    def processes(self) -> list[ManagedProcess]:
        """Everything that was started."""
        supervisors = [host.process for host in self._all_hosts()]
        return supervisors + [process for site in self.sites.values() for process in site.processes()]

    def _all_hosts(self) -> list[HostProcess]:
        return [host for hosts in self.hosts.values() for host in hosts.values()]

    async def _start_sites(self) -> None:
        starting: dict[str, Site | HostProcess] = dict(self.sites)
        starting |= {f"{host.domain} {host.host}": host for host in self._all_hosts()}
        waiting = dict.fromkeys(starting)

        async def start(name: str, site: Site | HostProcess) -> None:
            await site.start()
            del waiting[name]
            self._progress(f"{name} is up" + (f", waiting for {', '.join(waiting)}" if waiting else ""))

        results = await asyncio.gather(
            *(start(name, site) for name, site in starting.items()),
            *(process.start() for process in self._beside_sites()),
            return_exceptions=True,
        )
        for result in results:
            if isinstance(result, BaseException):
                raise result

    # -- what links go through, if not the network ----------------------------------------------------------

    async def _start_links(self) -> None:
        """Called when all addresses are settled and before the sites start. The network needs nothing."""

    def _beside_sites(self) -> Sequence[ManagedProcess]:
        """What links go through and starts with the sites: gateways call again until they are answered."""
        return ()

    def _calls_through(self, _domain: str) -> Mapping[str, tuple[Address, ...]]:
        """Where a site calls a neighbour's gateways instead of at their own addresses, by neighbour."""
        return {}

    # -- addresses ----------------------------------------------------------------------------------------

    def _resolve(self) -> None:
        """Settle all addresses and keep the local ports away from others."""
        mistakes: list[Mistake] = []
        for name, domain in self.federation.domains.items():
            if self._ephemeral:
                addresses = sorted({host.address for host in self._reservable(domain)} or {ANYWHERE})
                self.endpoints[name] = self._shown(lay_out(domain, partial(self._any_port, addresses)))
                continue
            endpoints = self.endpoints[name] = self._shown(fixed_endpoints(domain))
            if name in self.local_domains:
                mistakes += self._reserve_domain(endpoints)
        for index, link in enumerate(self.federation.links):
            for side in link.endpoints:
                endpoint = link.endpoint(side)
                if endpoint is not None and side in self.local_domains and self._host is None:
                    mistakes += self._reserve(endpoint, f"links[{index}].endpoints.{side}")
        if mistakes:
            raise InvalidDocumentError(
                f"the federation {self.federation.name!r}",
                mistakes,
                hint="stop what uses these ports, choose another base_port, or run one site with --domain",
            )

    def _shown(self, endpoints: DomainEndpoints) -> DomainEndpoints:
        """With where commands find the keys of a domain, if they are on this machine.

        Brokers that want keys show their pages to nobody who has none: to their own machine alone.
        """
        if self.keys is None:
            return endpoints
        keys = self.keys_of(endpoints.domain)
        shown = shown_locally(endpoints)
        return msgspec.structs.replace(shown, keys=keys) if keys and Path(keys).is_dir() else shown

    def _reservable(self, domain: Domain) -> list[Host]:
        """The hosts of a domain that are on this machine, and in its own network."""
        return [
            host
            for host in domain.all_hosts
            if self._host in (None, host.name) and (domain.name, host.name) not in self._inside
        ]

    def _any_port(self, addresses: Sequence[str], _offset: int) -> int:
        """A port that is free at all addresses of a domain."""
        while True:
            port = self.ports.take(addresses[0])
            try:
                for address in addresses[1:]:
                    self.ports.take(address, port)
            except MangroveError:
                continue
            return port

    def _reserve_domain(self, endpoints: DomainEndpoints) -> list[Mistake]:
        domain = self.federation.domains[endpoints.domain]
        where = f"domains.{endpoints.domain}.base_port"
        here = {host.name: host.address for host in self._reservable(domain)}
        mistakes: list[Mistake] = []
        line = () if endpoints.gateway_line is None else (endpoints.gateway_line,)
        for gateway in (*endpoints.gateways, *line):
            if gateway.host in here.values():
                mistakes += self._reserve(gateway, where)
        for broker in (*endpoints.brokers(), *endpoints.spares):
            if broker.external or broker.machine not in here:
                continue
            offered = [broker.client_port, broker.mqtt_port, broker.leaf_port, broker.route_port]
            offered.append(broker.stomp_port)
            addresses = [Address(broker.host, port) for port in offered if port is not None]
            shown = (broker.monitor_port, broker.management_port)
            pages = broker.monitor_host or broker.host
            addresses += [Address(pages, port) for port in shown if port is not None]
            for address in addresses:
                mistakes += self._reserve(address, where)
        return mistakes

    def _reserve(self, address: Address, where: str) -> list[Mistake]:
        try:
            self.ports.take(*address)
        except MangroveError as error:
            return [Mistake(where, error.message)]
        return []


def check_choice(federation: Federation, only: str | None, host: str | None) -> None:
    """Refuse a site, or a host of one, that the federation does not have."""
    if only is not None and only not in federation.domains:
        raise InputError(
            f"the federation {federation.name!r} has no domain {only!r}",
            hint=f"choose one of: {', '.join(federation.domains)}",
        )
    if host is None:
        return
    if only is None:
        raise InputError("a host is one of a domain", hint="say which with --domain")
    hosts = [each.name for each in federation.domains[only].hosts]
    if host not in hosts:
        known = f"choose one of: {', '.join(hosts)}" if hosts else "name some under `hosts` of the domain"
        raise InputError(f"the domain {only!r} has no host {host!r}", hint=known)
