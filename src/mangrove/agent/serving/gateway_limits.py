"""Tells the gateway how much of other domains' messages it may let in, and the brain what it answers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from time import monotonic

import msgspec
import nats.errors
from nats.aio.client import Client

from mangrove.control.stimuli import GatewayAnswered, Stimulus
from mangrove.model.agents.names import gateway_limits_subject
from mangrove.model.agents.usefulness import GatewayLimited, GatewayLimits
from mangrove.model.unreadable import UNREADABLE

TIMEOUT_S = 1.0

_decoder = msgspec.json.Decoder(GatewayLimited)


class GatewayLimiter:
    """Only the latest limits count: what was not told before they changed is not told any more."""

    def __init__(self, domain: str, tell: Callable[[Stimulus], None], refused: Counter[str]) -> None:
        self._subject = gateway_limits_subject(domain)
        self._tell = tell
        self._refused = refused
        self._latest: GatewayLimits | None = None
        self._some = asyncio.Event()
        self._answered_at: float | None = None

    def put(self, limits: GatewayLimits) -> None:
        """Tell these; the brain asks again if nothing comes of it."""
        self._latest = limits
        self._some.set()

    async def run(self, connection: Client, leads: Callable[[], bool]) -> None:
        """Tell, until cancelled."""
        while True:
            await self._some.wait()
            self._some.clear()
            limits, self._latest = self._latest, None
            if limits is None or not leads():
                continue
            try:
                answer = await connection.request(
                    self._subject, msgspec.json.encode(limits), timeout=TIMEOUT_S
                )
                limited = _decoder.decode(answer.data)
            except (nats.errors.Error, OSError):
                self._refused["limits that the gateway did not answer"] += 1
                continue
            except UNREADABLE:
                self._refused["answers of the gateway that cannot be read"] += 1
                continue
            now = monotonic()
            before, self._answered_at = self._answered_at, now
            self._tell(GatewayAnswered(limited, 0.0 if before is None else now - before))
