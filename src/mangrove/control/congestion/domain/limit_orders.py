"""What each client is told of its limits, until it has said that it knows, and again before they run out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

import msgspec

from mangrove.control.instructions import Instruction, TellClient
from mangrove.model.agents.usefulness import LIMITS_VALID_S, LimitsOrdered
from mangrove.model.congestion.rate_limit import RateLimit

REPEAT_S = 1.0
RENEW_S = LIMITS_VALID_S / 3
MAX_LIMITS_A_CLIENT = 5_000
"""So many fit in a message."""
SAME = 0.02
EPOCH_BITS = 32
"""Below a leader's term, a count of changes: epochs grow from leader to leader."""


class _Told(msgspec.Struct):
    limits: dict[str, RateLimit]
    epoch: int
    since: float
    said_at: float
    known: bool = False


class LimitOrders:
    """All clients that are limited, or do not know yet that they are no more."""

    def __init__(self, term: int) -> None:
        self.refused: Counter[str] = Counter()
        self._term = term
        self._count = 0
        self._told: dict[str, _Told] = {}
        self._due_at = math.inf
        """Nothing must be said again before."""

    def __len__(self) -> int:
        return sum(1 for told in self._told.values() if told.limits)

    def limits_of(self, client: str) -> Mapping[str, RateLimit]:
        """What a client is limited to."""
        told = self._told.get(client)
        return {} if told is None else told.limits

    def set(self, wanted: Mapping[str, Mapping[str, RateLimit]], now: float) -> list[Instruction]:
        """These are all limits of all clients from now on."""
        free = [client for client, told in self._told.items() if told.limits and client not in wanted]
        orders = [self._say(client, {}, now) for client in free]
        for client, limits in wanted.items():
            told = self._told.get(client)
            if told is None or not _same(told.limits, limits):
                orders.append(self._say(client, self._bounded(limits), now))
        return orders

    def reported(self, client: str, epoch: int) -> None:
        """A client has said which limits it keeps to; one that knows of none any more is forgotten."""
        told = self._told.get(client)
        if told is not None:
            told.known = told.epoch == epoch
            if not told.limits and epoch in (0, told.epoch):
                del self._told[client]

    def left(self, client: str) -> None:
        """A client is gone."""
        self._told.pop(client, None)

    def registered(self, client: str, now: float) -> list[Instruction]:
        """A client has registered anew: it may have begun anew."""
        told = self._told.get(client)
        if told is None or not told.limits or now < told.said_at + REPEAT_S:
            return []
        return [self._repeat(client, told, now)]

    def timer(self) -> float:
        """When something must be said again."""
        return self._due_at

    def handle_timer(self, now: float) -> list[Instruction]:
        """Say again what was not confirmed, or would run out."""
        if now < self._due_at:
            return []
        orders: list[Instruction] = []
        for client, told in list(self._told.items()):
            if now < _due(told):
                continue
            if not told.limits and now >= told.since + LIMITS_VALID_S:
                del self._told[client]
            else:
                orders.append(self._repeat(client, told, now))
        self._due_at = min(map(_due, self._told.values()), default=math.inf)
        return orders

    def _say(self, client: str, limits: dict[str, RateLimit], now: float) -> Instruction:
        self._count += 1
        told = self._told[client] = _Told(limits, self._term << EPOCH_BITS | self._count, now, now)
        return self._repeat(client, told, now)

    def _repeat(self, client: str, told: _Told, now: float) -> Instruction:
        told.said_at = now
        self._due_at = min(self._due_at, now + REPEAT_S)
        return TellClient(client, LimitsOrdered(term=self._term, epoch=told.epoch, limits=told.limits))

    def _bounded(self, limits: Mapping[str, RateLimit]) -> dict[str, RateLimit]:
        if len(limits) <= MAX_LIMITS_A_CLIENT:
            return dict(limits)
        self.refused["limits beyond those that one client can be told"] += len(limits) - MAX_LIMITS_A_CLIENT
        strictest = sorted(limits.items(), key=lambda each: _rate(each[1]))
        return dict(strictest[:MAX_LIMITS_A_CLIENT])


def _due(told: _Told) -> float:
    return told.said_at + (RENEW_S if told.known else REPEAT_S)


def _rate(limit: RateLimit) -> float:
    return math.inf if limit.msg_s is None else limit.msg_s


def _same(one: Mapping[str, RateLimit], other: Mapping[str, RateLimit]) -> bool:
    return one.keys() == other.keys() and all(
        limit.cause is other[subject].cause
        and _close(limit.msg_s, other[subject].msg_s)
        and _close(limit.bytes_s, other[subject].bytes_s)
        for subject, limit in one.items()
    )


def _close(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return abs(one - other) <= SAME * max(one, other)
