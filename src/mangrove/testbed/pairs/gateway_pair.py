"""Two gateways between two brokers of this machine, for measurements: as little else as can be."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from mangrove.broker.nats.server import nats_server
from mangrove.host.ports import PortReservation
from mangrove.host.process import ManagedProcess, stop_in_order
from mangrove.host.run_directory import RunDirectory
from mangrove.model.address import Address
from mangrove.model.endpoints import LOCAL, BrokerEndpoints, Runtime, fixed_endpoints
from mangrove.model.federation import Domain, Federation, Link
from mangrove.model.gateway_settings import Call, GatewaySettings
from mangrove.model.shared_names import GATEWAY_READY
from mangrove.testbed.pairs.shared_servers import shared_server_config

FEDERATION = Federation(
    name="bench",
    domains={name: Domain(name=name, base_port=1024) for name in "ab"},
    links=(Link(between=("a", "b")),),
)


class GatewayPair:
    """Where the brokers listen for clients, which processes there are, and how to look at them."""

    def __init__(self, clients: list[int], processes: list[ManagedProcess], management: int | None) -> None:
        self.clients = clients
        self.pids = {process.name: process.pid for process in processes if process.pid is not None}
        self._management = management

    def runtime(self) -> Runtime:
        """For those who listen at the management broker."""
        assert self._management is not None
        management = BrokerEndpoints(name="management", host=LOCAL, client_port=self._management)
        domains = {
            name: msgspec.structs.replace(fixed_endpoints(domain), managements=(management,))
            for name, domain in FEDERATION.domains.items()
        }
        return Runtime(federation=FEDERATION, domains=domains, pid=0)


@asynccontextmanager
async def gateway_pair(
    directory: Path, ports: PortReservation, *, managed: bool = False
) -> AsyncIterator[GatewayPair]:
    """Servers `a` and `b`, joined by a native leaf node in one account and by gateways in the other.

    With `managed`, there is a management broker that both gateways know.
    """
    client, leaf, gate = ([ports.take(LOCAL) for _ in "ab"] for _ in range(3))
    management = ports.take(LOCAL) if managed else None
    processes = [
        nats_server("a", shared_server_config("a", client[0], leaf[0], None), directory),
        nats_server("b", shared_server_config("b", client[1], leaf[1], leaf[0]), directory),
    ]
    if management is not None:
        processes.append(nats_server("management", f'listen: "{LOCAL}:{management}"\n', directory))
    processes += [_gateway(directory, name, leaf, gate, management) for name in "ab"]
    started: list[ManagedProcess] = []
    try:
        for process in processes:
            await process.start()
            started.append(process)
        yield GatewayPair(client, processes, management)
    finally:
        await stop_in_order(reversed(started))


def _gateway(
    directory: Path, name: str, leaf: list[int], gate: list[int], management: int | None
) -> ManagedProcess:
    run, index = RunDirectory(directory), "ab".index(name)
    settings = GatewaySettings(
        federation=FEDERATION,
        domain=name,
        head_urls=(f"nats-leaf://mangrove:mangrove@{LOCAL}:{leaf[index]}",),
        management_urls=() if management is None else (f"nats://{LOCAL}:{management}",),
        listen=(Address(LOCAL, gate[index]),),
        calls=(Call("b", (Address(LOCAL, gate[1]),)),) if name == "a" else (),
    )
    path = run.settings(f"gateway-{name}")
    path.write_bytes(msgspec.json.encode(settings))
    return ManagedProcess(
        f"gateway-{name}",
        [sys.executable, "-m", "mangrove.gateway.daemon", str(path)],
        log_path=run.log(f"gateway-{name}"),
        ready_text=GATEWAY_READY,
    )
