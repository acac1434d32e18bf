"""What a selection decides on: who publishes what, how useful it is, and what brokers can carry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from mangrove.model.agents.load import Amounts


@dataclass(frozen=True, slots=True)
class PublisherDemand:
    """What one publisher of a topic would say if nobody limited it."""

    publisher: str
    utility: float
    """Equation 2, from 0 to 1."""
    msg_s: float
    """Offered: said and withheld. Already cut to the limit of its region, if one applies."""
    size_bytes: float
    """On the wire, on average."""


@dataclass(frozen=True, slots=True)
class TopicDemand:
    """A topic with its publishers and what each of its messages costs the brokers that carry it."""

    topic: str
    utility: float
    """Equation 3."""
    subscribers: int
    publishers: tuple[PublisherDemand, ...]
    copies: Mapping[str, float]
    """How often a broker that is short gives each message out, by broker; it takes it in once."""
    protected: bool = False
    rank: float | None = None
    """Importance that was kept from before (hysteresis); None: that of equation 4."""


@dataclass(frozen=True, slots=True)
class CongestionProblem:
    """Brokers that are short, and all topics that load them."""

    budgets: Mapping[str, Amounts]
    """What the topics named here may use of each broker; infinite on metrics that are not short."""
    topics: tuple[TopicDemand, ...]
    stop_at_first: bool = False


@dataclass(frozen=True, slots=True)
class Selection:
    """How much everybody may say. Protected topics are always allowed all that they offer."""

    allowed: Mapping[tuple[str, str], float]
    """Messages a second by topic and publisher, for all publishers of the problem."""
    importance: Mapping[str, float] = field(default_factory=dict)
    short: Mapping[str, Amounts] = field(default_factory=dict)
    """By how much protected topics alone exceed a budget, where they do."""


Select = Callable[[CongestionProblem], Selection]
