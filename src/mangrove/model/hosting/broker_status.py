"""What a broker reports of itself."""

from __future__ import annotations

import msgspec


class BrokerFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What a broker counts, whatever its kind calls it."""

    version: str = ""
    uptime: str = ""
    connections: int = 0
    subscriptions: int = 0
    messages_in: int = 0
    messages_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    slow_consumers: int = 0
    attached_brokers: int = 0
    """Other brokers and gateways that hang on this one."""
    memory_bytes: int = 0
    cpu_percent: float = 0.0


class BrokerStatus(BrokerFigures, frozen=True, kw_only=True):
    """A broker, from its own monitoring pages."""

    name: str
    role: str
    url: str
    mqtt: str = ""
    """Where MQTT clients come, host and port; empty: nowhere."""
    reachable: bool
    attached_to: str = ""
    """The broker of the domain on which an edge hangs: its head, or who has succeeded it."""
