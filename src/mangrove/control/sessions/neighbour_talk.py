"""What a session says to linked domains: have you room, and will you take this (ePEER §4.4.4.2)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mangrove.control.events.session_happenings import (
    AdmissionRefused,
    NeighbourAnswered,
    NeighboursAsked,
)
from mangrove.control.instructions import Instruction, TellPeer
from mangrove.control.sessions.selection import by_metric
from mangrove.control.sessions.session import Session
from mangrove.control.sessions.states import SessionState
from mangrove.control.sessions.surroundings import Surroundings
from mangrove.model.address import MAX_PORT
from mangrove.model.agents.load import LoadState
from mangrove.model.agents.peers import (
    MAX_TOPICS_A_MESSAGE,
    AdmissionAsked,
    AdmissionTold,
    Incoming,
    RoomAsked,
    RoomTold,
)
from mangrove.model.events.event_log import EventLog

REPEAT_S = 0.5
"""A question that was not answered is asked again."""
MAX_BROKERS_TOLD = 100
NO_ROOM = "it has no room any more"
NO_PLACE = "it gives no URL that clients can connect to"
_URL = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]*://"
    r"([^\s/?#]*@)?"
    r"(\[[0-9A-Fa-f:.]+(%\w+)?\]|[^\s/?#@:\[\]]+)"
    r"(:(?P<port>[0-9]{1,5}))?"
    r"([/?#]\S*)?"
)


class NeighbourTalk:
    """Questions to neighbours, repeated until they answer or the session's state times out."""

    def __init__(self, surroundings: Surroundings, log: EventLog) -> None:
        self._around = surroundings
        self._log = log

    def candidates(self, publishers: bool, now: float) -> list[str]:
        """Linked domains that take load from this one and are LOW."""
        return [
            peer
            for peer, load in self._around.neighbours(now).items()
            if (load.head if publishers else load.edges) is LoadState.LOW
        ]

    def nobody(self, now: float) -> str:
        """Why no neighbour is asked, for people."""
        known = self._around.neighbours(now)
        if not known:
            return "no linked domain takes load from this one"
        return "; ".join(f"{peer} is {load.edges.value}" for peer, load in known.items())

    def ask(self, session: Session, topics: Sequence[str], why: str, now: float) -> list[Instruction]:
        """Ask all candidates what they have left."""
        peers = self.candidates(session.publishers, now)
        if not peers:
            return []
        session.asked_topics = tuple(topics[:MAX_TOPICS_A_MESSAGE])
        session.asked = dict.fromkeys(peers, now)
        self._log.note(
            NeighboursAsked(session=session.id, peers=tuple(peers), why=why), now, session.opened_by
        )
        return self.repeat(session, now)

    def ask_admission(self, session: Session, now: float) -> list[Instruction]:
        """Ask those that were chosen to take what was chosen; from now on their brokers may be BUSY."""
        session.peers = tuple(dict.fromkeys(move.to.domain for move in session.chosen))
        session.asked = dict.fromkeys(session.peers, now)
        return self.repeat(session, now)

    def repeat(self, session: Session, now: float) -> list[Instruction]:
        """Ask those that have not answered for a while."""
        told: list[Instruction] = []
        for peer, at in session.asked.items():
            if at <= now:
                session.asked[peer] = now + REPEAT_S
                told.append(TellPeer(peer, self._question(session, peer)))
        return told

    def _question(self, session: Session, peer: str) -> RoomAsked | AdmissionAsked:
        if session.state is SessionState.ASKING:
            return RoomAsked(session=session.id, publishers=session.publishers, topics=session.asked_topics)
        return AdmissionAsked(
            session=session.id,
            publishers=session.publishers,
            moves=tuple(
                Incoming(
                    topic=move.topic,
                    broker=move.to.broker,
                    clients=tuple(sorted({member.client for member in move.members})),
                    load=by_metric(move.cost),
                )
                for move in session.chosen
                if move.to.domain == peer
            ),
        )

    def heard(self, session: Session, peer: str, message: RoomTold | AdmissionTold, now: float) -> bool:
        """Take an answer in; False if nobody waits for it."""
        expected = SessionState.ASKING if isinstance(message, RoomTold) else SessionState.ADMITTING
        if session.state is not expected or session.asked.pop(peer, None) is None:
            return False
        if isinstance(message, RoomTold):
            session.rooms[peer] = message.brokers[:MAX_BROKERS_TOLD]
            self._log.note(
                NeighbourAnswered(
                    session=session.id,
                    peer=peer,
                    brokers={room.broker: room.headroom for room in session.rooms[peer]},
                ),
                now,
                session.opened_by,
            )
            return True
        refused: dict[str, list[str]] = {}
        for move in session.chosen:
            if move.to.domain != peer:
                continue
            name, url = message.urls.get(move.topic, ("", ""))
            if name != move.to.broker or not url or not message.management_url:
                refused.setdefault(NO_ROOM, []).append(move.topic)
            elif not (names_a_place(url) and names_a_place(message.management_url)):
                refused.setdefault(NO_PLACE, []).append(move.topic)
            else:
                session.admitted[move.topic] = (url, message.management_url)
        for why, topics in refused.items():
            self._log.note(
                AdmissionRefused(session=session.id, peer=peer, topics=tuple(topics), why=why),
                now,
                session.opened_by,
            )
        return True


def names_a_place(url: str) -> bool:
    """Whether clients can be sent there: to a host, and a port that there can be."""
    found = _URL.fullmatch(url)
    return found is not None and 0 < int(found["port"] or MAX_PORT) <= MAX_PORT
