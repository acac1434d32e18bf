"""What a selection decides on: who publishes what, how useful it is, and what brokers can carry."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from mangrove.model.agents.load import Amounts


class PublisherDemand(msgspec.Struct, frozen=True):
    """What one publisher of a topic would say if nobody limited it."""

    publisher: str
    utility: float
    """Equation 2, from 0 to 1."""
    msg_s: float
    """Offered: said and withheld. `regions.cut_to_regions` makes a problem where it is cut to its region."""
    size_bytes: float
    """On the wire, on average."""


class TopicDemand(msgspec.Struct, frozen=True):
    """A topic with its publishers and what each of its messages costs the brokers that carry it."""

    topic: str
    utility: float
    """Equation 3."""
    subscribers: int
    publishers: tuple[PublisherDemand, ...]
    copies: Mapping[str, float]
    """How often each broker that carries it gives a message out; it takes it in once.

    A head gives one to each edge that serves the topic, one to the gateway if other domains want it, and one
    to each subscriber of its own; an edge gives one to each subscriber. 0: it is taken in for nobody.
    """
    protected: bool = False
    rank: float | None = None
    """Importance that was kept from before (hysteresis); None: that of equation 4."""


class CongestionProblem(msgspec.Struct, frozen=True):
    """Brokers that are short, and all topics that load them."""

    budgets: Mapping[str, Amounts]
    """What the topics named here may use of each broker; infinite on metrics that are not short.

    Below 0 where others alone use too much: that is as good as nothing.
    """
    topics: tuple[TopicDemand, ...]
    stop_at_first: bool = False


class Selection(msgspec.Struct, frozen=True):
    """How much everybody may say. Protected topics are always allowed all that they offer."""

    allowed: Mapping[tuple[str, str], float]
    """Messages a second by topic and publisher, for all publishers of the problem; never more than offered.

    Who may say all that it offers needs no limit; else somebody who is idle now could not begin.
    """
    importance: Mapping[str, float] = msgspec.field(default_factory=dict)
    """Equation 4, by topic."""
    short: Mapping[str, Amounts] = msgspec.field(default_factory=dict)
    """By how much protected topics alone exceed a budget, where they do."""
    optimal: bool = False
    """Whether it is proven that nothing else delivers more utility."""


Select = Callable[[CongestionProblem], Selection]
