"""An agent's account of itself, for `mangrove load`, the recorder and the live view."""

from __future__ import annotations

import msgspec

from mangrove.model.agents.failures import FailureStatus
from mangrove.model.agents.load import BrokerLoad, ClusterLoad
from mangrove.model.agents.usefulness import CongestionStatus
from mangrove.model.audit.entry import AuditFigures


class PeerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A linked domain's agent as seen from here."""

    domain: str
    online: bool
    load: ClusterLoad | None = None
    load_age_s: float | None = None
    accepts: bool = False
    """Whether it takes load from this domain."""


class MoveStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What moves in a session, or moved."""

    topic: str
    to: str
    subscriptions: int
    confirmed: int
    domain: str = ""
    held_ms: float = 0.0
    """How much later than without the move its most delayed message was handed over."""


class SessionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """An offload session, open or ended."""

    id: str
    broker: str
    state: str
    scope: str
    """`domain` or `neighbours`."""
    metrics: tuple[str, ...]
    since_s: float
    moves: tuple[MoveStatus, ...] = ()
    outcome: str = ""


class MemberStatus(msgspec.Struct, frozen=True, kw_only=True):
    """An agent of the domain, as the one that is asked sees it."""

    agent: str
    host: str
    live: bool
    score: float = 0.0
    heard_s: float | None = None
    """How long ago it was last heard of; None: never, or it is the one that is asked."""
    policy: int = 0
    """Version of the policy in force that it holds."""
    held: int = 0
    """Version of a proposed one that it holds."""
    member: bool = True
    """Whether policies wait for it; only the leader knows."""


class PauseStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Automatic decisions are paused."""

    by: str
    since: float
    """Seconds since 1970."""


class AgentStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How a domain is loaded, and what its agent does about it."""

    domain: str
    agent: str
    term: int
    leads: bool
    uptime_s: float
    brokers: tuple[BrokerLoad, ...]
    peers: tuple[PeerStatus, ...] = ()
    sessions: tuple[SessionStatus, ...] = ()
    clients: int = 0
    subscriptions: int = 0
    records: int = 0
    mirrored: int = 0
    """Topics with a mirror."""
    unmirrored: int = 0
    """Topics whose contract wants a mirror, and for which there is no second broker."""
    advertised: int = 0
    moves: int = 0
    """Subscriptions and publishers moved since the agent started."""
    congested: tuple[str, ...] = ()
    """Brokers for which no other has room."""
    refused: dict[str, int] = {}
    """Messages that were refused, by reason."""
    store_problem: str = ""
    method: str = ""
    distribution: str = ""
    congestion: CongestionStatus = CongestionStatus()
    leader: str = ""
    """The agent that leads, as far as the one that is asked knows."""
    members: tuple[MemberStatus, ...] = ()
    """All agents that the domain has by its file."""
    policy: int = 0
    """Version of the policy in force; 0: none."""
    paused: PauseStatus | None = None
    failures: FailureStatus = FailureStatus()
    audit: AuditFigures = AuditFigures()
