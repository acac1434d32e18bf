"""One offload session: what is overloaded, what moves where, and how far it has got."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mangrove.control.offloading.problem import Bundle, Move, Scope
from mangrove.control.sessions.moved_topics import MovedTopic
from mangrove.control.sessions.orders import OrderBook
from mangrove.control.sessions.states import SessionState, Step, next_state, timeout_s
from mangrove.model.agents.load import Metric
from mangrove.model.agents.peers import EdgeRoom
from mangrove.model.agents.status import MoveStatus, SessionStatus
from mangrove.model.balancing import Balancing
from mangrove.model.events.event_log import EventId
from mangrove.model.unreadable import UNREADABLE


class StoredMove(msgspec.Struct, frozen=True, kw_only=True):
    """A topic that leaves, as the store has it."""

    topic: str
    to: str
    domain: str = ""
    url: str = ""
    management_url: str = ""
    members: tuple[tuple[str, str], ...] = ()
    """Clients and keys, if only a part of the topic's clients moves."""
    decided_by: str = ""


class StoredSession(msgspec.Struct, frozen=True, kw_only=True, tag="session"):
    """A session as the store has it: written before anything moves, removed when it is over."""

    id: str
    broker: str
    publishers: bool
    scope: Scope
    state: SessionState
    since: float
    """Seconds since 1970."""
    metrics: tuple[str, ...]
    opened_by: str
    moves: tuple[StoredMove, ...]


class StoredMoved(msgspec.Struct, frozen=True, kw_only=True, tag="moved"):
    """Topics that may not go back yet, as the store has them."""

    moved: tuple[MovedTopic, ...]


class StoredAdmission(msgspec.Struct, frozen=True, kw_only=True, tag="admission"):
    """What this domain takes in a linked domain's session, as the store has it."""

    session: str
    peer: str
    brokers: dict[str, str]
    """Topic → broker."""
    until: float
    """Seconds since 1970."""
    event: str


Record = StoredSession | StoredMoved | StoredAdmission


class MoveProgress(msgspec.Struct):
    """A topic that leaves in a session."""

    stored: StoredMove
    decided_by: EventId
    moved: int = 0
    failed: int = 0
    vanished: int = 0
    held_ms: float = 0.0
    repeated: int = 0

    @property
    def answered(self) -> int:
        """Clients of which it is known what became of them."""
        return self.moved + self.failed + self.vanished


class Session(msgspec.Struct):
    """An open session; `step` is the only way from state to state."""

    id: str
    broker: str
    publishers: bool
    opened_at: float
    opened_by: EventId
    metrics: Mapping[str, float]
    need: Mapping[Metric, float]
    scope: Scope = Scope.DOMAIN
    state: SessionState = SessionState.LOCATING
    until: float = 0.0
    """When the state times out."""
    acceptors: tuple[str, ...] = ()
    """Brokers of this domain that are BUSY for it, besides the source."""
    moves: dict[str, MoveProgress] = msgspec.field(default_factory=dict)
    orders: OrderBook = msgspec.field(default_factory=OrderBook)
    asked: dict[str, float] = msgspec.field(default_factory=dict)
    """Neighbours that have not answered, and when each is asked again."""
    asked_topics: tuple[str, ...] = ()
    rooms: dict[str, tuple[EdgeRoom, ...]] = msgspec.field(default_factory=dict)
    bundles: dict[str, Bundle] = msgspec.field(default_factory=dict)
    """What could leave, when it was last looked at."""
    chosen: tuple[Move, ...] = ()
    """What neighbours are asked to take."""
    admitted: dict[str, tuple[str, str]] = msgspec.field(default_factory=dict)
    """Topic → URL of the broker, and of the management broker, of the neighbour that takes it."""
    peers: tuple[str, ...] = ()
    """Neighbours whose brokers are BUSY for it."""
    write: int = -1
    earliest_end: float = 0.0
    """Not before all clients had time to register with a leader that took the session up."""
    settled_from: float = 0.0
    """When the last of its clients had moved, or had had its time; the cool-down counts from there."""
    tried: list[str] = msgspec.field(default_factory=list)
    """Why nobody takes anything, for people."""

    def step(self, step: Step, now: float, balancing: Balancing) -> None:
        """Go on to the next state."""
        self.state = next_state(self.state, step)
        if self.state is not SessionState.ENDED:
            self.until = now + timeout_s(self.state, balancing)

    def stored(self, since: float) -> StoredSession:
        """What the store gets of it."""
        return StoredSession(
            id=self.id,
            broker=self.broker,
            publishers=self.publishers,
            scope=self.scope,
            state=SessionState.MIGRATING,
            since=since,
            metrics=tuple(self.metrics),
            opened_by=self.opened_by,
            moves=tuple(move.stored for move in self.moves.values()),
        )

    def status(self, now: float, outcome: str = "") -> SessionStatus:
        """What `mangrove load` shows of it."""
        return SessionStatus(
            id=self.id,
            broker=self.broker,
            state=self.state.value,
            scope=self.scope.value,
            metrics=tuple(self.metrics),
            since_s=now - self.opened_at,
            moves=tuple(
                MoveStatus(
                    topic=topic,
                    to=move.stored.to,
                    subscriptions=move.answered + self.orders.waiting(topic),
                    confirmed=move.moved,
                    domain=move.stored.domain,
                    held_ms=move.held_ms,
                )
                for topic, move in self.moves.items()
            ),
            outcome=outcome,
        )


_decoder: msgspec.json.Decoder[Record] = msgspec.json.Decoder(Record)


def encode(record: Record) -> bytes:
    """As the store has it."""
    return msgspec.json.encode(record)


def decode(value: bytes) -> Record | None:
    """From the store; None if it is nothing that this version wrote."""
    try:
        return _decoder.decode(value)
    except UNREADABLE:
        return None
