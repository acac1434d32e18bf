"""A domain on one, two or three hosts whose brokers and hosts fail on request."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from mangrove.config import parse_federation
from mangrove.model.federation import Federation
from mangrove.testbed.hosts.namespaces import HostNetwork
from mangrove.testbed.local_federation import LocalFederation
from mangrove.testbed.mirrors.account import Fault

DOMAIN = "north"
HOSTS = ("h1", "h2", "h3")
BOTH, STANDBY, PLAIN = "both.stream", "standby.stream", "plain.stream"
MIRRORED = (BOTH, STANDBY)
TOPICS = """
topics:
  - {match: "both.>", mirror: true}
  - {match: "standby.>", mirror: standby}
"""
LAYOUTS: dict[int, tuple[int, dict[str, list[str]]]] = {
    1: (2, {}),
    2: (3, {"h1": ["head", "edge1"], "h2": ["edge2", "edge3"]}),
    3: (2, {"h1": ["head"], "h2": ["edge1"], "h3": ["edge2"]}),
}
"""Edges, and brokers by host, for each number of hosts."""
ANYWHERE = "127.0.0.1"


def site_of(hosts: int, addresses: Mapping[str, str] | None = None) -> Federation:
    """A domain with two or three edges on so many hosts, and a topic of each kind."""
    edges, layout = LAYOUTS[hosts]
    found = addresses or dict.fromkeys(layout, ANYWHERE)
    lines = [
        f"      {host}: {{address: {found[host]}, brokers: [{', '.join(brokers)}]}}"
        for host, brokers in layout.items()
    ]
    text = "\n".join(
        [
            "federation: mirrored",
            "domains:",
            f"  {DOMAIN}:",
            f"    edges: {edges}",
            *(["    hosts:", *lines] if lines else []),
            TOPICS,
        ]
    )
    return parse_federation(text, "mirrored").require()


class FailingSite:
    """The processes of such a domain. Use as an async context manager.

    With a `network` every host has a namespace of its own and can be cut off; else all are on loopback.
    """

    def __init__(self, hosts: int, directory: Path, network: HostNetwork | None = None) -> None:
        self._network = network
        names = list(LAYOUTS[hosts][1])
        addresses = None if network is None else {host: network.address(host) for host in names}
        inside = {} if network is None else {(DOMAIN, host): network.inside(host) for host in names}
        self.federation = LocalFederation(
            site_of(hosts, addresses), directory, ephemeral=network is None, inside=inside
        )
        self._struck: list[tuple[Fault, str, int]] = []
        """Fault, host and process of what is to be undone."""

    async def __aenter__(self) -> Self:
        await self.federation.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.heal()
        await self.federation.stop()

    @property
    def urls(self) -> list[str]:
        """Where clients connect: the head first, as its own description has it."""
        return [broker.client_url for broker in self.federation.endpoints[DOMAIN].succession]

    @property
    def head(self) -> str:
        """The broker at which publishers publish."""
        return self.federation.endpoints[DOMAIN].head.name

    def host_of(self, broker: str) -> str:
        """Where a broker runs."""
        endpoints = self.federation.endpoints[DOMAIN]
        return next(each.machine for each in endpoints.succession if each.name == broker)

    def pid_of(self, broker: str) -> int | None:
        """The process of a broker; None while it does not run."""
        hosts = self.federation.hosts.get(DOMAIN)
        if hosts:
            return hosts[self.host_of(broker)].pid_of(broker)
        return next(each.pid for each in self.federation.processes() if each.name == broker)

    async def strike(self, fault: Fault, broker: str) -> None:
        """A broker fails, or the host that it is on."""
        host = self.host_of(broker)
        if fault is Fault.CUT_OFF:
            assert self._network is not None, "only hosts with a network of their own can be cut off"
            self._struck.append((fault, host, 0))
            await self._network.cut_off(host)
            return
        pid = self.pid_of(broker)
        if pid is not None:
            self._struck.append((fault, host, pid))
            send(pid, signal.SIGKILL if fault is Fault.KILL else signal.SIGSTOP)

    async def heal(self) -> None:
        """Undo what can be undone; supervisors bring back what was killed."""
        struck, self._struck = self._struck, []
        for fault, host, pid in struck:
            if fault is Fault.CUT_OFF and self._network is not None:
                await self._network.join(host)
            elif fault is Fault.FREEZE:
                send(pid, signal.SIGCONT)


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process that may be gone: who was frozen may have been replaced."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
