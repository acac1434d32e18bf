"""Has the brokers of this host leave one on another host that is there no more, although nobody said so.

A broker that is killed closes its connections, and those attached to it go on to the next at once. One that
is frozen, or whose host is cut off, closes nothing: its neighbours would wait for minutes. So the brokers on
other hosts are greeted by connections of their own, and whoever is silent is left
(docs/decisions/0061-a-silent-broker-is-left-by-its-neighbours.md).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence

from mangrove.broker.kinds import kind_of
from mangrove.broker.system import BrokerAwayError
from mangrove.host.keys.login import LoginSource
from mangrove.model.endpoints import BrokerEndpoints

log = logging.getLogger(__name__)

PERIOD_S = 0.2
ANSWER_S = 0.3
MISSES = 3


class SilenceGuard:
    """Watches one broker on another host, for all data brokers of this host."""

    def __init__(self, watched: BrokerEndpoints, ours: Sequence[BrokerEndpoints], login: LoginSource) -> None:
        self._watched = watched
        self._ours = ours
        self._login = login

    async def run(self) -> None:
        """Greet, until cancelled."""
        misses = 0
        while True:
            misses = 0 if await answers(self._watched) else misses + 1
            if misses >= MISSES:
                await asyncio.gather(*map(self._leave, self._ours))
                misses = 0
            await asyncio.sleep(PERIOD_S)

    async def _leave(self, broker: BrokerEndpoints) -> None:
        system = kind_of(broker.kind).system(broker, self._login)
        try:
            if await system.detach(self._watched.name):
                log.warning("%s leaves %s, which does not answer", broker.name, self._watched.name)
        except BrokerAwayError as error:
            log.debug("%s does not leave %s: %s", broker.name, self._watched.name, error.message)
        finally:
            with contextlib.suppress(BrokerAwayError):
                await system.close()


async def answers(broker: BrokerEndpoints, *, refusing: bool = True) -> bool:
    """Whether a broker says a word to who connects.

    One that refuses has closed its connections itself: that is an answer, too, unless told otherwise.
    """
    writer = None
    try:
        async with asyncio.timeout(ANSWER_S):
            reader, writer = await asyncio.open_connection(broker.host, broker.itself.client_port)
            return bool(await reader.read(1))
    except TimeoutError:
        return False
    except OSError as error:
        return refusing and isinstance(error, ConnectionError)
    finally:
        if writer is not None:
            writer.transport.abort()
