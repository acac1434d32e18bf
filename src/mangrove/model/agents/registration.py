"""How clients register with their domain's agent, report what they carry, and leave.

A client makes a key of its own; its id is derived from the public key. Registrations are signed with it. What
follows (`Report`, `Migrated`, `Leave`) is sealed with a key that both ends derive from the registration's
exchange, so that no lease can be used by somebody else, at the cost of a hash for each message.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from mangrove.model.agents.directory import DirectoryRecord
from mangrove.model.agents.usefulness import Counted, Lag, LimitsOrdered, Vote

MAX_WISHES = 10_000
"""Subscriptions and published topics of one client."""
LEASE_S = 15.0
"""A client that is not heard of for so long has left."""
REPORT_S = 1.0
RENEW_S = 5.0
"""An idle client is heard of so often."""


class ClientRole(StrEnum):
    """What a wish is about."""

    PUBLISHER = "publisher"
    SUBSCRIBER = "subscriber"


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """One subscription of a client, or one topic that it publishes."""

    key: str
    """The client's own name for it."""
    role: ClientRole
    subject: str
    """A pattern for subscribers, a literal subject for publishers."""
    queue: str = ""
    deadline_ms: float | None = None
    """The client's own delay requirement; without one, the contract's."""
    weight: float = 1.0
    broker: str = ""
    """Where it is served at the moment, if it is; an agent that started anew learns it so."""
    movable: bool = True


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """A client's wishes: those new or changed since its last registration, or all of them (`complete`)."""

    client: str
    sequence: int
    """Grows with every message of a client, also over its restarts under the same key."""
    public_key: bytes
    """Ed25519; the id is derived from it."""
    exchange_key: bytes
    """X25519, of this process alone."""
    domain: str = ""
    """With whose agent; an agent refuses what names another domain, so that nothing can be used twice."""
    name: str = ""
    """For people."""
    origin: str = ""
    """How the ids of its messages begin: by it subscribers name whom they judge."""
    complete: bool = True
    wishes: tuple[Wish, ...] = ()
    ended: tuple[str, ...] = ()
    """Keys of wishes given up."""
    rtt_ms: dict[str, float] = {}
    """Measured round trips to the domain's brokers, by name; for placement in a WAN."""


class Signed(msgspec.Struct, frozen=True, kw_only=True):
    """A registration as it travels: its encoding and the Ed25519 signature over that."""

    body: bytes
    signature: bytes


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """Where one wish is served: the names and URLs of a broker."""

    broker: str
    url: str
    epoch: int


class Registered(msgspec.Struct, frozen=True, kw_only=True):
    """The agent's answer."""

    term: int
    """The leader's term: what comes from an earlier one is ignored."""
    exchange_key: bytes = b""
    lease_s: float = LEASE_S
    assignments: dict[str, Assignment] = {}
    """By key of the wish."""
    refused: dict[str, str] = {}
    """Why a wish is not managed, by key: it is served as if there were no agent."""
    records: tuple[DirectoryRecord, ...] = ()
    """What the directory says of the wishes' topics."""
    problem: str = ""
    """Why the whole registration is refused, if it is."""


class Traffic(msgspec.Struct, frozen=True, array_like=True):
    """What passed in the reported span."""

    messages: Counted
    size_bytes: Counted


MIRRORED_KEY = "~"
"""What a mirror brings for a subscription is reported under the subscription's key with this behind."""


class Report(msgspec.Struct, frozen=True, kw_only=True, tag="report"):
    """What a client carried in the last `span_s`; also renews its lease."""

    client: str
    sequence: int
    span_s: float
    received: dict[str, Traffic] = {}
    """By key of the subscription."""
    published: dict[str, Traffic] = {}
    """By subject."""
    withheld: dict[str, Traffic] = {}
    """What a limit, or the lack of subscribers, kept from being published, by subject."""
    votes: dict[str, dict[str, Vote]] = {}
    """How useful publishers were, by key of the subscription and origin."""
    lags: dict[str, Lag] = {}
    """Of subscriptions that do not keep up, by key."""
    limits_epoch: int = 0
    """Of the last `LimitsOrdered` in force."""


class Migrated(msgspec.Struct, frozen=True, kw_only=True, tag="migrated"):
    """A client has carried out an `Order` to move, or could not."""

    client: str
    sequence: int
    session: str
    key: str
    broker: str
    """Where the wish is served now."""
    problem: str = ""
    held_ms: float = 0.0
    """How much later than without the move the most delayed message was handed over."""
    repeated: int = 0
    """Copies that came both ways and were left out."""


class Leave(msgspec.Struct, frozen=True, kw_only=True, tag="leave"):
    """A client goes."""

    client: str
    sequence: int


class BrokerSuspected(msgspec.Struct, frozen=True, kw_only=True, tag="suspected"):
    """A client takes a broker for dead by its own evidence, and has acted on it."""

    client: str
    sequence: int
    broker: str
    evidence: str
    """`closed`, `silent` or `refused`."""


ClientMessage = Report | Migrated | Leave | BrokerSuspected


class Sealed(msgspec.Struct, frozen=True, kw_only=True):
    """A client's message as it travels: `seal` is a keyed BLAKE2b of the body."""

    client: str
    body: bytes
    seal: bytes


class Order(msgspec.Struct, frozen=True, kw_only=True, tag="move"):
    """The agent tells a client to move one wish; said again until it is confirmed or the session ends."""

    term: int
    session: str
    key: str
    to: Assignment
    domain: str = ""
    """Another domain, if it is one; then its management broker is at `management_url`."""
    management_url: str = ""
    pause_s: float = 0.0
    """Between domains: how long what was sent the old way may still be on its way."""
    slack_ms: float | None = None
    """The client goes only if its round trip to the broker is at most so much longer than the one to where it
    is served; None: however long it is."""
    reason: str = ""
    """For people."""


class RegisterAgain(msgspec.Struct, frozen=True, kw_only=True, tag="register-again"):
    """The agent does not know this client (any more)."""

    term: int


ClientOrder = Order | RegisterAgain | LimitsOrdered


class AgentStarted(msgspec.Struct, frozen=True, kw_only=True):
    """A leader has begun: clients register anew, each after a random part of `spread_s`."""

    term: int
    spread_s: float
