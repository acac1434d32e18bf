"""A federation on this machine: all of its sites, or one of them, with emulated links in between."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from mangrove.agent.site import Site, callee_address
from mangrove.broker.nats.config import log_path
from mangrove.errors import InputError, InvalidDocumentError, MangroveError, Mistake
from mangrove.host.ports import PortReservation
from mangrove.host.process import ManagedProcess
from mangrove.host.runtime_file import lock_directory, write_runtime
from mangrove.model.endpoints import DomainEndpoints, Runtime, fixed_endpoints, lay_out
from mangrove.model.federation import Federation, Link
from mangrove.testbed.shaping import Shape
from mangrove.testbed.wan import READY_TEXT, Answer, ShapeChange, WanLink, WanSettings

log = logging.getLogger(__name__)


class LocalFederation:
    """Starts, supervises and stops the processes of a federation. Use as an async context manager.

    With `ephemeral` ports any number of federations run side by side; otherwise the ports are those of the
    federation file. With `only`, one site of a federation that spans several machines is run, and its links
    are what they are: nothing is emulated.
    """

    def __init__(
        self,
        federation: Federation,
        directory: Path,
        *,
        ephemeral: bool = False,
        only: str | None = None,
        seed: int = 1,
        progress: Callable[[str], None] = log.info,
    ) -> None:
        if only is not None and only not in federation.domains:
            raise InputError(
                f"the federation {federation.name!r} has no domain {only!r}",
                hint=f"choose one of: {', '.join(federation.domains)}",
            )
        self.federation = federation
        self.directory = directory
        self.sites: dict[str, Site] = {}
        self.endpoints: dict[str, DomainEndpoints] = {}
        self._ephemeral = ephemeral
        self._only = only
        self._seed = seed
        self._progress = progress
        self._ports = PortReservation()
        self._shapes: dict[str, Shape] = {}
        self._wan: ManagedProcess | None = None
        self._control: tuple[str, int] | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    # -- life ---------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start everything, or nothing: a failure stops what was started and is raised."""
        self._lock = lock_directory(self.directory)
        try:
            self._resolve()
            await self._start_wan()
            for name in self._local_domains():
                self.sites[name] = Site(
                    self.federation,
                    self.endpoints,
                    name,
                    self.directory,
                    calls_through=self._calls_through(name),
                )
            await self._start_sites()
            write_runtime(self.directory, self.runtime())
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop all processes and give the ports back."""
        await asyncio.gather(*(site.stop() for site in self.sites.values()))
        if self._wan is not None:
            await self._wan.stop()
        self._ports.release()
        self._lock.close()

    def runtime(self) -> Runtime:
        """Where everything listens."""
        return Runtime(
            federation=self.federation, domains=self.endpoints, pid=os.getpid(), wan_control=self._control
        )

    def processes(self) -> list[ManagedProcess]:
        """Everything that was started."""
        processes = [process for site in self.sites.values() for process in site.processes()]
        return [*processes, self._wan] if self._wan is not None else processes

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

    # -- addresses ----------------------------------------------------------------------------------------

    def _local_domains(self) -> list[str]:
        return [self._only] if self._only is not None else list(self.federation.domains)

    def _resolve(self) -> None:
        """Settle all addresses and keep the local ports away from others."""
        mistakes: list[Mistake] = []
        local = set(self._local_domains())
        for name, domain in self.federation.domains.items():
            if self._ephemeral:
                self.endpoints[name] = lay_out(domain, partial(self._any_port, domain.address))
                continue
            endpoints = self.endpoints[name] = fixed_endpoints(domain)
            if name in local:
                mistakes += self._reserve(endpoints)
        for index, link in enumerate(self.federation.links):
            for side, endpoint in link.endpoints.items():
                if side in local:
                    host, _, port = endpoint.rpartition(":")
                    mistakes += self._reserve_port(
                        host.strip("[]"), int(port), f"links[{index}].endpoints.{side}"
                    )
        if mistakes:
            raise InvalidDocumentError(
                f"the federation {self.federation.name!r}",
                mistakes,
                hint="stop what uses these ports, choose another base_port, or run one site with --domain",
            )

    def _any_port(self, host: str, _offset: int) -> int:
        return self._ports.take(host)

    def _reserve(self, endpoints: DomainEndpoints) -> list[Mistake]:
        where = f"domains.{endpoints.domain}.base_port"
        mistakes = self._reserve_port(endpoints.gateway_host, endpoints.gateway_port, where)
        for broker in endpoints.brokers():
            ports = (broker.client_port, broker.mqtt_port, broker.monitor_port, broker.leaf_port)
            for port in ports:
                if port is not None and not broker.external:
                    mistakes += self._reserve_port(broker.host, port, where)
        return mistakes

    def _reserve_port(self, host: str, port: int, where: str) -> list[Mistake]:
        try:
            self._ports.take(host, port)
        except MangroveError as error:
            return [Mistake(where, error.message)]
        return []

    # -- emulated links -----------------------------------------------------------------------------------

    def _emulated_links(self) -> list[Link]:
        return list(self.federation.links) if self._only is None else []

    async def _start_wan(self) -> None:
        """All links of a federation on one machine go through the emulator, so that any can be disturbed."""
        links = self._emulated_links()
        if not links:
            return
        self._control = ("127.0.0.1", self._ports.take("127.0.0.1"))
        relayed = []
        for link in links:
            callee = max(link.between)
            shape = Shape(
                delay_ms=link.delay_ms or 0.0,
                jitter_ms=link.jitter_ms,
                bandwidth_mbps=link.bandwidth_mbps,
                loss_ratio=link.loss_ratio,
            )
            name = link_name(*link.between)
            self._shapes[name] = shape
            relayed.append(
                WanLink(
                    name=name,
                    listen=("127.0.0.1", self._ports.take("127.0.0.1")),
                    target=callee_address(link, callee, self.endpoints[callee]),
                    shape=shape,
                )
            )
        self._relays = {relay.name: relay.listen for relay in relayed}
        settings = WanSettings(control=self._control, links=tuple(relayed), seed=self._seed)
        self._wan = emulator(settings, self.directory)
        await self._wan.start()

    def _calls_through(self, domain: str) -> dict[str, tuple[str, int]]:
        return {
            link.other(domain): self._relays[link_name(*link.between)]
            for link in self._emulated_links()
            if domain == min(link.between)
        }

    async def reshape(self, first: str, second: str, **changes: float | bool | None) -> Shape:
        """Change the emulated link between two domains, e.g. `delay_ms=80` or `black_hole=True`."""
        name = link_name(first, second)
        if self._control is None or name not in self._shapes:
            raise InputError(f"{first} and {second} are not joined by an emulated link")
        shape = msgspec.structs.replace(self._shapes[name], **changes)
        await send_shape(self._control, name, shape)
        self._shapes[name] = shape
        return shape


def emulator(settings: WanSettings, directory: Path) -> ManagedProcess:
    """A WAN emulator that will run with these settings; its files go below `directory`."""
    path = directory / "wan.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.encode(settings))
    return ManagedProcess(
        "wan",
        [sys.executable, "-m", "mangrove.testbed.wan", str(path)],
        log_path=log_path(directory, "wan"),
        ready_text=READY_TEXT,
    )


def link_name(first: str, second: str) -> str:
    """The emulator's name of the link between two domains."""
    return "--".join(sorted((first, second)))


async def send_shape(control: tuple[str, int], name: str, shape: Shape) -> None:
    """Ask a running emulator to change a link."""
    reader, writer = await asyncio.open_connection(*control)
    try:
        writer.write(msgspec.json.encode(ShapeChange(link=name, shape=shape)) + b"\n")
        answer = msgspec.json.decode(await reader.readline(), type=Answer)
    finally:
        writer.close()
    if not answer.ok:
        raise InputError(answer.error)
