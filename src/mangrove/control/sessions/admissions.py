"""The other side of a session: a linked domain asks this one to take load (ePEER §4.4.4.2).

Who says yes has its brokers BUSY until it hears that the session is over, or for as long as a session can
last; so has its successor. Every question may come twice, and gets the same answer.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable

import msgspec

from mangrove.control.events.session_happenings import AdmissionEnded, LoadAdmitted
from mangrove.control.instructions import Instruction, TellPeer
from mangrove.control.load.capacity import accepts
from mangrove.control.offloading.trigger import acceptor
from mangrove.control.sessions.closing import Closing
from mangrove.control.sessions.session import StoredAdmission, decode, encode
from mangrove.control.sessions.states import settling_s
from mangrove.control.sessions.surroundings import Surroundings
from mangrove.control.site import Site
from mangrove.model.agents.load import Amounts, BrokerLoad, Metric
from mangrove.model.agents.peers import (
    MAX_TOPICS_A_MESSAGE,
    AdmissionAsked,
    AdmissionTold,
    EdgeRoom,
    Incoming,
    RoomAsked,
    RoomTold,
    SessionClosed,
    SessionEnded,
)
from mangrove.model.events.event_log import EventId, EventLog
from mangrove.model.subjects import is_internal, subject_problem

MARGIN_S = 10.0
"""Beyond all that a session may last at the other side."""
ADMITTED = "admitted."
"""Keys of what was taken begin so, in the sessions' bucket."""
Barred = Callable[[str, float], frozenset[str]]
"""Brokers that a topic left in this burst."""
NOT_WELCOME = "load from a domain that is not in accept_load_from"


class _Admission(msgspec.Struct, frozen=True):
    peer: str
    brokers: dict[str, str]
    """Topic → broker."""
    answer: AdmissionTold
    until: float
    event: EventId


class Admissions:
    """What is taken from linked domains."""

    def __init__(
        self,
        site: Site,
        surroundings: Surroundings,
        log: EventLog,
        barred: Barred,
        *,
        number: Callable[[], int],
        clock_shift_s: float,
        paused: Callable[[], bool] = lambda: False,
    ) -> None:
        """While `paused`, nothing new is taken."""
        self._paused = paused
        self._records = Closing(number)
        self._clock_shift_s = clock_shift_s
        self._barred = barred
        self._site = site
        self._around = surroundings
        self._log = log
        self._open: dict[str, _Admission] = {}
        self.refused: Counter[str] = Counter()

    def begin(self, records: Iterable[bytes], now: float) -> list[Instruction]:
        """A term begins: what an earlier leader took is still on its way here."""
        useless: dict[str, bytes | None] = {}
        for record in filter(None, map(decode, records)):
            if not isinstance(record, StoredAdmission):
                continue
            left_s = record.until - now - self._clock_shift_s
            brokers = set(record.brokers.values())
            loads = self._around.loads(now)
            free = all(name in loads and not loads[name].session for name in brokers)
            if not 0.0 < left_s <= self._longest_s or not free:
                useless[_key(record.session)] = None
                continue
            for broker in brokers:
                self._around.set_busy(broker, record.session)
            self._open[record.session] = _Admission(
                record.peer,
                record.brokers,
                self._answer(record.session, record.brokers),
                now + left_s,
                record.event,
            )
        return self._records.write(useless)

    @property
    def _longest_s(self) -> float:
        balancing = self._site.balancing
        return balancing.migration_timeout_s + settling_s(balancing) + MARGIN_S

    def _answer(self, session: str, taken: dict[str, str]) -> AdmissionTold:
        return AdmissionTold(
            session=session,
            urls={topic: (name, self._site.url(name)) for topic, name in taken.items()},
            management_url=self._site.management_url,
        )

    def stored(self, write: int) -> None:
        """A write is in the store."""
        self._records.stored(write)

    def failed(self, write: int, now: float) -> None:
        """A write did not come about."""
        self._records.failed(write, now)

    def drop(self) -> None:
        """Somebody else leads."""
        for name, admission in self._open.items():
            for broker in set(admission.brokers.values()):
                self._around.clear_busy(broker, name)
        self._open.clear()

    def handle(
        self, peer: str, message: RoomAsked | AdmissionAsked | SessionEnded, now: float
    ) -> list[Instruction]:
        """A linked domain asks, or has ended what it asked for."""
        told: list[Instruction] = []
        match message:
            case RoomAsked():
                answer: RoomTold | AdmissionTold | SessionClosed = self._room(peer, message, now)
            case AdmissionAsked():
                answer = self._admit(peer, message, now, told)
            case SessionEnded():
                admission = self._open.get(message.session)
                if admission is not None and admission.peer == peer:
                    told += self._close(message.session, "it has ended", now)
                answer = SessionClosed(session=message.session)
        return [*told, TellPeer(peer, answer)]

    def expected(self, topic: str) -> str:
        """Where the clients of a topic are to go that a linked domain moves here."""
        return next(
            (each.brokers[topic] for each in self._open.values() if topic in each.brokers),
            "",
        )

    def timer(self) -> float:
        """When an admission runs out, or a write is repeated."""
        return min([self._records.timer(), *(admission.until for admission in self._open.values())])

    def handle_timer(self, now: float) -> list[Instruction]:
        """End what the other side has forgotten."""
        told = self._records.handle_timer(now)
        for name in [name for name, admission in self._open.items() if admission.until <= now]:
            told += self._close(name, "nothing was heard of its end", now)
        return told

    # -- answers --------------------------------------------------------------------------------------------

    def _candidates(self, publishers: bool, now: float) -> dict[str, BrokerLoad]:
        names = (self._site.acting_head,) if publishers else self._site.serving
        loads = self._around.loads(now)
        return {name: loads[name] for name in names if accepts(loads[name])}

    def _room(self, peer: str, asked: RoomAsked, now: float) -> RoomTold:
        if not self._site.takes_load_from(peer):
            self.refused[NOT_WELCOME] += 1
            return RoomTold(session=asked.session)
        topics = frozenset(asked.topics[:MAX_TOPICS_A_MESSAGE])
        return RoomTold(
            session=asked.session,
            brokers=tuple(
                EdgeRoom(
                    broker=name,
                    remaining=_finite(self._free(load)),
                    headroom=load.headroom,
                    topics=tuple(sorted(topics & self._around.topics_at(name))),
                )
                for name, load in self._candidates(asked.publishers, now).items()
            ),
        )

    def _free(self, load: BrokerLoad) -> Amounts:
        return acceptor(load, self._site.balancing, domain=self._site.domain).room

    def _admit(self, peer: str, asked: AdmissionAsked, now: float, told: list[Instruction]) -> AdmissionTold:
        if not self._site.takes_load_from(peer):
            self.refused[NOT_WELCOME] += 1
            return AdmissionTold(session=asked.session)
        known = self._open.get(asked.session)
        if known is not None:
            return known.answer if known.peer == peer else AdmissionTold(session=asked.session)
        rooms = {name: self._free(load) for name, load in self._candidates(asked.publishers, now).items()}
        taken: dict[str, str] = {}
        refused: dict[str, str] = {}
        for move in asked.moves[:MAX_TOPICS_A_MESSAGE]:
            why = self._refusal(move, rooms, now)
            if why:
                refused[move.topic[:100]] = why
                self.refused[f"admission: {why}"] += 1
                continue
            rooms[move.broker] = rooms[move.broker].minus(_amounts(move))
            taken[move.topic] = move.broker
        for broker in set(taken.values()):
            self._around.set_busy(broker, asked.session)
        answer = self._answer(asked.session, taken)
        event = self._log.note(
            LoadAdmitted(session=asked.session, peer=peer, topics=taken, refused=refused), now
        )
        if taken:
            until = now + self._longest_s
            self._open[asked.session] = _Admission(peer, taken, answer, until, event)
            record = StoredAdmission(
                session=asked.session,
                peer=peer,
                brokers=taken,
                until=until + self._clock_shift_s,
                event=event,
            )
            told += self._records.write({_key(asked.session): encode(record)})
        return answer

    def _refusal(self, move: Incoming, rooms: dict[str, Amounts], now: float) -> str:
        if subject_problem(move.topic, wildcards=True) or is_internal(move.topic):
            return "not a topic that can be moved"
        if not self._site.may_leave(move.topic):
            return "the topic stays in its domain"
        if any(not math.isfinite(amount) or amount < 0 for amount in move.load.values()):
            return "impossible load"
        if self._paused():
            return "automatic decisions are paused there"
        room = rooms.get(move.broker)
        if room is None:
            return "the broker takes nothing now"
        if move.broker in self._barred(move.topic, now):
            return "the topic left that broker lately"
        return "" if _amounts(move).fits(room) else "there is no room"

    def _close(self, session: str, why: str, now: float) -> list[Instruction]:
        admission = self._open.pop(session)
        brokers = tuple(sorted(set(admission.brokers.values())))
        for broker in brokers:
            self._around.clear_busy(broker, session)
        self._log.note(
            AdmissionEnded(session=session, peer=admission.peer, brokers=brokers, why=why),
            now,
            admission.event,
        )
        return self._records.write({_key(session): None})

    def busy(self) -> dict[str, str]:
        """Brokers that are BUSY for linked domains, and in which session."""
        return {broker: name for name, each in self._open.items() for broker in each.brokers.values()}


def _key(session: str) -> str:
    return f"{ADMITTED}{session}"


def _finite(room: Amounts) -> dict[Metric, float]:
    return {metric: max(0.0, room.of(metric)) for metric in Metric if math.isfinite(room.of(metric))}


def _amounts(move: Incoming) -> Amounts:
    return Amounts(*(move.load.get(metric, 0.0) for metric in Metric))
