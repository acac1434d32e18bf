"""Hosts of a site as network namespaces of this machine, joined by a bridge, each of which can be cut off.

A host that is cut off is not closed: its processes run on, nothing that is sent arrives, and nobody is told.
That is how a broken switch or a lost machine looks from outside, and no signal to a process can imitate it.
Needs root and iproute2.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from mangrove.errors import MangroveError

PREFIX = "mgr"
COMMAND_S = 10.0
OUTSIDE = 254
"""The last part of this machine's own address; those of the hosts count from 1."""


class HostNetwork:
    """A bridge of its own, and a namespace behind it for each host. Use as an async context manager."""

    def __init__(self, hosts: Sequence[str]) -> None:
        token = secrets.token_hex(2)
        self._bridge = f"{PREFIX}{token}"
        self.net = f"10.{100 + secrets.randbelow(100)}.{secrets.randbelow(256)}"
        """The first three parts of all addresses."""
        self._namespaces = {host: f"{PREFIX}{token}-{number}" for number, host in enumerate(hosts)}
        self._lines = {host: f"{PREFIX}{token}h{number}" for number, host in enumerate(hosts)}
        self._addresses = {host: f"{self.net}.{number + 1}" for number, host in enumerate(hosts)}
        self._made: list[list[str]] = []
        """What undoes what was made, latest last."""

    async def __aenter__(self) -> Self:
        try:
            await self._make()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def address(self, host: str) -> str:
        """Where a host is reached, from here and from the others."""
        return self._addresses[host]

    @property
    def outside(self) -> str:
        """The address of this machine among them."""
        return f"{self.net}.{OUTSIDE}"

    def inside(self, host: str) -> tuple[str, ...]:
        """What to write before a command that is to run on a host."""
        return ("ip", "netns", "exec", self._namespaces[host])

    async def cut_off(self, host: str) -> None:
        """From now on nothing reaches a host, and nothing leaves it."""
        await _ip("link", "set", self._lines[host], "down")

    async def join(self, host: str) -> None:
        """It is reached again."""
        await _ip("link", "set", self._lines[host], "up")

    async def close(self) -> None:
        """Take everything away, whatever runs there."""
        made, self._made = self._made, []
        for undo in reversed(made):
            await _ip(*undo, ignore=True)

    async def _make(self) -> None:
        if os.geteuid() != 0:
            raise MangroveError("hosts of their own need root", hint="run this as root")
        await self._do(["link", "add", self._bridge, "type", "bridge"], ["link", "del", self._bridge])
        await _ip("addr", "add", f"{self.outside}/24", "dev", self._bridge)
        await _ip("link", "set", self._bridge, "up")
        for host, namespace in self._namespaces.items():
            line = self._lines[host]
            await self._do(["netns", "add", namespace], ["netns", "del", namespace])
            await self._do(
                ["link", "add", line, "type", "veth", "peer", "name", "eth0", "netns", namespace],
                ["link", "del", line],
            )
            await _ip("link", "set", line, "master", self._bridge)
            await _ip("link", "set", line, "up")
            for each in (
                ("addr", "add", f"{self.address(host)}/24", "dev", "eth0"),
                ("link", "set", "eth0", "up"),
                ("link", "set", "lo", "up"),
            ):
                await _ip("-n", namespace, *each)

    async def _do(self, make: list[str], undo: list[str]) -> None:
        await _ip(*make)
        self._made.append(undo)


async def _ip(*arguments: str, ignore: bool = False) -> None:
    """Run iproute2's `ip`; what it says becomes the error."""
    try:
        process = await asyncio.create_subprocess_exec(
            "ip", *arguments, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
        )
    except FileNotFoundError:
        raise MangroveError("the program ip is missing", hint="install iproute2") from None
    async with asyncio.timeout(COMMAND_S):
        _, said = await process.communicate()
    if process.returncode and not ignore:
        raise MangroveError(f"ip {' '.join(arguments)}: {said.decode(errors='replace').strip()}")
