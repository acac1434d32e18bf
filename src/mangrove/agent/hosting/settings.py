"""What the supervisor of a host is told when it starts."""

from __future__ import annotations

import msgspec

from mangrove.model.address import Address
from mangrove.model.agents.credentials import Credentials
from mangrove.model.endpoints import DomainEndpoints
from mangrove.model.federation import Federation

HOST_READY = "host ready"
"""What a supervisor logs once everything on its host serves."""


class HostSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Which host of which domain it runs, and what all its processes are told."""

    federation: Federation
    endpoints: dict[str, DomainEndpoints]
    domain: str
    host: str
    directory: str
    system_user: Credentials
    """Of the agents at the data brokers; the same on all hosts of a domain."""
    keys: str = ""
    """The folder with the keys of the domain; empty: nobody proves who it is."""
    calls_through: dict[str, tuple[Address, ...]] = {}
    record_stimuli: bool = False
    agents: bool = True


def supervisor_process(domain: str, host: str) -> str:
    """What the supervisor of a host is called as a process."""
    return f"{domain}-{host}-supervisor"
