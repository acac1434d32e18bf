"""What the agents of one domain tell each other, on `members_subject`."""

from __future__ import annotations

import msgspec

from mangrove.model.agents.names import agent_process
from mangrove.model.federation import Domain

BEAT_S = 0.5
LIVE_S = 2.0
"""A member of which nothing was heard for so long is taken for dead."""


class PolicyRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A document that all agents of a domain are to hold, without its body."""

    version: int
    digest: str
    size_bytes: int
    chunks: int


class MemberBeat(msgspec.Struct, frozen=True, kw_only=True, tag="beat"):
    """An agent says that it lives, and how far it is; at once when something changes, and every `BEAT_S`."""

    agent: str
    life: int
    """Of this process; grows from one to the next unless a clock was set back."""
    sequence: int
    score: float
    """How much computing power it has, in whatever unit the agents of its domain have in common."""
    term: int = 0
    """The latest that it knows of."""
    leads: bool = False
    committed: PolicyRecord | None = None
    """The policy in force, as far as it knows and holds it."""
    held: PolicyRecord | None = None
    """A proposed one that it holds."""
    proposed: PolicyRecord | None = None
    """What it wants all to hold, as the leader."""


class LeaseChanged(msgspec.Struct, frozen=True, kw_only=True, tag="lease"):
    """The record by which an agent leads has another revision: it was taken, renewed or given up."""

    agent: str
    revision: int


MemberMessage = MemberBeat | LeaseChanged


def agents_of(domain: Domain) -> dict[str, str]:
    """The agents that a domain may have, and the host of each; of one host the name is empty."""
    if len(domain.hosts) <= 1:
        return {agent_process(domain.name): domain.hosts[0].name if domain.hosts else ""}
    first, *others = domain.hosts
    names = {agent_process(domain.name): first.name}
    return names | {agent_process(domain.name, host.name): host.name for host in others}
