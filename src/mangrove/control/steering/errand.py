"""One errand: subscribers of some topics are to be served in a linked domain, or to come home from there."""

from __future__ import annotations

from collections import Counter
from enum import Enum

import msgspec

from mangrove.control.clients.placements import WishId
from mangrove.control.sessions.orders import OrderBook
from mangrove.control.steering.choice import Verdict
from mangrove.model.agents.peers import AdmissionAsked, Incoming, RoomAsked
from mangrove.model.agents.registration import Assignment
from mangrove.model.events.event_log import EventId

REPEAT_S = 0.5
"""A question that was not answered is asked again."""
ANSWER_S = 2.0
"""So long a linked domain has to answer."""


class ErrandState(Enum):
    """Before MOVING nothing has moved, and every way leads to the end."""

    ASKING = "asking"
    """Which edges have room."""
    ADMITTING = "admitting"
    """Whether they take what was chosen."""
    MOVING = "moving"
    """Clients were told."""


class Group(msgspec.Struct):
    """The new subscribers of one topic."""

    topic: str
    wishes: tuple[WishId, ...]
    sources: dict[str, int]
    verdict: Verdict
    to: Assignment | None = None
    moved: int = 0
    stayed: Counter[str] = msgspec.field(default_factory=Counter)
    decided_by: EventId | None = None


class Errand(msgspec.Struct):
    """What is asked of one linked domain at a time."""

    id: str
    domain: str
    """The linked domain."""
    groups: dict[str, Group]
    state: ErrandState
    until: float
    home: bool = False
    """Whether they come home from there."""
    ask_at: float = 0.0
    chosen: dict[str, Incoming] = msgspec.field(default_factory=dict)
    management_url: str = ""
    orders: OrderBook = msgspec.field(default_factory=OrderBook)

    def question(self) -> RoomAsked | AdmissionAsked:
        """What the linked domain is asked in this state."""
        if self.state is ErrandState.ASKING:
            return RoomAsked(session=self.id, topics=tuple(sorted(self.groups)))
        moves = tuple(self.chosen[topic] for topic in sorted(self.chosen))
        return AdmissionAsked(session=self.id, publishers=False, moves=moves)

    def timer(self) -> float:
        """When something is to be said again, or to be given up."""
        again = self.orders.timer() if self.state is ErrandState.MOVING else self.ask_at
        return min(again, self.until)
