"""nats-server's list of connections, as an agent reads it."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from mangrove.model.agents.names import AGENT_USER
from mangrove.model.agents.plain_clients import PlainClient
from mangrove.model.shared_names import PROBE_NAME, SDK_NAME, TAP_NAME

PAGE_CONNECTIONS = 64
MAX_CONNECTIONS = 2_000
"""Connections of a broker that are looked at, those with the most bytes waiting and sent first."""
MAX_PATTERNS = 1_000
"""Of one connection."""

# Processes of ours that are plain clients: gateways at their head broker among them.
_OURS = (AGENT_USER, SDK_NAME, PROBE_NAME, TAP_NAME, "gateway-")
_INTERNAL = ("$", "_INBOX.", "_MGR.", "_R_.")


class _Subscription(msgspec.Struct, frozen=True):
    subject: str
    msgs: int = 0


class _Connection(msgspec.Struct, frozen=True):
    cid: int
    kind: str = ""
    authorized_user: str = ""
    """The public half of the key by which it came."""
    name: str = ""
    in_msgs: int = 0
    in_bytes: int = 0
    out_bytes: int = 0
    pending_bytes: int = 0
    subscriptions_list_detail: tuple[_Subscription, ...] = ()


class ConnectionsPage(msgspec.Struct, frozen=True):
    """A part of the list, in the broker's own names."""

    total: int = 0
    num_connections: int = 0
    connections: tuple[_Connection, ...] = ()

    def plain_clients(self) -> list[PlainClient]:
        """Who cannot be told to move."""
        return [_plain(each) for each in self.connections if not _is_ours(each)]

    def attached_by_others(self, keys: Collection[str]) -> list[int]:
        """Leaf nodes that came by a key that is none of these."""
        leaf_nodes = (each for each in self.connections if each.kind == "Leafnode" and each.authorized_user)
        return [each.cid for each in leaf_nodes if each.authorized_user not in keys]

    @property
    def pending_bytes(self) -> int:
        """What waits for the connections of this part."""
        return sum(max(each.pending_bytes, 0) for each in self.connections)


def _is_ours(connection: _Connection) -> bool:
    """Leaf nodes are edges and gateways; to send one away would cut all its clients off."""
    return connection.kind != "Client" or connection.name.startswith(_OURS)


def _plain(connection: _Connection) -> PlainClient:
    wanted = [
        (each.subject, max(each.msgs, 0))
        for each in connection.subscriptions_list_detail
        if not each.subject.startswith(_INTERNAL)
    ]
    return PlainClient(
        cid=connection.cid,
        name=connection.name,
        patterns=tuple(wanted[:MAX_PATTERNS]),
        bytes_out=max(connection.out_bytes, 0),
        pending_bytes=max(connection.pending_bytes, 0),
        messages_in=max(connection.in_msgs, 0),
        bytes_in=max(connection.in_bytes, 0),
    )
