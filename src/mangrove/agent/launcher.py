"""Runs a federation on this machine, or one site of it: lock, ports, sites and the runtime file."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from mangrove.agent.site import Site
from mangrove.errors import InputError, InvalidDocumentError, MangroveError, Mistake
from mangrove.host.ports import PortReservation
from mangrove.host.process import ManagedProcess, stop_in_order
from mangrove.host.run_directory import RunDirectory
from mangrove.host.runtime_file import lock_directory, write_runtime
from mangrove.model.address import Address
from mangrove.model.endpoints import DomainEndpoints, Runtime, fixed_endpoints, lay_out
from mangrove.model.federation import Federation

log = logging.getLogger(__name__)


class Launcher:
    """Starts, supervises and stops the processes of a federation. Use as an async context manager.

    With `only`, one site is run and the others are elsewhere. With `ephemeral` ports any number of
    federations run side by side; otherwise the ports are those of the federation file. With
    `record_stimuli`, what the gateways' engines are told is recorded, to be replayed. Without `agents`, load
    is neither watched nor moved, as far as a measurement must not have that.
    """

    def __init__(
        self,
        federation: Federation,
        directory: Path,
        *,
        only: str | None = None,
        ephemeral: bool = False,
        record_stimuli: bool = False,
        agents: bool = True,
        progress: Callable[[str], None] = log.info,
    ) -> None:
        if only is not None and only not in federation.domains:
            raise InputError(
                f"the federation {federation.name!r} has no domain {only!r}",
                hint=f"choose one of: {', '.join(federation.domains)}",
            )
        self.federation = federation
        self.run = RunDirectory(directory)
        self.sites: dict[str, Site] = {}
        self.endpoints: dict[str, DomainEndpoints] = {}
        self.ports = PortReservation()
        self._local_domains = list(federation.domains) if only is None else [only]
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
            self._resolve()
            await self._start_links()
            for name in self._local_domains:
                self.sites[name] = Site(
                    self.federation,
                    self.endpoints,
                    name,
                    self.run,
                    calls_through=self._calls_through(name),
                    record_stimuli=self._record_stimuli,
                    agents=self._agents,
                )
            await self._start_sites()
            write_runtime(self.run, self.runtime())
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop all processes, within seconds whatever state they are in, and give the ports back."""
        daemons = [daemon for site in self.sites.values() for daemon in site.daemons()]
        try:
            await stop_in_order(daemons, [each for each in self.processes() if each not in daemons])
        finally:
            self.ports.release()
            if self._lock is not None:
                self._lock.close()

    def runtime(self) -> Runtime:
        """Where everything listens."""
        return Runtime(
            federation=self.federation, domains=self.endpoints, pid=os.getpid(), agents=self._agents
        )

    def processes(self) -> list[ManagedProcess]:
        """Everything that was started."""
        return [process for site in self.sites.values() for process in site.processes()]

    async def _start_sites(self) -> None:
        waiting = set(self.sites)

        async def start(site: Site) -> None:
            await site.start()
            waiting.discard(site.domain)
            self._progress(
                f"{site.domain} is up" + (f", waiting for {', '.join(waiting)}" if waiting else "")
            )

        results = await asyncio.gather(*map(start, self.sites.values()), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    # -- what links go through, if not the network ----------------------------------------------------------

    async def _start_links(self) -> None:
        """Called when all addresses are settled and before the sites start. The network needs nothing."""

    def _calls_through(self, _domain: str) -> Mapping[str, tuple[Address, ...]]:
        """Where a site calls a neighbour's gateways instead of at their own addresses, by neighbour."""
        return {}

    # -- addresses ----------------------------------------------------------------------------------------

    def _resolve(self) -> None:
        """Settle all addresses and keep the local ports away from others."""
        mistakes: list[Mistake] = []
        for name, domain in self.federation.domains.items():
            if self._ephemeral:
                self.endpoints[name] = lay_out(domain, partial(self._any_port, domain.address))
                continue
            endpoints = self.endpoints[name] = fixed_endpoints(domain)
            if name in self._local_domains:
                mistakes += self._reserve_domain(endpoints)
        for index, link in enumerate(self.federation.links):
            for side in link.endpoints:
                endpoint = link.endpoint(side)
                if endpoint is not None and side in self._local_domains:
                    mistakes += self._reserve(endpoint, f"links[{index}].endpoints.{side}")
        if mistakes:
            raise InvalidDocumentError(
                f"the federation {self.federation.name!r}",
                mistakes,
                hint="stop what uses these ports, choose another base_port, or run one site with --domain",
            )

    def _any_port(self, host: str, _offset: int) -> int:
        return self.ports.take(host)

    def _reserve_domain(self, endpoints: DomainEndpoints) -> list[Mistake]:
        where = f"domains.{endpoints.domain}.base_port"
        line = () if endpoints.gateway_line is None else (endpoints.gateway_line,)
        mistakes = [each for own in (*endpoints.gateways, *line) for each in self._reserve(own, where)]
        for broker in endpoints.brokers():
            ports = (broker.client_port, broker.mqtt_port, broker.monitor_port, broker.leaf_port)
            for port in ports:
                if port is not None and not broker.external:
                    mistakes += self._reserve(Address(broker.host, port), where)
        return mistakes

    def _reserve(self, address: Address, where: str) -> list[Mistake]:
        try:
            self.ports.take(*address)
        except MangroveError as error:
            return [Mistake(where, error.message)]
        return []
