"""Who is connected to a nats-server, and by which key or name: from its page `/connz`."""

from __future__ import annotations

import msgspec

from mangrove.broker.logins import Login, Logins
from mangrove.broker.nats.monitoring import PageTooLargeError, fetch
from mangrove.model.endpoints import BrokerEndpoints
from mangrove.model.unreadable import UNREADABLE


class _Connection(msgspec.Struct, frozen=True):
    cid: int
    ip: str = ""
    type: str = ""
    name: str = ""
    authorized_user: str = ""


class _Connz(msgspec.Struct, frozen=True):
    server_id: str = ""
    total: int = 0
    connections: tuple[_Connection, ...] = ()


_page = msgspec.json.Decoder(_Connz)


async def logins(broker: BrokerEndpoints, *, first: int, most: int) -> Logins | None:
    """Some of its connections, from number `first` on in the order of their coming; None: not known."""
    if broker.monitor_url is None:
        return None
    try:
        page = await fetch(f"{broker.monitor_url}/connz?auth=1&sort=cid&offset={first}&limit={most}")
        found = None if page is None else _page.decode(page)
    except (PageTooLargeError, *UNREADABLE):
        return None
    if found is None:
        return None
    told = tuple(
        Login(number=each.cid, user=each.authorized_user, name=each.name, host=each.ip, way=each.type)
        for each in found.connections
    )
    return Logins(broker=found.server_id, total=found.total, connections=told)
