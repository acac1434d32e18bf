"""What sessions need to know of their domain, and may do to it; the brain gives it, or an experiment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from mangrove.control.clients.placements import WishId
from mangrove.control.offloading.problem import Bundle
from mangrove.model.agents.load import BrokerLoad, ClusterLoad
from mangrove.model.agents.registration import Assignment
from mangrove.model.events.event_log import EventId


class Surroundings(Protocol):
    """A domain as its sessions see it."""

    def loads(self, now: float) -> Mapping[str, BrokerLoad]:
        """How all brokers are, by name."""

    def set_busy(self, broker: str, session: str) -> bool:
        """A broker takes part in a session; False if it takes part in another."""

    def clear_busy(self, broker: str, session: str) -> None:
        """A session is over for a broker."""

    def changed_by(self, broker: str) -> EventId | None:
        """The event that told of a broker's state."""

    def bundles(self, broker: str, now: float, *, publishers: bool) -> Sequence[Bundle]:
        """What could leave a broker."""

    def topics_at(self, broker: str) -> frozenset[str]:
        """What a broker serves."""

    def members(self, topic: str, broker: str, *, publishers: bool) -> Iterable[WishId]:
        """Clients of a topic at a broker that can be told to move."""

    def assignment(self, topic: str, broker: str) -> Assignment:
        """Where the clients of a topic go."""

    def follow(self, topic: str, now: float, decision: EventId | None) -> None:
        """A topic has, or no longer has, a target: the directory must say so."""

    def may_leave(self, topic: str) -> bool:
        """Whether clients of a topic could be served in another domain and miss nothing."""

    def neighbours(self, now: float) -> Mapping[str, ClusterLoad]:
        """Linked domains that are there and take load from this one."""

    def pause_s(self, peer: str) -> float:
        """How long a message may be on its way to a linked domain."""
