"""Sees to it that a broker of ours is attached while one before it in the succession lives.

A broker attaches by itself. But one that comes to its new place before its old one has been given up by all
finds its own mark coming back, takes that for a loop, and then waits for 30 s; nats-server has no setting for
that. A reload with its addresses in another order ends the wait
(docs/decisions/0061-a-silent-broker-is-left-by-its-neighbours.md).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from mangrove.agent.hosting.silence import answers
from mangrove.broker.kinds import kind_of
from mangrove.broker.system import BrokerAwayError
from mangrove.host.keys.login import LoginSource
from mangrove.model.endpoints import BrokerEndpoints

log = logging.getLogger(__name__)

LOOK_S = 0.3
LOOKS = 2


class AttachmentGuard:
    """Watches one broker of this host that may attach to several others."""

    def __init__(
        self,
        broker: BrokerEndpoints,
        earlier: Sequence[BrokerEndpoints],
        login: LoginSource,
        reload: Callable[[int], None],
    ) -> None:
        """`reload` has the broker try the earlier ones anew, beginning with the one at that position."""
        self._broker = broker
        self._earlier = earlier
        self._system = kind_of(broker.kind).system(broker, login)
        self._reload = reload
        self._first = 0

    async def run(self) -> None:
        """Look, until cancelled."""
        loose = 0
        try:
            while True:
                await asyncio.sleep(LOOK_S)
                try:
                    loose = 0 if await self._system.attached() else loose + 1
                except BrokerAwayError:
                    loose = 0  # it has other troubles
                if loose >= LOOKS and await self._one_lives():
                    loose = 0
                    self._first = (self._first + 1) % len(self._earlier)
                    log.warning("%s is attached to no other broker; it tries anew", self._broker.name)
                    self._reload(self._first)
        finally:
            await self._system.close()

    async def _one_lives(self) -> bool:
        """Whether there is a broker to attach to; a port that refuses is none."""
        found = await asyncio.gather(*(answers(broker, refusing=False) for broker in self._earlier))
        return any(found)
