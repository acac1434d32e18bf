"""Subjects on a domain's management broker by which agents, clients and the gateway reach each other.

Everything said there is JSON, as `msgspec.json` writes it; bytes in it are base64.
"""

from __future__ import annotations

from mangrove.model.agents.speakers import said_by, told_to

AGENT_READY = "agent ready"
"""What an agent logs once it serves."""

AGENT_USER = "mangrove-agent"
"""Who an agent is in the system account of the data brokers of its domain."""


AGENT_SUFFIX = "-agent"


def agent_process(domain: str, host: str = "") -> str:
    """What the agent on a host of a domain is called as a process, and among the agents of the domain.

    The one on the first host has no `host` in its name, as where there is but one.
    """
    return f"{domain}-{host}{AGENT_SUFFIX}" if host else f"{domain}{AGENT_SUFFIX}"


def supervisor_subject(domain: str, host: str) -> str:
    """Requests to who runs a host of a domain: `SupervisorRequest` → `HostAnswer`."""
    return f"mangrove.{domain}.supervisor.{host or '_only'}"


def supervisors_subject(domain: str) -> str:
    """The same, to those who run the hosts of a domain all at once."""
    return f"mangrove.{domain}.supervisor._all"


def register_subject(domain: str, user: str = "") -> str:
    """Requests: `Registration` → `Registered`; of a `user` who has logged in, on a subject of its own."""
    return said_by(user, domain, "agent.register")


def report_subject(domain: str, user: str = "") -> str:
    """Messages of clients that need no answer: `Report`, `Migrated` or `Leave`, each in a `Sealed`."""
    return said_by(user, domain, "agent.reports")


def agent_status_subject(domain: str) -> str:
    """Requests: nothing → `AgentStatus`."""
    return f"mangrove.{domain}.agent.status"


def capacity_subject(domain: str) -> str:
    """Requests: `CapacityTold` → `CapacityTaken`."""
    return f"mangrove.{domain}.agent.capacity"


def operations_subject(domain: str) -> str:
    """Requests of operators: `Operation` → `OperationAnswer`."""
    return f"mangrove.{domain}.agent.operate"


def members_subject(domain: str, agent: str) -> str:
    """Where the agents of one domain speak with each other: `MemberMessage`; `*` hears all."""
    return f"mangrove.{domain}.members.{agent}"


def gateway_limits_subject(domain: str) -> str:
    """Requests of the agent to the gateway: `GatewayLimits` → `GatewayLimited`."""
    return f"mangrove.{domain}.gateway.limits"


def directory_subject(domain: str) -> str:
    """Requests: `DirectoryQuestion` → `DirectoryAnswer`."""
    return f"mangrove.{domain}.agent.directory"


def directory_changes_subject(domain: str) -> str:
    """Pushed to whoever subscribes: `DirectoryChanges`."""
    return f"mangrove.{domain}.directory"


def client_subject(domain: str, client: str, user: str = "") -> str:
    """Where one client hears from the agent: `Order`; if it has logged in, under its user's name."""
    return told_to(user, domain, f"client.{client}")


def announcement_subject(domain: str) -> str:
    """Where all clients hear that an agent has taken over: `AgentStarted`."""
    return f"mangrove.{domain}.agent.started"


def to_peer_subject(domain: str, peer: str) -> str:
    """What an agent publishes here the gateway carries to the management broker of a linked domain."""
    return f"mangrove.{domain}.peers.to.{peer}"


def from_peer_subject(domain: str, peer: str) -> str:
    """What the agent of a linked domain has sent, as the gateway hands it over."""
    return f"mangrove.{domain}.peers.from.{peer}"
