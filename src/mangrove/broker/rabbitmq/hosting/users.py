"""Tells a running RabbitMQ of ours its users, when keys were made, replaced or taken away.

It reads its file of users when it starts, and then adds to what it has. So who is not in the file any more is
taken away by name, and disconnected.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from urllib.parse import quote

import msgspec

from mangrove.broker.rabbitmq.address import RabbitAddress
from mangrove.broker.rabbitmq.exchange.management import PageError, fetch
from mangrove.host.process import ManagedProcess
from mangrove.host.run_directory import RunDirectory
from mangrove.model.security.users import HOST_USER

DEFINITIONS, HOST_ACCESS = "definitions.json", "host_access.json"


class HostAccess(msgspec.Struct, frozen=True, kw_only=True):
    """How the host of a broker administers it."""

    management: str
    password: str
    authorities: str
    """File with the certificates by which the broker's is believed."""

    def __repr__(self) -> str:
        """Without the password."""
        return f"HostAccess({self.management!r})"


class _User(msgspec.Struct):
    name: str


class _Definitions(msgspec.Struct):
    users: list[_User]


def read_access(home: Path) -> HostAccess | None:
    """What was written when the broker was set up; None if it has not been, or is damaged."""
    try:
        return msgspec.json.decode((home / HOST_ACCESS).read_bytes(), type=HostAccess)
    except (OSError, ValueError):
        return None


async def tell_users(process: ManagedProcess) -> str:
    """Have a running broker know the users of its file, and no others; why it does not, or nothing."""
    home = RunDirectory(process.log_path.parent.parent).broker_home(process.name)
    access = read_access(home)
    if access is None:
        return ""  # it lets anybody in
    definitions = (home / DEFINITIONS).read_bytes()
    wanted = {user.name for user in msgspec.json.decode(definitions, type=_Definitions).users}
    address = RabbitAddress(
        host="", port=0, user=HOST_USER, password=access.password, management=access.management
    )
    try:
        tls = ssl.create_default_context(cafile=access.authorities)
        await fetch(address, "/api/definitions", tls, method="POST", content=definitions)
        known = msgspec.json.decode(await fetch(address, "/api/users", tls), type=list[_User])
        for user in known:
            if user.name not in wanted:
                name = quote(user.name, safe="")
                await fetch(address, f"/api/users/{name}", tls, method="DELETE")
                await fetch(address, f"/api/connections/username/{name}", tls, method="DELETE")
    except (PageError, OSError, ValueError) as error:
        return str(error)
    return ""
