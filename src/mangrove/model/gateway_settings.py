"""What a gateway process is told when it starts: every address resolved."""

from __future__ import annotations

import msgspec

from mangrove.model.broker_kinds import BrokerKind
from mangrove.model.federation import Federation


class Listen(msgspec.Struct, frozen=True):
    """An address where neighbours may call."""

    host: str
    port: int


class Call(msgspec.Struct, frozen=True):
    """A neighbour to call, and the own address to call from (empty: whatever the system picks)."""

    peer: str
    host: str
    port: int
    local_host: str = ""


class GatewaySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a gateway needs to know."""

    federation: Federation
    domain: str
    head_url: str
    """Where the gateway attaches to its head broker."""
    management_url: str | None
    listen: tuple[Listen, ...]
    calls: tuple[Call, ...]
    events_path: str = ""
    journal_path: str = ""
    head_kind: BrokerKind = BrokerKind.NATS
