"""Plain clients that publish more than every client may: nothing but disconnection stops them at home."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

import msgspec

from mangrove.control.events.congestion_happenings import PlainPublisherDisconnected
from mangrove.control.instructions import Instruction, KickClient, LookAtClients
from mangrove.control.load.plausibility import rate_problem
from mangrove.control.stimuli import PlainClient, PlainClientsSeen
from mangrove.model.agents.load import BrokerLoad
from mangrove.model.congestion.rate_limit import Limits
from mangrove.model.events.event_log import EventLog

LOOK_S = 2.0
TOLERANCE = 1.1
"""So many times its limit a client may be measured to say: looks are not exact."""
LOOKS = 3
"""So many looks in a row must find too much."""
MIN_SPAN_S = 0.5
MAX_KICKS = 10
"""At one look."""


class _Watched(msgspec.Struct):
    messages: int
    bytes: int
    at: float
    found: int = 0


class PlainPublishers:
    """Looks at plain clients of brokers that take in more than one client may say."""

    def __init__(self, limits: Limits, log: EventLog, *, enabled: bool) -> None:
        self.refused: Counter[str] = Counter()
        self.kicked = 0
        self._limits = limits
        self._log = log
        self._enabled = enabled and bool(limits)
        self._looked_at: dict[str, float] = {}
        self._watched: dict[str, dict[int, _Watched]] = {}

    def look(self, loads: Iterable[BrokerLoad], now: float) -> list[Instruction]:
        """Ask for the connections of brokers where somebody may say too much."""
        if not self._enabled:
            return []
        told: list[Instruction] = []
        for load in loads:
            due = now >= self._looked_at.get(load.broker, -math.inf) + LOOK_S
            if due and load.reachable and self._too_much(load.messages_in_s, load.bytes_in_s):
                self._looked_at[load.broker] = now
                told.append(LookAtClients(load.broker))
        return told

    def seen(self, seen: PlainClientsSeen, now: float) -> list[Instruction]:
        """A broker's page of connections: who has said too much, look after look, is disconnected."""
        if not self._enabled:
            return []
        before, self._watched[seen.broker] = self._watched.get(seen.broker, {}), {}
        told: list[Instruction] = []
        for client in seen.clients:
            known = before.get(client.cid)
            if known is not None and now < known.at + MIN_SPAN_S:
                self._watched[seen.broker][client.cid] = known
                continue
            watched = _Watched(client.messages_in, client.bytes_in, now)
            self._watched[seen.broker][client.cid] = watched
            if known is None:
                continue
            span_s = now - known.at
            messages_s = (client.messages_in - known.messages) / span_s
            bytes_s = (client.bytes_in - known.bytes) / span_s
            if rate_problem(messages_s, bytes_s):
                self.refused["plain client"] += 1
            elif self._too_much(messages_s, bytes_s):
                watched.found = known.found + 1
                if watched.found >= LOOKS and len(told) < MAX_KICKS:
                    told.append(self._kick(client, seen.broker, messages_s, bytes_s, now))
        return told

    def _too_much(self, messages_s: float, bytes_s: float) -> bool:
        most_messages, most_bytes = self._limits.rate_msg_s, self._limits.rate_bytes_s
        return (most_messages is not None and messages_s > TOLERANCE * most_messages) or (
            most_bytes is not None and bytes_s > TOLERANCE * most_bytes
        )

    def _kick(
        self, client: PlainClient, broker: str, messages_s: float, bytes_s: float, now: float
    ) -> KickClient:
        self.kicked += 1
        allowed = [
            f"{amount:g} {unit}"
            for amount, unit in ((self._limits.rate_msg_s, "msg/s"), (self._limits.rate_bytes_s, "bytes/s"))
            if amount is not None
        ]
        self._log.note(
            PlainPublisherDisconnected(
                client=client.name or "a plain client",
                cid=client.cid,
                broker=broker,
                messages_s=messages_s,
                bytes_s=bytes_s,
                limit=" and ".join(allowed),
            ),
            now,
        )
        return KickClient(broker, client.cid, f"it published more than {' and '.join(allowed)}")
