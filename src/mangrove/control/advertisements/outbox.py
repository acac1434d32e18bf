"""What is still to be told to one neighbour: bounded by what there is to tell, and sent at a bounded rate."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import islice

import msgspec

from mangrove.model.agents.peers import (
    MAX_PEER_MESSAGE_BYTES,
    MAX_TOPICS_A_MESSAGE,
    Advertise,
    Advertisement,
)

MESSAGES_A_SECOND = 10.0
"""Of advertisements, to one neighbour."""
_ENVELOPE_BYTES = 4096
"""Room for all that is in a message besides its topics: braces, and the beats of their sources."""
_TOPIC_BYTES = 48
"""Of an advertisement besides its topic and source."""

Topic = tuple[str, str]
"""Topic and source. What is claimed about it is looked up when it leaves: later changes replace earlier."""


class Outbox:
    """Topics in the order in which they are to be told; each is in it once."""

    def __init__(self) -> None:
        self._waiting: dict[Topic, None] = {}
        self._not_before = -math.inf

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, topic: str, source: str) -> None:
        """Tell the neighbour what is known of this."""
        self._waiting[topic, source] = None

    def discard(self, topic: str, source: str) -> None:
        """The neighbour knows it already."""
        self._waiting.pop((topic, source), None)

    def due(self) -> float:
        """When the next message may leave; infinite if there is nothing to tell."""
        return self._not_before if self._waiting else math.inf

    def take(
        self, claim: Callable[[str, str], Advertisement | None], beats: dict[str, int], now: float
    ) -> Advertise | None:
        """The next message, which is due; `claim` tells what is known, None that nothing is any more."""
        while self._waiting:
            if message := self._take_some(claim, beats):
                self._not_before = now + 1.0 / MESSAGES_A_SECOND
                return message
        return None

    def _take_some(
        self, claim: Callable[[str, str], Advertisement | None], beats: dict[str, int]
    ) -> Advertise | None:
        told: list[Advertisement] = []
        sources: dict[str, int] = {}
        room = MAX_PEER_MESSAGE_BYTES - _ENVELOPE_BYTES
        for key in list(islice(self._waiting, MAX_TOPICS_A_MESSAGE)):
            topic, source = key
            room -= len(msgspec.json.encode(topic)) + len(source) + _TOPIC_BYTES
            if source not in sources:
                room -= len(source) + _TOPIC_BYTES
            if room < 0 and told:
                break
            del self._waiting[key]
            advertisement = claim(topic, source)
            if advertisement is not None:
                told.append(advertisement)
                if source in beats:
                    sources[source] = beats[source]
        return Advertise(topics=tuple(told), beats=sources) if told else None
