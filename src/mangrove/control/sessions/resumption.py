"""What a new leader does with the sessions that it finds in the store.

A session is stored before anything moves, so one that is found may have moved nothing, some or everything. It
goes on: clients that have moved say so when they register, the others are told again. One that is too old, or
cannot be right, is given up, which moves nobody.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from mangrove.control.events.session_happenings import SessionResumed, SessionUndone
from mangrove.control.sessions.moved_topics import MovedTopic
from mangrove.control.sessions.session import (
    MoveProgress,
    Session,
    StoredMoved,
    StoredSession,
    decode,
)
from mangrove.control.sessions.states import SessionState
from mangrove.control.sessions.surroundings import Surroundings
from mangrove.model.balancing import Balancing
from mangrove.model.events.event_log import EventLog

RESUMED_S = 5.0
"""A session that was taken up lasts for so long at least: its clients must find the new leader first."""
MAX_AGE_TIMEOUTS = 2.0
"""A session older than so many of its time-outs is given up."""


class TakenUp(NamedTuple):
    """What is left of earlier terms."""

    sessions: list[Session]
    moved: list[MovedTopic]
    """Also of sessions that are given up: some of their clients may have moved."""
    useless: dict[str, tuple[str, ...]]
    """Sessions that are given up, with the neighbours that take part in them."""


def taken_up(
    records: Iterable[bytes],
    surroundings: Surroundings,
    log: EventLog,
    balancing: Balancing,
    clock_shift_s: float,
    now: float,
) -> TakenUp:
    """Sessions that go on, with their brokers BUSY, and those that do not."""
    found = TakenUp([], [], {})
    topics: set[str] = set()
    stored: list[StoredSession] = []
    for value in records:
        record = decode(value)
        if isinstance(record, StoredMoved):
            found.moved.extend(record.moved)
        elif isinstance(record, StoredSession):
            stored.append(record)
    for record in sorted(stored, key=lambda each: (each.since, each.id)):
        why = _problem(record, surroundings, topics, now + clock_shift_s, balancing, now)
        peers = tuple(dict.fromkeys(move.domain for move in record.moves if move.domain))
        found.moved.extend(MovedTopic(move.topic, record.broker, record.since) for move in record.moves)
        if why:
            found.useless[record.id] = peers
            log.note(
                SessionUndone(session=record.id, broker=record.broker, why=why), now, record.opened_by or None
            )
            continue
        session = _session(record, peers, balancing, now)
        topics |= session.moves.keys()
        for broker in (session.broker, *session.acceptors):
            surroundings.set_busy(broker, session.id)
        found.sessions.append(session)
        log.note(
            SessionResumed(session=record.id, broker=record.broker, topics=len(record.moves)),
            now,
            record.opened_by or None,
        )
    return found


def _problem(
    record: StoredSession,
    surroundings: Surroundings,
    topics: set[str],
    wall: float,
    balancing: Balancing,
    now: float,
) -> str:
    loads = surroundings.loads(now)
    brokers = [record.broker, *(move.to for move in record.moves if not move.domain)]
    if record.state is not SessionState.MIGRATING:
        return "nothing of it had moved"
    age_s = wall - record.since
    if not 0.0 <= age_s <= MAX_AGE_TIMEOUTS * balancing.migration_timeout_s:
        return f"it was opened {age_s:.0f} s ago"
    if any(broker not in loads for broker in brokers):
        return "it names a broker that is not of this domain"
    if any(loads[broker].session for broker in brokers):
        return "its brokers take part in another"
    if topics & {move.topic for move in record.moves}:
        return "its topics move in another"
    return ""


def _session(record: StoredSession, peers: tuple[str, ...], balancing: Balancing, now: float) -> Session:
    return Session(
        id=record.id,
        broker=record.broker,
        publishers=record.publishers,
        opened_at=now,
        opened_by=record.opened_by,
        metrics=dict.fromkeys(record.metrics, 0.0),
        need={},
        scope=record.scope,
        state=SessionState.MIGRATING,
        until=now + balancing.migration_timeout_s,
        acceptors=tuple(dict.fromkeys(move.to for move in record.moves if not move.domain)),
        moves={move.topic: MoveProgress(move, move.decided_by) for move in record.moves},
        peers=peers,
        earliest_end=now + RESUMED_S,
    )
