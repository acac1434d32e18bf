"""Probes all data brokers of the domain, in leaders and followers alike, by one clock.

Every `PROBE_S` each broker is asked whether it is there, and the brain is told whether it answered what it
was asked a period before. A closed door is told at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial

from mangrove.broker.heartbeat import Heartbeat, Refused
from mangrove.control.failures.detector import PROBE_S
from mangrove.control.stimuli import BrokerProbed, Stimulus

AT_ONCE_S = PROBE_S / 4
"""A broker is probed out of turn at most so often, whoever asks for it."""

MakeHeartbeat = Callable[[Refused], Heartbeat]


class BrokerProbes:
    """Owns the heartbeats of all brokers."""

    def __init__(
        self, brokers: Iterable[tuple[str, MakeHeartbeat]], tell: Callable[[Stimulus], None]
    ) -> None:
        """`brokers`: names, and how to make the heartbeat of each once the loop runs."""
        self._tell = tell
        self._brokers = list(brokers)
        self._heartbeats: dict[str, Heartbeat] = {}
        self._asked: dict[str, int] = {}
        """What each broker was asked in turn; out of turn it may have been asked since."""
        self._last: dict[str, int] = {}
        self._asked_out_of_turn: dict[str, float] = {}
        self._refused_since: dict[str, int] = {}
        """The last question that a broker was asked before it was found closed."""
        self._checks: set[asyncio.TimerHandle] = set()

    async def run(self) -> None:
        """Probe, until cancelled."""
        loop = asyncio.get_running_loop()
        self._heartbeats = {name: make(partial(self._refused, name)) for name, make in self._brokers}
        due = loop.time()
        try:
            while True:
                for name, heartbeat in self._heartbeats.items():
                    self._look(name, heartbeat, self._asked.get(name))
                    self._asked[name] = self._last[name] = heartbeat.beat()
                # Who is late asks again a whole period later, so that an answer has its time.
                due = max(due + PROBE_S, loop.time() + PROBE_S / 2)
                await asyncio.sleep(due - loop.time())
        finally:
            for check in self._checks:
                check.cancel()
            await asyncio.gather(*(each.close() for each in self._heartbeats.values()))

    def probe(self, broker: str) -> None:
        """Ask a broker now; the brain hears of it after a period."""
        heartbeat = self._heartbeats.get(broker)
        loop = asyncio.get_running_loop()
        if heartbeat is None or loop.time() < self._asked_out_of_turn.get(broker, 0.0) + AT_ONCE_S:
            return
        self._asked_out_of_turn[broker] = loop.time()
        beat = self._last[broker] = heartbeat.beat()

        def check() -> None:
            self._checks.discard(handle)
            self._look(broker, heartbeat, beat)

        handle = loop.call_later(PROBE_S, check)
        self._checks.add(handle)

    def _look(self, broker: str, heartbeat: Heartbeat, beat: int | None) -> None:
        if beat is None or beat <= self._refused_since.get(broker, 0) or heartbeat.silenced:
            return
        self._tell(BrokerProbed(broker, answered=heartbeat.answered(beat)))

    def _refused(self, broker: str) -> None:
        # What it answered before its end is no sign of life any more.
        self._refused_since[broker] = self._last.get(broker, 0)
        self._tell(BrokerProbed(broker, answered=False, closed=True))
