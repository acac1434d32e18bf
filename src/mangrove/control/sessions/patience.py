"""Which brokers start no session at the moment, and for which there is nothing left but to send less."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from mangrove.control.events.happenings import CongestionCleared, CongestionDeclared
from mangrove.control.offloading.trigger import StartedBy
from mangrove.model.agents.load import BrokerLoad, LoadState
from mangrove.model.balancing import Balancing
from mangrove.model.events.event_log import EventId, EventLog

RETRY_S = 5.0
"""A broker for which nobody had room is tried again after this time, then after twice as long, and so on."""
MAX_RETRY_S = 60.0
RISING_PERIODS = 2.0
"""So long a session waits for load that still rises, so that it moves enough at once."""


class Patience:
    """Cool-downs after sessions, longer ones after those that found no room, and congestion."""

    def __init__(
        self,
        balancing: Balancing,
        started_by: StartedBy,
        log: EventLog,
        still_short: Callable[[str], bool] | None = None,
    ) -> None:
        """`still_short`: whether a broker is out of overload only because publishers are limited."""
        self._still_short = still_short
        self._balancing = balancing
        self._started_by = started_by
        self._log = log
        self._resting: dict[str, float] = {}
        self._rising: dict[str, float] = {}
        """Overloaded brokers whose load rises → until when their sessions wait for it."""
        self._attempts: dict[str, int] = {}
        self._congested: dict[str, EventId] = {}
        """Broker → the event that declared it."""

    def measured(self, load: BrokerLoad, now: float) -> None:
        """A broker that has left overload is congested no more, unless limits alone keep it out of it."""
        if not load.reachable or load.measured is LoadState.OVERLOAD:
            return
        if self._started_by is StartedBy.OVERLOAD:
            self._attempts.pop(load.broker, None)
        if self._still_short is not None and self._still_short(load.broker):
            return
        declared = self._congested.pop(load.broker, None)
        if declared is not None:
            self._log.note(CongestionCleared(broker=load.broker), now, declared)

    def resting(self, loads: Iterable[BrokerLoad], now: float) -> set[str]:
        """Brokers for which no session is opened now."""
        self._resting = {broker: until for broker, until in self._resting.items() if until > now}
        return {load.broker for load in loads if self._still_rises(load, now)}.union(self._resting)

    def _still_rises(self, load: BrokerLoad, now: float) -> bool:
        """Whether the whole of a broker's overload is not known yet."""
        if not load.rising or load.state is not LoadState.OVERLOAD:
            self._rising.pop(load.broker, None)
            return False
        wait_s = RISING_PERIODS * self._balancing.period_s
        return now < self._rising.setdefault(load.broker, now + wait_s)

    def cool_down(self, broker: str, moved_at: float) -> None:
        """A session has ended, and what it moved was gone at that time."""
        self._resting[broker] = moved_at + self._balancing.cooldown_s

    def found_nobody(self, broker: str, now: float) -> None:
        """Nobody had room for anything."""
        attempts = self._attempts.get(broker, 0)
        self._attempts[broker] = attempts + 1
        self._resting[broker] = now + min(MAX_RETRY_S, RETRY_S * 2.0 ** min(attempts, 10))

    def found_somebody(self, broker: str) -> None:
        """Something moves."""
        self._attempts.pop(broker, None)

    def congest(self, load: BrokerLoad, tried: Sequence[str], now: float, cause: EventId | None) -> None:
        """Declare, once, that less must be sent."""
        if load.broker not in self._congested:
            self._congested[load.broker] = self._log.note(
                CongestionDeclared(
                    broker=load.broker,
                    metrics={metric.value: load.utilisation[metric] for metric in load.overloaded},
                    tried=tuple(tried),
                ),
                now,
                cause,
            )

    @property
    def declared(self) -> Mapping[str, EventId]:
        """The same, with the events that declared it."""
        return self._congested

    @property
    def congested(self) -> tuple[str, ...]:
        """Brokers for which no other has room."""
        return tuple(sorted(self._congested))
