"""Clients that cannot be told to move: looked at when their broker is loaded, and disconnected at need.

That is done where the federation file allows it, and only if what can be moved does not suffice.

What a disconnected client loses until it is back cannot be known, only bounded: its rate times the time until
it is seen at another broker, or the time that client libraries take to reconnect.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from mangrove.control.events.happenings import PlainClientDisconnected, PlainClientReturned
from mangrove.control.instructions import Instruction, KickClient, LookAtClients
from mangrove.control.profile.deadlines import contract_deadline_s
from mangrove.control.profile.plain_clients import PlainLoad
from mangrove.control.profile.profile import LoadProfile
from mangrove.control.site import Site
from mangrove.control.stimuli import PlainClientsSeen
from mangrove.model.agents.load import Amounts, BrokerLoad, LoadState, Metric
from mangrove.model.events.event_log import EventId, EventLog

LOOK_S = 5.0
"""A broker is asked for its clients at most so often: the page is long."""
MAX_KICKS = 10
"""Clients that are disconnected at a time."""
RECONNECT_S = 2.0
"""What client libraries wait before they try the next server."""
LOST_SIGHT_S = 60.0
MAX_MISSED = 1000


class _Kicked(msgspec.Struct, frozen=True):
    at: float
    broker: str
    messages_s: float
    event: EventId


class PlainClientMoves:
    """Looks at the plain clients of loaded brokers, and moves some of them in the one way there is."""

    def __init__(self, site: Site, profile: LoadProfile, log: EventLog) -> None:
        self._site = site
        self._profile = profile
        self._log = log
        self._looked_at: dict[str, float] = {}
        self._missed: dict[str, _Kicked] = {}
        """Clients that were disconnected and not seen since, by their name."""
        self.kicked = 0
        self.expected_loss = 0.0
        """Messages, of all that were disconnected."""
        self.refused: Counter[str] = Counter()

    def look(self, loads: Iterable[BrokerLoad], now: float) -> list[Instruction]:
        """Ask brokers that are HIGH or above, and after a disconnection the others, for their clients."""
        told: list[Instruction] = []
        self._missed = {
            name: kicked for name, kicked in self._missed.items() if now < kicked.at + LOST_SIGHT_S
        }
        for load in loads:
            wanted = load.measured is not LoadState.LOW or bool(self._missed)
            due = now >= self._looked_at.get(load.broker, -math.inf) + LOOK_S
            if wanted and due and load.reachable:
                self._looked_at[load.broker] = now
                told.append(LookAtClients(load.broker))
        return told

    def seen(self, seen: PlainClientsSeen, now: float) -> None:
        """A broker's page of connections."""
        if not self._site.has(seen.broker):
            self.refused["connections of another domain's broker"] += 1
            return
        self._profile.plain_clients_seen(seen, now)
        for client in seen.clients:
            kicked = self._missed.get(client.name) if client.name else None
            if kicked is None or kicked.broker == seen.broker:
                continue
            del self._missed[client.name]
            after_s = now - kicked.at
            self._log.note(
                PlainClientReturned(
                    name=client.name,
                    broker=seen.broker,
                    after_s=after_s,
                    estimated_loss=kicked.messages_s * after_s,
                ),
                now,
                kicked.event,
            )

    def disconnect(
        self, session: str, broker: str, unmet: Mapping[Metric, float], now: float, cause: EventId
    ) -> list[Instruction]:
        """Disconnect clients until what is left of a need is met: the least urgent first, a few at most.

        A client that leaves relieves output; input and matching only of what nobody else there has.
        """
        if not self._site.description.move_plain_clients:
            return []
        plain = self._profile.plain_clients(broker)
        users = Counter(pattern for load in plain for pattern in load.patterns)
        users.update(self._profile.topics(broker).keys())
        left = dict(unmet)
        told: list[Instruction] = []
        for load in sorted(plain, key=self._order):
            relief = _relief(load, users)
            if len(told) < MAX_KICKS and any(left[metric] > 0.0 < relief.of(metric) for metric in left):
                left = {metric: need - relief.of(metric) for metric, need in left.items()}
                told.append(self._kick(session, broker, load, now, cause))
        return told

    def _order(self, load: PlainLoad) -> tuple[float, float, int]:
        return -self._deadline_s(load), -load.bytes_s, load.cid

    def _deadline_s(self, load: PlainLoad) -> float:
        """Of the most urgent of its patterns."""
        rules = self._site.federation.topics
        return min((contract_deadline_s(rules, pattern) for pattern in load.patterns), default=math.inf)

    def _kick(self, session: str, broker: str, load: PlainLoad, now: float, cause: EventId) -> KickClient:
        expected = load.messages_s * RECONNECT_S
        deadline_s = self._deadline_s(load)
        self.kicked += 1
        self.expected_loss += expected
        event = self._log.note(
            PlainClientDisconnected(
                session=session,
                broker=broker,
                cid=load.cid,
                name=load.name,
                messages_s=load.messages_s,
                deadline_ms=deadline_s * 1000 if math.isfinite(deadline_s) else None,
                expected_loss=expected,
            ),
            now,
            cause,
        )
        if load.name and len(self._missed) < MAX_MISSED:
            self._missed[load.name] = _Kicked(now, broker, load.messages_s, event)
        return KickClient(broker, load.cid, f"{broker} is overloaded")


def _relief(load: PlainLoad, users: Mapping[str, int]) -> Amounts:
    """What a broker is rid of without this client."""
    alone = [flow for pattern, flow in load.patterns.items() if users[pattern] == 1]
    return Amounts(sum(flow[1] for flow in alone), load.bytes_s, sum(flow[0] for flow in alone))
