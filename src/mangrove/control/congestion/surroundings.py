"""What congestion control must know of its domain; the brain gives it, or an experiment.

How to drive `controller.CongestionControl` in virtual time: implement `CongestionSurroundings`, call
`consider(now)` once loads were measured (once a period is enough), and have publishers keep to what it
returns, or to `limits`, which is complete.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from mangrove.model.agents.load import Amounts, BrokerLoad
from mangrove.model.events.event_log import EventId


class PublisherOffer(msgspec.Struct, frozen=True):
    """A publisher of a topic that can be limited: what it says, and what it would say."""

    publisher: str
    """Names it among those of its topic."""
    utility: float
    """Equation 2, from 0 to 1."""
    offered_msg_s: float
    """Said and withheld."""
    said_msg_s: float
    """What got through, and is part of what brokers were measured to carry."""
    size_bytes: float
    """Of a message on the wire, on average."""


class TopicOffer(msgspec.Struct, frozen=True):
    """A topic with its publishers and the brokers that carry it."""

    topic: str
    utility: float
    """Equation 3."""
    subscribers: int
    publishers: tuple[PublisherOffer, ...]
    copies: Mapping[str, float]
    """By broker that takes it in (once): how often it gives each message out."""
    protected: bool = False


class CongestionSurroundings(Protocol):
    """A domain as congestion control sees it."""

    def loads(self, now: float) -> Mapping[str, BrokerLoad]:
        """How all brokers are, by name."""

    def declared(self, now: float) -> Mapping[str, EventId | None]:
        """Brokers that are declared congested, each with the event that told so, if one did."""

    def declare(self, load: BrokerLoad, tried: Sequence[str], now: float) -> None:
        """It is evident that a broker must lose more than anybody can take; `declared` has it from now on."""

    def room_elsewhere(self, load: BrokerLoad, now: float) -> Amounts:
        """What the other brokers of the domain, and linked domains, could take of a broker's load at most."""

    def offers(self, now: float) -> Sequence[TopicOffer]:
        """Every topic whose publishers can be limited, and the protected ones."""
