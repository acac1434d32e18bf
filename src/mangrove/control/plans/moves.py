"""Topics on their way to where a plan wants them: whom to tell, and what each has said.

The same orders as in an offload session, carried out by clients in the same way, so nothing is lost; but many
sources lead to one target, and no broker is BUSY for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import msgspec

from mangrove.control.clients.placements import WishId
from mangrove.control.events.session_happenings import TopicMoved
from mangrove.control.instructions import Instruction, TellClient
from mangrove.control.sessions.orders import OrderBook
from mangrove.model.agents.registration import Assignment, Migrated, Order
from mangrove.model.events.event_log import EventId, EventLog

MAX_HELD_MS = 1e7


class TopicOnItsWay(msgspec.Struct):
    """One topic that moves."""

    to: str
    until: float
    """When those that have not answered are given up."""
    decided_by: EventId
    orders: OrderBook = msgspec.field(default_factory=OrderBook)
    moved: int = 0
    failed: int = 0
    vanished: int = 0
    held_ms: float = 0.0
    repeated: int = 0


class PlannedMoves:
    """All topics that move at this moment."""

    def __init__(
        self, log: EventLog, assignment: Callable[[str, str], Assignment], *, session: str = ""
    ) -> None:
        self._log = log
        self._assignment = assignment
        self.session = session
        """By this name clients know the orders."""
        self.reason = ""
        self._topics: dict[str, TopicOnItsWay] = {}

    def __len__(self) -> int:
        return len(self._topics)

    def __contains__(self, topic: str) -> bool:
        return topic in self._topics

    @property
    def topics(self) -> tuple[str, ...]:
        """That move."""
        return tuple(self._topics)

    def target(self, topic: str) -> str:
        """Where a topic is being moved, if it is."""
        found = self._topics.get(topic)
        return "" if found is None else found.to

    def begin(
        self, topic: str, to: str, members: Iterable[WishId], *, until: float, decided_by: EventId
    ) -> None:
        """A topic's clients are to go to a broker."""
        going = TopicOnItsWay(to, until, decided_by)
        for wish in members:
            going.orders.add(wish, topic)
        self._topics[topic] = going

    def clear(self) -> None:
        """Somebody else decides, or another plan."""
        self._topics.clear()

    # -- orders ---------------------------------------------------------------------------------------------

    def tell(self, term: int, now: float) -> list[Instruction]:
        """Tell those who are to be told now."""
        return [
            TellClient(
                wish[0],
                Order(
                    term=term,
                    session=self.session,
                    key=wish[1],
                    to=self._assignment(topic, going.to),
                    reason=self.reason,
                ),
            )
            for topic, going in self._topics.items()
            for wish, _ in going.orders.due(now)
        ]

    def orders(self, wish: WishId, topic: str, broker: str) -> bool:
        """Whether a wish that is served at a broker is, or is about to be, ordered to leave it."""
        going = self._topics.get(topic)
        return going is not None and (wish in going.orders or broker != going.to)

    # -- answers --------------------------------------------------------------------------------------------

    def confirmed(self, message: Migrated) -> None:
        """A client has moved a wish, or could not."""
        if message.session != self.session:
            return
        for going in self._topics.values():
            if going.orders.drop((message.client, message.key)) is None:
                continue
            if message.problem or message.broker != going.to:
                going.failed += 1
                return
            going.moved += 1
            if 0.0 <= message.held_ms <= MAX_HELD_MS:
                going.held_ms = max(going.held_ms, message.held_ms)
            going.repeated += max(0, message.repeated)
            return

    def joined(self, wish: WishId, topic: str, broker: str, *, movable: bool) -> None:
        """A client says that it is served at a broker: it has arrived, or is to be told to go."""
        going = self._topics.get(topic)
        if going is None:
            return
        if broker == going.to:
            if going.orders.drop(wish) is not None:
                going.moved += 1
        elif movable:
            going.orders.add(wish, topic)

    def gone(self, wish: WishId) -> None:
        """A client has left, or does not want something any more."""
        for going in self._topics.values():
            if going.orders.drop(wish) is not None:
                going.vanished += 1
                return

    # -- ends -----------------------------------------------------------------------------------------------

    def timer(self) -> float:
        """When somebody is to be told, or given up."""
        return min((min(each.until, each.orders.timer()) for each in self._topics.values()), default=math.inf)

    def finished(self, now: float) -> dict[str, TopicOnItsWay]:
        """Topics all of whose clients have answered, or had their time; each is told once."""
        over = {
            topic: going for topic, going in self._topics.items() if not going.orders or now >= going.until
        }
        for topic, going in over.items():
            del self._topics[topic]
            self._log.note(
                TopicMoved(
                    session=self.session,
                    topic=topic,
                    to=going.to,
                    moved=going.moved,
                    failed=going.failed,
                    vanished=going.vanished,
                    silent=len(going.orders),
                    held_ms=going.held_ms,
                    repeated=going.repeated,
                ),
                now,
                going.decided_by,
            )
        return over
