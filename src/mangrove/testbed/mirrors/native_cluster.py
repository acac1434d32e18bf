"""Three plain nats-servers in a cluster, each on a host of its own: what NATS does without Mangrove.

Everything is left at the server's defaults but one: servers notice each other's silence as early as those of
Mangrove do, so that what is compared is the design and not a setting.
"""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from types import TracebackType
from typing import Self

from mangrove.broker.nats.server import READY_TEXT, nats_server_binary
from mangrove.errors import MangroveError
from mangrove.host.process import ManagedProcess, stop_in_order
from mangrove.host.run_directory import RunDirectory
from mangrove.testbed.hosts.namespaces import HostNetwork
from mangrove.testbed.mirrors.account import Fault
from mangrove.testbed.mirrors.site import send

CLIENT_PORT, ROUTE_PORT = 4222, 6222
JOINED_S = 15.0
PING_INTERVAL = "1s"
PINGS = 2


class NativeCluster:
    """Starts and stops one server on each host of a network. Use as an async context manager."""

    def __init__(self, network: HostNetwork, hosts: tuple[str, ...], directory: Path) -> None:
        self._network = network
        self._hosts = hosts
        run = RunDirectory(directory)
        self.servers: dict[str, ManagedProcess] = {}
        self._frozen: set[int] = set()
        self._cut_off: set[str] = set()
        for host in hosts:
            name = f"native-{host}"
            path = run.broker_config(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self._config(host, name, run))
            self.servers[host] = ManagedProcess(
                name,
                [*network.inside(host), nats_server_binary(), "--config", str(path)],
                log_path=run.log(name),
                ready_text=READY_TEXT,
            )

    def url(self, host: str) -> str:
        """Where clients reach the server of a host."""
        return f"nats://{self._network.address(host)}:{CLIENT_PORT}"

    def urls(self, first: str) -> list[str]:
        """All servers, beginning with this host's."""
        return [self.url(host) for host in (first, *(each for each in self._hosts if each != first))]

    async def strike(self, fault: Fault, host: str) -> None:
        """The server of a host fails, or the host."""
        if fault is Fault.CUT_OFF:
            self._cut_off.add(host)
            await self._network.cut_off(host)
            return
        pid = self.servers[host].pid
        if pid is not None:
            send(pid, signal.SIGKILL if fault is Fault.KILL else signal.SIGSTOP)
            self._frozen |= {pid} if fault is Fault.FREEZE else set()

    async def heal(self) -> None:
        """Undo what can be undone; what was killed is started again by itself."""
        while self._frozen:
            send(self._frozen.pop(), signal.SIGCONT)
        while self._cut_off:
            await self._network.join(self._cut_off.pop())

    async def __aenter__(self) -> Self:
        try:
            await asyncio.gather(*(server.start() for server in self.servers.values()))
            await self._joined()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.heal()
        await self.stop()

    async def stop(self) -> None:
        """Stop all servers."""
        await stop_in_order(self.servers.values())

    async def _joined(self) -> None:
        """A message from each server to each other one arrives."""
        import nats

        clients = [await nats.connect(self.url(host)) for host in self._hosts]
        try:
            heard: set[tuple[int, bytes]] = set()
            for number, client in enumerate(clients):

                async def note(message: object, number: int = number) -> None:
                    heard.add((number, message.data))  # type: ignore[attr-defined]

                await client.subscribe("joined", cb=note)
            async with asyncio.timeout(JOINED_S):
                while len(heard) < len(clients) ** 2:
                    for number, client in enumerate(clients):
                        await client.publish("joined", b"%d" % number)
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise MangroveError("the native cluster did not come together") from None
        finally:
            for client in clients:
                await client.close()

    def _config(self, host: str, name: str, run: RunDirectory) -> str:
        address = self._network.address(host)
        routes = ", ".join(
            f'"nats-route://{self._network.address(each)}:{ROUTE_PORT}"' for each in self._hosts
        )
        return f"""
server_name: "{name}"
listen: "{address}:{CLIENT_PORT}"
log_file: "{run.log(name)}"
ping_interval: "{PING_INTERVAL}"
ping_max: {PINGS}
cluster {{ name: native, listen: "{address}:{ROUTE_PORT}", routes: [ {routes} ] }}
"""
