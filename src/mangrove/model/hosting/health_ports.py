"""Where the processes of a host tell of their health: each has a port of its own, in a fixed order.

Where brokers let nobody in without a key, health is told to the own machine alone, as brokers do with their
pages.
"""

from __future__ import annotations

from enum import IntEnum

from mangrove.model.address import Address
from mangrove.model.federation import Domain

HEALTH_STRIDE = 5
"""Ports of one host."""
LOCAL = "127.0.0.1"


class HealthPort(IntEnum):
    """Places after the first port of a host."""

    HOST = 0
    GATEWAY = 1
    SECOND_GATEWAY = 2
    AGENT = 3
    RECORDER = 4


def health_address(domain: Domain, host: str, which: HealthPort, *, secured: bool) -> Address | None:
    """Where a process of a host answers; None if it does not."""
    if domain.health_port is None:
        return None
    for position, each in enumerate(domain.all_hosts):
        if each.name == host:
            port = domain.health_port + HEALTH_STRIDE * position + which
            return Address(_local(each.address) if secured else each.address, port)
    return None


def _local(address: str) -> str:
    return address if address.startswith("127.") or address == "::1" else LOCAL
