"""A clock that stands still while this process is held up.

Who measures how long nothing arrived must not count the time in which it could not look: on a busy machine a
collection of garbage, or another process, can keep it from the processor for longer than any failover takes.
A beat that comes late tells how long that was.
"""

from __future__ import annotations

import asyncio

BEAT_S = 0.01
ALLOWED_S = 0.02
"""A beat that is later than this shows that the process was held up."""


class AwakeTime:
    """Time less the time held up. The owner keeps `beating` as long as it measures."""

    def __init__(self, now_s: float) -> None:
        self._last_beat_s = now_s
        self.held_up_s = 0.0

    def beat(self, now_s: float) -> None:
        """The process is served."""
        self.held_up_s += self._late_s(now_s)
        self._last_beat_s = now_s

    def at(self, now_s: float) -> float:
        """What this clock shows; the beat that is overdue counts as well, whoever runs before it."""
        return now_s - self.held_up_s - self._late_s(now_s)

    async def beating(self) -> None:
        """Beat until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            self.beat(loop.time())
            await asyncio.sleep(BEAT_S)

    def _late_s(self, now_s: float) -> float:
        late_s = now_s - self._last_beat_s - BEAT_S
        return late_s if late_s > ALLOWED_S else 0.0
