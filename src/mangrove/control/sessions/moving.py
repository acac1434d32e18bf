"""Clients on their way: who is told to go where, and what each has said of it."""

from __future__ import annotations

import msgspec

from mangrove.control.clients.placements import WishId
from mangrove.control.events.session_happenings import TopicMoved
from mangrove.control.instructions import Instruction, TellClient
from mangrove.control.sessions.session import MoveProgress, Session
from mangrove.control.sessions.states import SessionState
from mangrove.control.sessions.surroundings import Surroundings
from mangrove.model.agents.registration import Migrated, Order
from mangrove.model.events.event_log import EventLog

MAX_HELD_MS = 1e7


class Moving:
    """The orders of all sessions that are MIGRATING, and the targets of their topics."""

    def __init__(self, sessions: dict[str, Session], surroundings: Surroundings, log: EventLog) -> None:
        """`sessions` are those of the coordinator, by id."""
        self._sessions = sessions
        self._around = surroundings
        self._log = log
        self._targets: dict[tuple[str, bool], tuple[str, str]] = {}
        """Topic, and whether its publishers move → session and target, once clients are told."""
        self.count = 0
        """Wishes that have moved."""

    def lead(self, session: Session, now: float) -> None:
        """Clients of a session's topics, and those to come, are served elsewhere from now on."""
        for topic, move in session.moves.items():
            if not move.stored.members and not move.stored.domain:
                self._targets[topic, session.publishers] = (session.id, move.stored.to)
            members = move.stored.members or self._around.members(
                topic, session.broker, publishers=session.publishers
            )
            for wish in members:
                session.orders.add(wish, topic)
            self._around.follow(topic, now, move.decided_by)

    def let_go(self, session: Session) -> None:
        """A session is over: nothing leads to its targets any more."""
        for topic in session.moves:
            if self._targets.get((topic, session.publishers), ("", ""))[0] == session.id:
                del self._targets[topic, session.publishers]

    def target(self, topic: str, *, publishers: bool) -> str:
        """Where a session moves a topic, if one does."""
        return self._targets.get((topic, publishers), ("", ""))[1]

    def orders(self, wish: WishId, topic: str, broker: str) -> bool:
        """Whether a wish that is served at a broker is, or is about to be, ordered to leave it."""
        return any(
            wish in session.orders or (broker == session.broker and topic in session.moves)
            for session in self._migrating()
        )

    def _migrating(self) -> list[Session]:
        return [each for each in self._sessions.values() if each.state is SessionState.MIGRATING]

    # -- orders ---------------------------------------------------------------------------------------------

    def tell(self, term: int, now: float) -> list[Instruction]:
        """Tell those who are to be told now."""
        return [
            self._order(session, wish, topic, term)
            for session in self._migrating()
            for wish, topic in session.orders.due(now)
        ]

    def _order(self, session: Session, wish: WishId, topic: str, term: int) -> TellClient:
        move = session.moves[topic].stored
        to = self._around.assignment(topic, "" if move.domain else move.to)
        if move.domain:
            to = msgspec.structs.replace(to, broker=move.to, url=move.url)
        order = Order(
            term=term,
            session=session.id,
            key=wish[1],
            to=to,
            domain=move.domain,
            management_url=move.management_url,
            pause_s=self._around.pause_s(move.domain) if move.domain else 0.0,
            reason=f"{session.broker} is overloaded",
        )
        return TellClient(wish[0], order)

    # -- answers --------------------------------------------------------------------------------------------

    def confirmed(self, message: Migrated) -> Session | None:
        """A client has moved a wish, or could not; the session in which it was told to."""
        session = self._sessions.get(message.session)
        topic = None if session is None else session.orders.drop((message.client, message.key))
        if session is None or topic is None:
            return None
        move = session.moves[topic]
        if message.problem or message.broker != move.stored.to:
            move.failed += 1
        else:
            self._moved(move)
            if 0.0 <= message.held_ms <= MAX_HELD_MS:
                move.held_ms = max(move.held_ms, message.held_ms)
            move.repeated += max(0, message.repeated)
        return session

    def joined(self, wish: WishId, topic: str, broker: str, *, publishers: bool) -> Session | None:
        """A client says that it is served at a broker: that is news if it is to leave it, or has arrived."""
        for session in self._migrating():
            move = session.moves.get(topic)
            if move is None:
                continue
            if wish in session.orders and broker == move.stored.to:
                session.orders.drop(wish)
                self._moved(move)
                return session
            if broker == session.broker and publishers == session.publishers and not move.stored.members:
                session.orders.add(wish, topic)
                return session
        return None

    def gone(self, wish: WishId) -> Session | None:
        """A client has left, or does not want something any more; the session that waited for it."""
        for session in self._sessions.values():
            topic = session.orders.drop(wish)
            if topic is not None:
                session.moves[topic].vanished += 1
                return session
        return None

    def _moved(self, move: MoveProgress) -> None:
        move.moved += 1
        self.count += 1

    def note_result(self, session: Session, now: float) -> None:
        """Say what became of every topic of a session."""
        for topic, move in session.moves.items():
            self._log.note(
                TopicMoved(
                    session=session.id,
                    topic=topic,
                    to=move.stored.to,
                    moved=move.moved,
                    failed=move.failed,
                    vanished=move.vanished,
                    silent=session.orders.waiting(topic),
                    held_ms=move.held_ms,
                    repeated=move.repeated,
                ),
                now,
                move.decided_by,
            )

    def problems(self) -> list[str]:
        """Invariants that do not hold; for tests."""
        return [
            f"{topic} is led by {name}, which has ended"
            for (topic, _), (name, _to) in self._targets.items()
            if name not in self._sessions
        ]
