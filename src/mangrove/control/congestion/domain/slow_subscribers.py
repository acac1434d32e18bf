"""Subscribers that cannot keep up: told by SDK clients themselves, and by brokers of plain ones."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from mangrove.control.events.congestion_happenings import (
    SlowClientDisconnected,
    SubscriberKeepsUp,
    SubscriberSlow,
)
from mangrove.control.instructions import Instruction, KickClient, LookAtClients
from mangrove.control.stimuli import PlainClient, PlainClientsSeen
from mangrove.model.agents.load import BrokerLoad
from mangrove.model.agents.registration import Wish
from mangrove.model.agents.usefulness import Lag, SlowSubscriber
from mangrove.model.congestion.terms import Slow
from mangrove.model.events.event_log import EventId, EventLog
from mangrove.model.subjects import covers
from mangrove.model.topics import TopicRules, overlaps

MAX_PENDING_BYTES = 64 << 20
"""What nats-server lets wait for a connection before it cuts it off."""
SLOW_BYTES = MAX_PENDING_BYTES // 16
"""So much that waits, and has grown, makes a plain client slow."""
KICK_BYTES = MAX_PENDING_BYTES // 2
LOOK_BYTES = 16 << 20
"""Connections are looked at before a broker has sent so much more: nobody's queue fills up unseen."""
MIN_LOOK_S = 2.0
MAX_LOOK_S = 60.0
MIN_BYTES_S = 10_000
"""A broker that sends less is not looked at."""
REPORTS = 2
"""So many reports in a row must tell of a lag before it is believed to last."""
CALM_S = 5.0
"""Who has not lagged for so long keeps up again."""
MAX_SLOW = 10_000
MAX_LAG = 1 << 53


class _Lagging(msgspec.Struct):
    entry: SlowSubscriber
    reports: int
    at: float
    event: EventId | None = None


class SlowSubscribers:
    """Who is slow, since when it was told, and what is done about plain clients."""

    def __init__(self, rules: TopicRules, log: EventLog) -> None:
        self.refused: Counter[str] = Counter()
        self.kicked = 0
        self._rules = rules
        self._log = log
        self._slow: dict[tuple[str, str], _Lagging] = {}
        """By client and key, or broker and connection."""
        self._pending: dict[str, dict[int, int]] = {}
        """Bytes that waited at the last look, by broker and connection."""
        self._looked_at: dict[str, float] = {}

    # -- SDK clients ----------------------------------------------------------------------------------------

    def reported(
        self,
        client: str,
        name: str,
        lags: Mapping[str, Lag],
        wishes: Mapping[str, tuple[Wish, str]],
        now: float,
    ) -> None:
        """A client has told how far it is behind; `wishes` are its own, with the brokers that serve them."""
        for key, lag in lags.items():
            known = wishes.get(key)
            if known is None or not _possible(lag):
                self.refused["an impossible lag"] += 1
                continue
            wish, broker = known
            entry = SlowSubscriber(
                client=client,
                name=name,
                broker=broker,
                subject=wish.subject,
                pending=lag.pending,
                lost=lag.lost,
                oldest_s=lag.oldest_s,
            )
            self._lags((client, key), entry, now)

    def left(self, client: str, now: float) -> None:
        """A client is gone."""
        if not self._slow:
            return
        for key in [key for key in self._slow if key[0] == client]:
            self._keeps_up(key, now, gone=True)

    # -- plain clients --------------------------------------------------------------------------------------

    def look(self, loads: Iterable[BrokerLoad], now: float) -> list[Instruction]:
        """Look at connections of brokers that send much: the more, the sooner."""
        told: list[Instruction] = []
        for load in loads:
            if not load.reachable or load.bytes_out_s < MIN_BYTES_S:
                continue
            every_s = min(MAX_LOOK_S, max(MIN_LOOK_S, LOOK_BYTES / load.bytes_out_s))
            if now >= self._looked_at.get(load.broker, -math.inf) + every_s:
                self._looked_at[load.broker] = now
                told.append(LookAtClients(load.broker))
        return told

    def seen(self, seen: PlainClientsSeen, now: float) -> list[Instruction]:
        """A broker's page of connections."""
        self._looked_at[seen.broker] = now
        before = self._pending.get(seen.broker, {})
        self._pending[seen.broker] = {
            client.cid: client.pending_bytes for client in seen.clients if client.pending_bytes > 0
        }
        present = {str(client.cid) for client in seen.clients}
        for key in [key for key in self._slow if key[0] == seen.broker and key[1] not in present]:
            self._keeps_up(key, now, gone=True)
        told: list[Instruction] = []
        for client in seen.clients:
            grown = client.pending_bytes > before.get(client.cid, 0) > 0
            if client.pending_bytes < SLOW_BYTES or client.pending_bytes > MAX_LAG or not grown:
                continue
            self._lags((seen.broker, str(client.cid)), _plain(client, seen.broker), now, reports=REPORTS)
            subject = self._disconnects(client)
            if subject and client.pending_bytes >= KICK_BYTES:
                told.append(self._kick(client, seen.broker, subject, now))
        return told

    def _disconnects(self, client: PlainClient) -> str:
        """A pattern of a client whose contract says that who is slow is disconnected."""
        return next((pattern for pattern, _ in client.patterns if self._cuts_off(pattern)), "")

    def _cuts_off(self, pattern: str) -> bool:
        for contract in self._rules.contracts:
            if overlaps(contract.match, pattern):
                if contract.slow is Slow.DISCONNECT:
                    return True
                if covers(contract.match, pattern):
                    return False
        return False

    def _kick(self, client: PlainClient, broker: str, subject: str, now: float) -> KickClient:
        self.kicked += 1
        known = self._slow.get((broker, str(client.cid)))
        self._log.note(
            SlowClientDisconnected(
                client=client.name or "a plain client",
                cid=client.cid,
                broker=broker,
                subject=subject,
                pending_bytes=client.pending_bytes,
            ),
            now,
            None if known is None else known.event,
        )
        return KickClient(broker, client.cid, f"{client.pending_bytes} bytes wait for it")

    # -- both -----------------------------------------------------------------------------------------------

    def _lags(self, key: tuple[str, str], entry: SlowSubscriber, now: float, reports: int = 1) -> None:
        known = self._slow.get(key)
        if known is None:
            if len(self._slow) >= MAX_SLOW:
                self.refused["slow subscribers beyond those that are kept"] += 1
                return
            known = self._slow[key] = _Lagging(entry, 0, now)
        known.entry, known.at = entry, now
        known.reports += reports
        if known.reports >= REPORTS and known.event is None:
            known.event = self._log.note(
                SubscriberSlow(
                    client=entry.name or entry.client,
                    broker=entry.broker,
                    subject=entry.subject,
                    pending=entry.pending,
                    plain=entry.plain,
                    lost=entry.lost,
                ),
                now,
            )

    def calm(self, now: float) -> None:
        """Those of whom no lag was told for a while keep up."""
        if self._slow:
            for key in [
                key
                for key, known in self._slow.items()
                if now >= known.at + (MAX_LOOK_S + CALM_S if known.entry.plain else CALM_S)
            ]:
                self._keeps_up(key, now)

    def _keeps_up(self, key: tuple[str, str], now: float, *, gone: bool = False) -> None:
        known = self._slow.pop(key)
        if known.event is not None:
            entry = known.entry
            self._log.note(
                SubscriberKeepsUp(
                    client=entry.name or entry.client, broker=entry.broker, subject=entry.subject, gone=gone
                ),
                now,
                known.event,
            )

    def status(self, most: int) -> tuple[SlowSubscriber, ...]:
        """Those that have lagged for a while, the furthest behind first."""
        lasting = [known.entry for known in self._slow.values() if known.reports >= REPORTS]
        lasting.sort(key=lambda entry: (entry.plain, -entry.pending, entry.client))
        return tuple(lasting[:most])


def _possible(lag: Lag) -> bool:
    counts = 0 <= lag.pending <= MAX_LAG and 0 <= lag.lost <= MAX_LAG
    return counts and math.isfinite(lag.oldest_s) and lag.oldest_s >= 0.0


def _plain(client: PlainClient, broker: str) -> SlowSubscriber:
    return SlowSubscriber(
        client=str(client.cid),
        name=client.name,
        broker=broker,
        subject=client.patterns[0][0] if len(client.patterns) == 1 else "",
        pending=client.pending_bytes,
        plain=True,
    )
