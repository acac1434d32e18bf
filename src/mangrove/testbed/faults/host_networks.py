"""Hosts with networks of their own on this machine, so that one can really be cut off.

Needs root and `ip`. A bridge joins the hosts; each has a network namespace and one address. To cut a host off
takes its cable down: packets vanish, nobody is told, and connections stay open.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from mangrove.errors import MangroveError

PREFIX_BITS = 16
NAME_LENGTH = 15
"""What a network interface may be called at most."""


def networks_problem() -> str:
    """Why hosts cannot have networks of their own here, or an empty string."""
    if shutil.which("ip") is None:
        return "the program ip is missing"
    return "" if os.geteuid() == 0 else "only root may make networks"


class HostNetworks:
    """Namespaces for hosts, by their addresses in one network. Use as an async context manager.

    `tag` names bridge and namespaces, so that several can be on one machine; `gateway` is this machine's own
    address in that network.
    """

    def __init__(self, tag: str, gateway: str, addresses: Mapping[str, str]) -> None:
        self._bridge = f"{tag}br"
        self._gateway = gateway
        self._addresses = dict(addresses)
        self._spaces = {host: f"{tag}{host}" for host in addresses}
        if any(len(name) > NAME_LENGTH for name in (self._bridge, *self._spaces.values())):
            raise MangroveError(f"the tag {tag!r} makes names that are too long for network interfaces")

    async def __aenter__(self) -> Self:
        try:
            await _ip("link", "add", self._bridge, "type", "bridge")
            await _ip("addr", "add", f"{self._gateway}/{PREFIX_BITS}", "dev", self._bridge)
            await _ip("link", "set", self._bridge, "up")
            for host, space in self._spaces.items():
                await _ip("netns", "add", space)
                await _ip("link", "add", space, "type", "veth", "peer", "name", "eth0", "netns", space)
                await _ip("link", "set", space, "master", self._bridge, "up")
                inside = ("-n", space)
                await _ip(*inside, "addr", "add", f"{self._addresses[host]}/{PREFIX_BITS}", "dev", "eth0")
                await _ip(*inside, "link", "set", "eth0", "up")
                await _ip(*inside, "link", "set", "lo", "up")
        except BaseException:
            await self._remove()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._remove()

    def inside(self, domain: str) -> dict[tuple[str, str], Sequence[str]]:
        """What the launcher puts before the commands of a domain's hosts."""
        return {(domain, host): ("ip", "netns", "exec", space) for host, space in self._spaces.items()}

    async def cut_off(self, host: str) -> None:
        """Let everything that goes to a host or comes from it vanish."""
        await _ip("link", "set", self._spaces[host], "down")

    async def join(self, host: str) -> None:
        """Let it through again."""
        await _ip("link", "set", self._spaces[host], "up")

    async def _remove(self) -> None:
        for space in self._spaces.values():
            with contextlib.suppress(MangroveError):
                await _ip("netns", "del", space)
            with contextlib.suppress(MangroveError):  # it goes with its namespace, if it had come so far
                await _ip("link", "del", space)
        with contextlib.suppress(MangroveError):
            await _ip("link", "del", self._bridge)


async def _ip(*words: str) -> None:
    process = await asyncio.create_subprocess_exec(
        "ip", *words, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    _, told = await process.communicate()
    if process.returncode:
        raise MangroveError(f"ip {' '.join(words)}: {told.decode(errors='replace').strip()}")
