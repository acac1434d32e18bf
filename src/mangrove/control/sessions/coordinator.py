"""Opens offload sessions and brings each to its end (ePEER §4.4.4, table of digest §4.6).

How to drive it, as the brain does, and a simulation or an experiment may:

- give it `Surroundings`: loads by broker, bundles by broker, and what else it asks of its domain;
- call `begin(term, records, now)` once, with what the store held;
- call `consider(now)` whenever loads were measured; it opens sessions for brokers that need one;
- carry out what every call returns. `Store` is answered with `stored(write, now)` or `failed(…)`: nothing
  moves before that. `TellClient(client, Order)` is an order to move one wish to `order.to.broker`, said again
  every second until `confirmed(Migrated(…), now)`; `TellPeer` goes to a neighbour, whose `RoomTold`,
  `AdmissionTold` and `SessionClosed` come back through `heard(peer, message, now)`;
- call `handle_timer(now)` no later than `timer()`.

What happened, with its reasons, is in the event log that it was given; `sessions(now)`, `ended` and
`congested` say how things stand.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from mangrove.control.clients.placements import WishId
from mangrove.control.events.session_happenings import MoveDecided, SessionEnded, SessionOpened
from mangrove.control.instructions import Instruction, Store, StoreWrite
from mangrove.control.load.capacity import need_of
from mangrove.control.offloading.problem import Acceptor, Member, Move, Problem, Scope
from mangrove.control.offloading.registry import method_named
from mangrove.control.offloading.trigger import Start, acceptor, next_start
from mangrove.control.sessions.closing import Closing
from mangrove.control.sessions.moved_topics import MovedTopics
from mangrove.control.sessions.moving import Moving
from mangrove.control.sessions.neighbour_talk import NeighbourTalk
from mangrove.control.sessions.patience import Patience
from mangrove.control.sessions.resumption import taken_up
from mangrove.control.sessions.selection import foreign_acceptors, plain, select, without
from mangrove.control.sessions.session import (
    MoveProgress,
    Session,
    StoredMove,
    StoredMoved,
    encode,
)
from mangrove.control.sessions.states import SessionState, Step
from mangrove.control.sessions.surroundings import Surroundings
from mangrove.control.store_writes import SESSIONS
from mangrove.model.agents.load import Amounts, BrokerLoad, LoadState, Metric
from mangrove.model.agents.peers import AdmissionTold, RoomTold, SessionClosed
from mangrove.model.agents.registration import Migrated
from mangrove.model.agents.status import SessionStatus
from mangrove.model.balancing import Balancing
from mangrove.model.events.event_log import EventId, EventLog

MOVED_KEY = "moved"
Disconnect = Callable[[str, str, Mapping[Metric, float], float, EventId], list[Instruction]]
"""Session, broker, what is unmet, time and cause → disconnections of clients that cannot be told to move."""
KEPT = 20
"""Ended sessions that are still shown."""
HEAD = "head"


class Coordinator:
    """All sessions of a domain: one for each overloaded broker, side by side on disjoint brokers."""

    def __init__(
        self,
        domain: str,
        balancing: Balancing,
        surroundings: Surroundings,
        log: EventLog,
        *,
        number: Callable[[], int],
        clock_shift_s: float,
        disconnect: Disconnect | None = None,
        still_short: Callable[[str], bool] | None = None,
        paused: Callable[[], bool] = lambda: False,
    ) -> None:
        """`number` numbers the writes to the store; `disconnect` deals with plain clients.

        `still_short` says whether publishers are limited for a broker's sake; while `paused` none is opened.
        """
        self._disconnect = disconnect
        self._paused = paused
        self._domain = domain
        self._balancing = balancing
        self._around = surroundings
        self._log = log
        self._number = number
        self._clock_shift_s = clock_shift_s
        self._method = method_named(balancing.method)
        self._moved = MovedTopics(clock_shift_s)
        self._closing = Closing(number)
        self._talk = NeighbourTalk(surroundings, log)
        self._term = 0
        self._count = 0
        self._sessions: dict[str, Session] = {}
        self._moving = Moving(self._sessions, surroundings, log)
        self._patience = Patience(balancing, self._method.started_by, log, still_short)
        self.ended: deque[SessionStatus] = deque(maxlen=KEPT)
        self._silent: set[str] = set()

    # -- life -----------------------------------------------------------------------------------------------

    def begin(self, term: int, records: Iterable[bytes], now: float) -> list[Instruction]:
        """A term begins; sessions of earlier ones go on or are given up."""
        self._term = term
        found = taken_up(records, self._around, self._log, self._balancing, self._clock_shift_s, now)
        self._moved.restore(found.moved, now)
        for session in found.sessions:
            self._sessions[session.id] = session
            self._moving.lead(session, now)
        told: list[Instruction] = []
        if found.useless:
            moved = encode(StoredMoved(moved=self._moved.told()))
            told += self._closing.write({**dict.fromkeys(found.useless), MOVED_KEY: moved})
        for name, peers in found.useless.items():
            told += self._closing.tell(name, peers, now)
        return told + self._moving.tell(self._term, now)

    def drop(self) -> None:
        """Somebody else leads: whatever is open is theirs."""
        for session in self._sessions.values():
            for broker in (session.broker, *session.acceptors):
                self._around.clear_busy(broker, session.id)
            self._moving.let_go(session)
        self._sessions.clear()

    # -- opening --------------------------------------------------------------------------------------------

    def consider(self, now: float, *, opening: bool = True) -> list[Instruction]:
        """Loads were measured: open sessions where brokers need one, unless something else comes first."""
        told: list[Instruction] = []
        loads = self._around.loads(now)
        for load in loads.values():
            self._moved.loaded(load, now)
            self._patience.measured(load, now)
        if not self._balancing.enabled or not opening or self._paused():
            return told
        opened: set[str] = set()
        while True:  # once for each broker: one that sheds at once, without a cool-down, is measured first
            resting = self._patience.resting(loads.values(), now) | opened
            start = next_start(self._method.started_by, loads.values(), self._balancing, resting=resting)
            if start is None:
                return told
            opened.add(start.source)
            told += self._open(start, loads[start.source], now)
            loads = self._around.loads(now)

    def _open(self, start: Start, load: BrokerLoad, now: float) -> list[Instruction]:
        publishers = load.role == HEAD
        candidates = () if publishers else start.acceptors
        loads = self._around.loads(now)
        others = [each for each in loads.values() if each.broker not in (load.broker, *candidates)]
        left_out = {each.broker: _why_not(each) for each in others if each.role == load.role}
        if not candidates and not self._talk.candidates(publishers, now):
            tried = [f"{broker} is {why}" for broker, why in left_out.items()]
            self._congest(load, [*tried, self._talk.nobody(now)], now)
            self._patience.found_nobody(load.broker, now)
            return []
        self._count += 1
        name = f"{self._domain}-{self._term}-{self._count}"
        opened_by = self._log.note(
            SessionOpened(
                session=name,
                broker=load.broker,
                metrics={metric.value: share for metric, share in start.shares.items()},
                need={metric.value: need for metric, need in start.need.items()},
                candidates={each: loads[each].headroom for each in candidates},
                left_out=left_out,
            ),
            now,
            self._around.changed_by(load.broker),
        )
        metrics = {metric.value: share for metric, share in start.shares.items()}
        session = Session(name, load.broker, publishers, now, opened_by, metrics, start.need)
        self._sessions[name] = session
        self._around.set_busy(load.broker, name)
        if not candidates:
            session.step(Step.NO_CANDIDATES, now, self._balancing)
            return self._ask(session, f"no broker of {self._domain} may take load", now)
        session.step(Step.CANDIDATES_FOUND, now, self._balancing)
        acceptors = tuple(
            acceptor(
                loads[each],
                self._balancing,
                domain=self._domain,
                topics=self._around.topics_at(each),
                cap=start.cap,
            )
            for each in candidates
        )
        choice = select(self._method.choose, self._problem(session, load, acceptors, now), self._moved, now)
        told = []
        if choice.unmet and load.measured is LoadState.OVERLOAD and self._disconnect is not None:
            told = self._disconnect(name, load.broker, choice.unmet, now, opened_by)
        if choice.moves:
            return told + self._prepare(session, choice.moves, Step.CHOSEN_HERE, now)
        if told:
            return told + self._end(session, Step.GIVEN_UP, f"{len(told)} plain clients go", now)
        session.tried.append(f"{', '.join(candidates)} cannot take any topic")
        if load.measured is not LoadState.OVERLOAD:
            return self._fail(session, Step.GIVEN_UP, now)
        session.step(Step.NOTHING_CHOSEN, now, self._balancing)
        return self._ask(session, session.tried[-1], now)

    def _problem(
        self, session: Session, load: BrokerLoad, acceptors: tuple[Acceptor, ...], now: float
    ) -> Problem:
        moving = {topic for each in self._sessions.values() for topic in each.moves}
        bundles = without(self._around.bundles(load.broker, now, publishers=session.publishers), moving)
        if session.scope is Scope.NEIGHBOURS:
            bundles = tuple(bundle for bundle in bundles if self._around.may_leave(bundle.topic))
        session.bundles = {bundle.topic: bundle for bundle in bundles}
        return Problem(
            source=load.broker,
            publishers=session.publishers,
            scope=session.scope,
            capacity=Amounts(*(load.capacity.get(metric, math.inf) for metric in Metric)),
            load=Amounts(load.bytes_in_s, load.bytes_out_s, load.messages_in_s),
            need=session.need,
            bundles=bundles,
            acceptors=acceptors,
        )

    # -- neighbours -----------------------------------------------------------------------------------------

    def _ask(self, session: Session, why: str, now: float) -> list[Instruction]:
        """Look for room in linked domains."""
        session.scope = Scope.NEIGHBOURS
        bundles = self._problem(session, self._around.loads(now)[session.broker], (), now).bundles
        told = self._talk.ask(session, [bundle.topic for bundle in bundles], why, now)
        if session.asked and bundles:
            return told
        session.tried.append(self._talk.nobody(now) if bundles else "nothing of it may leave the domain")
        return self._fail(session, Step.NO_ROOM, now)

    def heard(
        self, peer: str, message: RoomTold | AdmissionTold | SessionClosed, now: float
    ) -> list[Instruction]:
        """A neighbour has answered."""
        if isinstance(message, SessionClosed):
            self._closing.closed(message.session, peer)
            return []
        session = self._sessions.get(message.session)
        if session is None or not self._talk.heard(session, peer, message, now) or session.asked:
            return []
        if session.state is SessionState.ASKING:
            return self._select_elsewhere(session, now)
        return self._admitted(session, now)

    def _select_elsewhere(self, session: Session, now: float) -> list[Instruction]:
        """All neighbours have answered, or had their time."""
        load = self._around.loads(now)[session.broker]
        acceptors = foreign_acceptors(session.rooms)
        session.need = need_of(load, self._balancing) if load.measured is LoadState.OVERLOAD else {}
        if not session.need:
            return self._end(session, Step.GIVEN_UP, "no longer overloaded", now)
        if not acceptors:
            session.tried.append("no neighbour has room")
            return self._fail(session, Step.NO_ROOM, now)
        session.step(Step.ROOM_TOLD, now, self._balancing)
        choice = select(self._method.choose, self._problem(session, load, acceptors, now), self._moved, now)
        if not choice.moves:
            session.tried.append("what the neighbours have left is not enough for any topic")
            return self._fail(session, Step.NO_ROOM, now)
        session.step(Step.CHOSEN_ELSEWHERE, now, self._balancing)
        session.chosen = choice.moves
        return self._talk.ask_admission(session, now)

    def _admitted(self, session: Session, now: float) -> list[Instruction]:
        """All neighbours have said what they take, or had their time."""
        silent, session.asked = tuple(session.asked), {}
        taken = tuple(move for move in session.chosen if move.topic in session.admitted)
        if taken:
            # Who said nothing may have its brokers BUSY for what now goes elsewhere, or stays.
            told = self._closing.tell(session.id, silent, now)
            return told + self._prepare(session, taken, Step.ADMITTED, now)
        session.tried.append("the neighbours took nothing")
        return self._fail(session, Step.REFUSED, now)

    # -- moving ---------------------------------------------------------------------------------------------

    def _prepare(self, session: Session, moves: Sequence[Move], step: Step, now: float) -> list[Instruction]:
        """Write down what is to move; nothing does before that is in the store."""
        for move in moves:
            self._decide(session, move, now)
        session.acceptors = tuple(
            dict.fromkeys(move.to.broker for move in moves if move.to.domain == self._domain)
        )
        for broker in session.acceptors:
            self._around.set_busy(broker, session.id)
        session.step(step, now, self._balancing)
        session.write = self._number()
        record = encode(session.stored(now + self._clock_shift_s))
        return [Store(session.write, (StoreWrite(SESSIONS, session.id, record),))]

    def _decide(self, session: Session, move: Move, now: float) -> None:
        bundle = session.bundles.get(move.topic)
        foreign = "" if move.to.domain == self._domain else move.to.domain
        url, management_url = session.admitted.get(move.topic, ("", ""))
        decided_by = self._log.note(
            MoveDecided(
                session=session.id,
                topic=move.topic,
                source=session.broker,
                to=move.to.broker,
                domain=foreign,
                clients=len(move.members),
                publishers=session.publishers,
                whole=move.whole,
                deadline_ms=None if bundle is None else _milliseconds(bundle.deadline_s),
                audience="" if bundle is None else bundle.audience.value,
                relief=plain(move.relief),
                cost=plain(move.cost),
                why=move.why,
            ),
            now,
            session.opened_by,
        )
        stored = StoredMove(
            topic=move.topic,
            to=move.to.broker,
            domain=foreign,
            url=url,
            management_url=management_url,
            members=() if move.whole else tuple((each.client, each.key) for each in move.members),
            decided_by=decided_by,
        )
        session.moves[move.topic] = MoveProgress(stored, decided_by)

    def stored(self, write: int, now: float) -> list[Instruction]:
        """A write is in the store; a session that waited for it begins to move clients."""
        self._closing.stored(write)
        session = self._waiting_for(write)
        if session is None:
            return []
        session.step(Step.STORED, now, self._balancing)
        self._patience.found_somebody(session.broker)
        for topic in session.moves:
            self._moved.add(topic, session.broker, now)
        self._moving.lead(session, now)
        return [*self._moving.tell(self._term, now), *self._if_done(session, now)]

    def failed(self, write: int, problem: str, now: float) -> list[Instruction]:
        """A write did not come about: what waited for it does not happen."""
        self._closing.failed(write, now)
        session = self._waiting_for(write)
        if session is None:
            return []
        return self._end(session, Step.NOT_STORED, f"it could not be stored: {problem}", now)

    def _waiting_for(self, write: int) -> Session | None:
        return next(
            (
                session
                for session in self._sessions.values()
                if session.write == write and session.state is SessionState.PREPARING
            ),
            None,
        )

    # -- clients --------------------------------------------------------------------------------------------

    def confirmed(self, message: Migrated, now: float) -> list[Instruction]:
        """A client has moved a wish, or could not."""
        return self._if_done(self._moving.confirmed(message), now)

    def joined(
        self, wish: WishId, topic: str, broker: str, now: float, *, publishers: bool
    ) -> list[Instruction]:
        """A client says that it is served at a broker."""
        session = self._moving.joined(wish, topic, broker, publishers=publishers)
        if session is None:
            return []
        return [*self._moving.tell(self._term, now), *self._if_done(session, now)]

    def gone(self, wish: WishId, now: float) -> list[Instruction]:
        """A client has left, or does not want something any more."""
        return self._if_done(self._moving.gone(wish), now)

    def orders(self, wish: WishId, topic: str, broker: str) -> bool:
        """Whether a wish that is served at a broker is, or is about to be, ordered to leave it."""
        return self._moving.orders(wish, topic, broker)

    def target(self, topic: str, *, publishers: bool) -> str:
        """Where a session moves a topic, if one does."""
        return self._moving.target(topic, publishers=publishers)

    def broker_failed(self, broker: str, now: float) -> list[Instruction]:
        """A broker is dead: sessions in which it takes part are over."""
        told: list[Instruction] = []
        for session in list(self._sessions.values()):
            if broker in (session.broker, *session.acceptors):
                told += self._end(session, Step.GIVEN_UP, f"{broker} is dead", now)
                for topic, move in session.moves.items():
                    self._around.follow(topic, now, move.decided_by)
        return told

    def evacuate(
        self, broker: str, targets: Mapping[str, str], cause: EventId, now: float
    ) -> list[Instruction]:
        """Move all that can be moved of these topics from a broker that is to be switched off."""
        self._count += 1
        name = f"{self._domain}-{self._term}-{self._count}"
        session = Session(name, broker, False, now, cause, {}, {})
        loads = self._around.loads(now)
        moves = []
        for topic, target in targets.items():
            members = tuple(
                Member(client, key, Amounts())
                for client, key in self._around.members(topic, broker, publishers=False)
            )
            if members and target in loads and target != broker:
                to = acceptor(loads[target], self._balancing, domain=self._domain)
                why = f"{broker} is to be switched off"
                moves.append(Move(topic, to, members, True, Amounts(), Amounts(), why))
        if not moves:
            return []
        self._sessions[name] = session
        self._around.set_busy(broker, name)
        session.step(Step.CANDIDATES_FOUND, now, self._balancing)
        return self._prepare(session, moves, Step.CHOSEN_HERE, now)

    # -- ending ---------------------------------------------------------------------------------------------

    def _if_done(self, session: Session | None, now: float) -> list[Instruction]:
        if session is None:
            return []
        if session.state is SessionState.MIGRATING and not session.orders and now >= session.earliest_end:
            self._settle(session, Step.ALL_ANSWERED, now)
        return []

    def _settle(self, session: Session, step: Step, now: float) -> None:
        session.step(step, now, self._balancing)
        session.settled_from = now
        self._moving.note_result(session, now)

    def _fail(self, session: Session, step: Step, now: float) -> list[Instruction]:
        """Nobody takes anything."""
        load = self._around.loads(now)[session.broker]
        told = self._end(session, step, "; ".join(session.tried) or "nobody has room", now)
        self._patience.found_nobody(session.broker, now)
        if load.measured is LoadState.OVERLOAD:
            self._congest(load, session.tried, now)
        return told

    def _end(self, session: Session, step: Step, outcome: str, now: float) -> list[Instruction]:
        """The session is over; its brokers are free."""
        told: list[Instruction] = []
        was = session.state
        session.step(step, now, self._balancing)
        del self._sessions[session.id]
        for broker in (session.broker, *session.acceptors):
            self._around.clear_busy(broker, session.id)
        if session.write >= 0 or was in (SessionState.MIGRATING, SessionState.SETTLING):
            moved = encode(StoredMoved(moved=self._moved.told()))
            told += self._closing.write({session.id: None, MOVED_KEY: moved})
        told += self._closing.tell(session.id, session.peers, now)
        self._moving.let_go(session)
        for topic, move in session.moves.items():
            if was is SessionState.SETTLING:
                self._around.follow(topic, now, move.decided_by)
        self._silent.update(client for client, _ in session.orders)
        moved_at = session.settled_from if was is SessionState.SETTLING else now
        self._patience.cool_down(session.broker, moved_at)
        self.ended.append(session.status(now, outcome))
        self._log.note(
            SessionEnded(
                session=session.id,
                broker=session.broker,
                outcome=outcome,
                topics=len(session.moves) if was is SessionState.SETTLING else 0,
                moved=sum(move.moved for move in session.moves.values()),
                seconds=now - session.opened_at,
            ),
            now,
            session.opened_by,
        )
        return told

    def _congest(self, load: BrokerLoad, tried: Sequence[str], now: float) -> None:
        self._patience.congest(load, tried, now, self._around.changed_by(load.broker))

    # -- time -----------------------------------------------------------------------------------------------

    def timer(self) -> float:
        """When to be called again."""
        due = [self._closing.timer()]
        for session in self._sessions.values():
            due.append(session.until)
            if session.state is SessionState.MIGRATING:
                due.append(session.orders.timer() if session.orders else session.earliest_end)
            due += session.asked.values()
        return min(due)

    def handle_timer(self, now: float) -> list[Instruction]:
        """Repeat what was not answered, and end what takes too long."""
        told = [*self._closing.handle_timer(now), *self._moving.tell(self._term, now)]
        for session in list(self._sessions.values()):
            if now >= session.until:
                told += self._time_out(session, now)
            else:
                told += self._talk.repeat(session, now)
                told += self._if_done(session, now)
        return told

    def _time_out(self, session: Session, now: float) -> list[Instruction]:
        match session.state:
            case SessionState.ASKING:
                return self._select_elsewhere(session, now)
            case SessionState.ADMITTING:
                return self._admitted(session, now)
            case SessionState.PREPARING:
                return self._end(session, Step.NOT_STORED, "the store did not answer in time", now)
            case SessionState.MIGRATING:
                self._settle(session, Step.TIMED_OUT, now)
                return []
            case SessionState.SETTLING:
                waiting = len(session.orders)
                outcome = f"{waiting} clients did not say what became of them" if waiting else "done"
                return self._end(session, Step.SETTLED, outcome, now)
            case _:
                return self._end(session, Step.GIVEN_UP, "it took too long", now)

    # -- questions ------------------------------------------------------------------------------------------

    def take_silent(self) -> set[str]:
        """Clients that did not say what became of an order: nobody knows where they are served."""
        silent, self._silent = self._silent, set()
        return silent

    def barred(self, topic: str, now: float) -> frozenset[str]:
        """Brokers that a topic left in this burst, so that it may not return."""
        return self._moved.barred(topic, now)

    @property
    def moves(self) -> int:
        """Wishes that have moved since the term began."""
        return self._moving.count

    @property
    def declared(self) -> Mapping[str, EventId]:
        """Brokers for which no other has room, with the events that told so."""
        return self._patience.declared

    def declare(self, load: BrokerLoad, tried: Sequence[str], now: float) -> None:
        """It is evident, without a session, that nobody has room for what a broker must lose."""
        self._congest(load, tried, now)

    @property
    def congested(self) -> tuple[str, ...]:
        """Brokers for which no other has room."""
        return self._patience.congested

    def sessions(self, now: float) -> tuple[SessionStatus, ...]:
        """All that are open."""
        return tuple(session.status(now) for session in self._sessions.values())

    def moves_topic(self, topic: str) -> bool:
        """Whether an open session moves a topic's subscribers, or is about to."""
        return any(topic in each.moves and not each.publishers for each in self._sessions.values())

    def busy(self) -> dict[str, str]:
        """Brokers of this domain that take part in sessions, and in which."""
        return {
            broker: session.id
            for session in self._sessions.values()
            for broker in (session.broker, *session.acceptors)
        }

    def problems(self) -> list[str]:
        """Invariants that do not hold; for tests."""
        found: list[str] = []
        brokers: dict[str, str] = {}
        topics: dict[tuple[str, bool], str] = {}
        for session in self._sessions.values():
            for broker in (session.broker, *session.acceptors):
                if broker in brokers:
                    found.append(f"{broker} is in {brokers[broker]} and {session.id}")
                brokers[broker] = session.id
            for topic in session.moves:
                if (topic, session.publishers) in topics:
                    found.append(f"{topic} moves in {topics[topic, session.publishers]} and {session.id}")
                topics[topic, session.publishers] = session.id
        return found + self._moving.problems()


def _why_not(load: BrokerLoad) -> str:
    """Why a broker is no candidate, for people."""
    if not load.reachable:
        return "not reachable"
    return load.state.value if load.state is not LoadState.LOW else load.problem or "not measured yet"


def _milliseconds(seconds: float) -> float | None:
    return seconds * 1000 if math.isfinite(seconds) else None
