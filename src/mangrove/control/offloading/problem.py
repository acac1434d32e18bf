"""An offloading problem and its answer, the same for every method (ePEER §4.4.4; digest §4.3–4.4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum

import msgspec

from mangrove.model.agents.load import Amounts, Metric


class Scope(StrEnum):
    """Where load may go."""

    DOMAIN = "domain"
    NEIGHBOURS = "neighbours"


class Audience(StrEnum):
    """Where the other side of a topic is: tables 4-4 and 4-6 (Pr, Pl, Pr-l, Pn; Sr, Sl, Sr-l, Sn)."""

    REMOTE = "remote"
    LOCAL = "local"
    BOTH = "both"
    NONE = "none"


class Member(msgspec.Struct, frozen=True):
    """One client's part in a bundle: its wish, and what its leaving alone would free at the broker."""

    client: str
    key: str
    load: Amounts


class Bundle(msgspec.Struct, frozen=True):
    """All clients of a topic at a broker, moved together (ePEER §4.4.3.2)."""

    topic: str
    audience: Audience
    deadline_s: float
    """The delay requirement; infinite without one, which is the most tolerant."""
    load: Amounts
    """What the source is relieved of when all of it leaves."""
    stream: Amounts
    """Input and matching that a broker pays besides `output` if it does not serve the topic yet."""
    output: float
    """Bytes/s to all its members: what every acceptor pays."""
    members: tuple[Member, ...]


class Acceptor(msgspec.Struct, frozen=True):
    """A broker that may take load."""

    broker: str
    domain: str
    room: Amounts
    """Up to the ceiling, in absolute units."""
    headroom: float
    """The least (threshold − utilisation): acceptors are tried in the order of it, the largest first."""
    topics: frozenset[str] = frozenset()
    """What it serves already."""
    rtt_ms: float | None = None


class Problem(msgspec.Struct, frozen=True):
    """What is overloaded, by how much, what could go, and where to."""

    source: str
    publishers: bool
    """A head sheds publishers, an edge subscribers."""
    scope: Scope
    capacity: Amounts
    load: Amounts
    """Of the source now."""
    need: Mapping[Metric, float]
    """How much must go, in absolute units, by overloaded metric."""
    bundles: tuple[Bundle, ...]
    acceptors: tuple[Acceptor, ...]


class Move(msgspec.Struct, frozen=True):
    """A topic's bundle, or a part of its members, to one broker."""

    topic: str
    to: Acceptor
    members: tuple[Member, ...]
    whole: bool
    relief: Amounts
    cost: Amounts
    why: str = ""
    """For people: why this topic, why this acceptor."""


class Choice(msgspec.Struct, frozen=True):
    """What a method chose, and how much of the need it leaves."""

    moves: tuple[Move, ...]
    unmet: Mapping[Metric, float] = msgspec.field(default_factory=dict)


Method = Callable[[Problem], Choice]


def cost_at(acceptor: Acceptor, bundle: Bundle, taken: frozenset[str] = frozenset()) -> Amounts:
    """What an acceptor pays for a whole bundle; a topic that it serves or has `taken` costs output alone."""
    if bundle.topic in acceptor.topics or bundle.topic in taken:
        return Amounts(0.0, bundle.output, 0.0)
    return Amounts(bundle.stream.input, bundle.output, bundle.stream.matching)
