"""When it is evident that a broker must lose more than anybody can take, before any session has tried."""

from __future__ import annotations

import math

from mangrove.control.load.capacity import need_of
from mangrove.model.agents.load import Amounts, BrokerLoad, LoadState, Metric
from mangrove.model.balancing import Balancing

RISING_PERIODS = 2.0
"""So long it is waited for load that still rises, as sessions do: what must go is not known before."""
IN_SESSION_PERIODS = 3.0
"""A session's load is counted twice while it moves: the need must exceed the room for longer than that."""


class ShortageWatch:
    """Compares what overloaded brokers must lose with the room that is known."""

    def __init__(self, balancing: Balancing) -> None:
        self._balancing = balancing
        self._since: dict[str, float] = {}

    def changed(self, broker: str) -> None:
        """What a broker can carry has changed: there is nothing to wait for, whatever moves."""
        self._since[broker] = -math.inf

    def lacking(self, load: BrokerLoad, room: Amounts, now: float) -> dict[Metric, float]:
        """By how much a broker's need exceeds all room, by metric; empty as long as that is not certain."""
        if not load.reachable or load.measured is not LoadState.OVERLOAD:
            self._since.pop(load.broker, None)
            return {}
        need = need_of(load, self._balancing)
        lacking = {
            metric: amount - max(0.0, room.of(metric))
            for metric, amount in need.items()
            if amount > max(0.0, room.of(metric))
        }
        if not lacking:
            self._since.pop(load.broker, None)
            return {}
        since = self._since.setdefault(load.broker, now)
        periods = IN_SESSION_PERIODS if load.session else RISING_PERIODS if load.rising else 0.0
        return lacking if now - since >= periods * self._balancing.period_s else {}
