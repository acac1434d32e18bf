"""Asks the gateway what it carried of each topic: that tells of publishers and subscribers elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec
import nats.errors
from nats.aio.client import Client

from mangrove.control.stimuli import Stimulus, TopicsCounted
from mangrove.model.topic_counts import CountCursor, TopicCounts, TopicCountsRequest, gateway_topics_subject
from mangrove.model.unreadable import UNREADABLE

EVERY_S = 1.0
TIMEOUT_S = 1.0

_decoder = msgspec.json.Decoder(TopicCounts)


class GatewayCounts:
    """One reader of the gateway's counts, with a cursor of its own."""

    def __init__(self, domain: str, connection: Client, tell: Callable[[Stimulus], None]) -> None:
        self._subject = gateway_topics_subject(domain)
        self._connection = connection
        self._tell = tell
        self._cursor: CountCursor | None = None

    async def run(self) -> None:
        """Ask, until cancelled. A gateway that is away is asked again; nothing is lost by that."""
        while True:
            await asyncio.sleep(EVERY_S)
            try:
                request = msgspec.json.encode(TopicCountsRequest(cursor=self._cursor))
                answer = await self._connection.request(self._subject, request, timeout=TIMEOUT_S)
                counts = _decoder.decode(answer.data)
            except (nats.errors.Error, OSError, *UNREADABLE):
                continue
            known, self._cursor = self._cursor is not None, counts.cursor
            if known and counts.span_s > 0.0:
                self._tell(
                    TopicsCounted(
                        span_s=counts.span_s, sent=counts.sent.topics, delivered=counts.delivered.topics
                    )
                )
