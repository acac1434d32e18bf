"""The monitoring pages of nats-server."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request

import msgspec

from mangrove.model.endpoints import BrokerEndpoints
from mangrove.model.status import BrokerFigures, BrokerStatus

TIMEOUT_S = 2.0


class _Varz(msgspec.Struct, frozen=True):
    """The broker's page `/varz`, in its own names."""

    version: str = ""
    uptime: str = ""
    connections: int = 0
    subscriptions: int = 0
    in_msgs: int = 0
    out_msgs: int = 0
    in_bytes: int = 0
    out_bytes: int = 0
    slow_consumers: int = 0
    leafnodes: int = 0
    mem: int = 0
    cpu: float = 0.0

    def figures(self) -> BrokerFigures:
        """What the broker counts, in our names."""
        return BrokerFigures(
            version=self.version,
            uptime=self.uptime,
            connections=self.connections,
            subscriptions=self.subscriptions,
            messages_in=self.in_msgs,
            messages_out=self.out_msgs,
            bytes_in=self.in_bytes,
            bytes_out=self.out_bytes,
            slow_consumers=self.slow_consumers,
            attached_brokers=self.leafnodes,
            memory_bytes=self.mem,
            cpu_percent=self.cpu,
        )


def _get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as response:
        body: bytes = response.read(16 << 20)
        return body


async def fetch(url: str) -> bytes | None:
    """A monitoring page, or None if it cannot be had."""
    try:
        return await asyncio.to_thread(_get, url)
    except (OSError, urllib.error.URLError):
        return None


async def broker_status(endpoints: BrokerEndpoints, role: str) -> BrokerStatus:
    """A broker's account of itself; without a monitoring page, whether its port answers."""
    known = BrokerStatus(name=endpoints.name, role=role, url=endpoints.client_url, reachable=False)
    if endpoints.monitor_url is None:
        return msgspec.structs.replace(known, reachable=await _answers(endpoints.host, endpoints.client_port))
    page = await fetch(f"{endpoints.monitor_url}/varz")
    if page is None:
        return known
    try:
        varz = msgspec.json.decode(page, type=_Varz)
    except msgspec.DecodeError:
        return known
    return msgspec.structs.replace(known, reachable=True, **msgspec.structs.asdict(varz.figures()))


async def _answers(host: str, port: int) -> bool:
    try:
        async with asyncio.timeout(TIMEOUT_S):
            _, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True
