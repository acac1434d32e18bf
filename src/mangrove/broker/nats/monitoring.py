"""The monitoring pages of nats-server."""

from __future__ import annotations

import msgspec

from mangrove.broker.pages import MAX_PAGE_BYTES, PageTooLargeError, fetch, port_answers
from mangrove.model.endpoints import BrokerEndpoints
from mangrove.model.hosting.broker_status import BrokerFigures, BrokerStatus
from mangrove.model.unreadable import UNREADABLE

__all__ = ["MAX_PAGE_BYTES", "PageTooLargeError", "broker_status", "fetch", "port_answers"]


class _Leaf(msgspec.Struct, frozen=True):
    name: str = ""
    is_spoke: bool = False
    """Whether this broker hangs on that one, and not the other way round."""


class _Leafz(msgspec.Struct, frozen=True):
    """The broker's page `/leafz`."""

    leafs: tuple[_Leaf, ...] = ()


class _Varz(msgspec.Struct, frozen=True):
    """The broker's page `/varz`, in its own names."""

    server_name: str = ""
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


async def broker_status(endpoints: BrokerEndpoints, role: str) -> BrokerStatus:
    """A broker's account of itself; without a monitoring page, whether its port answers."""
    known = BrokerStatus(
        name=endpoints.name,
        role=role,
        url=endpoints.client_url,
        mqtt=str(endpoints.mqtt_address or ""),
        reachable=False,
    )
    if endpoints.monitor_url is None:
        answers = await port_answers(endpoints.host, endpoints.client_port)
        return msgspec.structs.replace(known, reachable=answers)
    try:
        page = await fetch(f"{endpoints.monitor_url}/varz")
        if page is None:
            return known
        varz = msgspec.json.decode(page, type=_Varz)
        if endpoints.monitor_host and varz.server_name != endpoints.name:
            return known  # it runs on another machine, and somebody else's page is at this address here
        leaves = await fetch(f"{endpoints.monitor_url}/leafz") if role != "head" else None
        leafz = _Leafz() if leaves is None else msgspec.json.decode(leaves, type=_Leafz)
    except (PageTooLargeError, *UNREADABLE):
        return known
    figures = msgspec.structs.asdict(varz.figures())
    above = next((leaf.name for leaf in leafz.leafs if leaf.is_spoke), "")
    return msgspec.structs.replace(known, reachable=True, attached_to=above, **figures)
