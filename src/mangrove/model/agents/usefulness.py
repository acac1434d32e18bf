"""What subscribers say of publishers, and what an agent answers: how much each may say (ePEER chapter 5)."""

from __future__ import annotations

from typing import Annotated

import msgspec

from mangrove.model.congestion.rate_limit import RateLimit

MAX_VOTES = 2_000
"""Publishers of whom one client speaks in one report."""
PLAIN_ORIGIN = ""
"""All publishers of a topic whose messages bear no id."""
OTHER_ORIGINS = "*"
"""All origins that are not named."""
LIMITS_VALID_S = 30.0
"""Limits that are not said again for so long are in force no more."""


Counted = Annotated[int, msgspec.Meta(ge=-(1 << 62), le=1 << 62)]
"""What a client has counted. It may say what it likes, but nothing that cannot be computed with."""


class Vote(msgspec.Struct, frozen=True, array_like=True):
    """How useful one publisher's messages were to one subscriber in the reported span (equation 1)."""

    messages: Counted
    """How many were judged."""
    utility: float
    """Their mean, from 0 to 1."""


class Lag(msgspec.Struct, frozen=True, array_like=True):
    """How far a subscriber is behind."""

    pending: int
    """Messages that wait in the client."""
    lost: int
    """Messages that its policy left out in the reported span."""
    oldest_s: float = 0.0
    """For how long the first of them has waited."""


class LimitsOrdered(msgspec.Struct, frozen=True, kw_only=True, tag="limits"):
    """How much a client may say: all limits that the agent sets it, by subject; the others are lifted.

    Said again until a report has the same epoch, and before `LIMITS_VALID_S` have passed.
    """

    term: int
    epoch: int
    """Grows with every change of this client's limits."""
    limits: dict[str, RateLimit] = {}


class GatewayLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much of what comes from other domains the gateway may hand to its head, by subject and origin.

    Complete, as `LimitsOrdered` is: subjects are literal, and those not named are lifted. The origin `*`
    stands for all that are not named, together. A limit without rates limits nothing, but is counted. An
    older term, and an older epoch of the same term, are not obeyed; the same one again keeps limits in
    force. Topics that congestion control leaves alone are not limited, whoever asks.
    """

    term: int
    epoch: int
    limits: dict[str, dict[str, RateLimit]] = {}


class GatewayLimited(msgspec.Struct, frozen=True, kw_only=True):
    """The gateway's answer: what is in force, and what came since the last question, of limited subjects.

    Messages and bytes of payload by subject and origin; where there are very many, the busiest.
    """

    epoch: int
    """Of `term`; both are -1 before the first."""
    term: int = -1
    limits: int = 0
    """How many are in force."""
    offered: dict[str, dict[str, tuple[int, int]]] = {}
    """All that came, also what was withheld."""
    withheld: dict[str, dict[str, tuple[int, int]]] = {}
    problem: str = ""
    """Why the question could not be read."""


class TopicOpinion(msgspec.Struct, frozen=True, array_like=True):
    """What the subscribers of one domain think of a topic's publishers in another."""

    topic: str
    source: str
    """The domain that publishes it."""
    domain: str
    """The domain whose subscribers have spoken."""
    subscribers: int
    votes: dict[str, tuple[float, float]] = {}
    """Sum of weights, and weighted mean of utility, by the publisher's origin."""


class UsefulnessTold(msgspec.Struct, frozen=True, kw_only=True, tag="usefulness"):
    """Opinions on their way to the agents of those who publish; who is not the source passes them on."""

    opinions: tuple[TopicOpinion, ...]
    hops: int = 0


class CapacityTold(msgspec.Struct, frozen=True, kw_only=True):
    """An operator, or a testbed, says what a broker can carry from now on: parts of what its file says."""

    broker: str
    bandwidth: float = 1.0
    matching: float = 1.0


class CapacityTaken(msgspec.Struct, frozen=True, kw_only=True):
    """The agent's answer."""

    problem: str = ""


class TopicUsefulness(msgspec.Struct, frozen=True, kw_only=True):
    """A topic as congestion control sees it."""

    topic: str
    utility: float
    importance: float
    subscribers: int
    publishers: int
    protected: bool = False
    offered_msg_s: float = 0.0
    allowed_msg_s: float | None = None
    """None: not limited."""


class LimitStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A limit in force."""

    topic: str
    publisher: str
    """A client's name for people, or its id; `other domains` or `plain clients` for those."""
    utility: float | None
    offered_msg_s: float
    limit: RateLimit
    brokers: tuple[str, ...] = ()
    """For whose sake."""
    since_s: float = 0.0
    probing: bool = False


class SlowSubscriber(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody who cannot keep up."""

    client: str
    name: str
    broker: str
    subject: str = ""
    pending: int = 0
    """Messages in an SDK client, or bytes at the broker for a plain one."""
    plain: bool = False
    lost: int = 0
    oldest_s: float = 0.0


class CongestionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent knows of usefulness, and what it does; the longest lists are cut."""

    state: str = "clear"
    since_s: float = 0.0
    why: str = ""
    topics: tuple[TopicUsefulness, ...] = ()
    """Limited ones, then the most important."""
    least_useful: tuple[TopicUsefulness, ...] = ()
    """Of those that are not listed, the ones that subscribers think least of."""
    known: int = 0
    """Topics in all, also those that are not listed."""
    limits: tuple[LimitStatus, ...] = ()
    limited: int = 0
    """Limits in force, also those that are not listed."""
    slow: tuple[SlowSubscriber, ...] = ()
    capacities: dict[str, tuple[float, float]] = {}
    """Brokers that carry less than their file says: parts of bandwidth and of matching."""
    votes: int = 0
    refused: dict[str, int] = {}
