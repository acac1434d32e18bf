"""What a broker takes in for its topics, and how much of that ends when a topic's clients leave it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import NamedTuple

from mangrove.model.patterns.cover import PatternCover, has_wildcard

PARTS = 1000


class Inflow(NamedTuple):
    """Messages and bytes in a second that a pattern brings to a broker."""

    messages_s: float = 0.0
    bytes_s: float = 0.0


def largest(*flows: Iterable[tuple[float, float]]) -> Inflow:
    """The largest stream that any subscriber sees: the broker takes each message in once."""
    messages_s = bytes_s = 0.0
    for flow in chain(*flows):
        messages_s, bytes_s = max(messages_s, flow[0]), max(bytes_s, flow[1])
    return Inflow(messages_s, bytes_s)


class Inflows:
    """The inflow of every pattern at a broker, and what of it other patterns need as well.

    A pattern that another one covers ends nothing by leaving, and a covering one only what those below it do
    not need. Patterns that overlap in part are taken as apart: nothing tells what they share.
    """

    def __init__(self, inflows: Mapping[str, Inflow]) -> None:
        self.inflows = inflows
        self._covers: tuple[dict[str, int], dict[str, int]] | None = None
        """Thousandths of messages and of bytes, of each uncovered pattern with all that it covers."""
        if any(map(has_wildcard, inflows)):
            messages = {name: round(flow.messages_s * PARTS) for name, flow in inflows.items()}
            size_bytes = {name: round(flow.bytes_s * PARTS) for name, flow in inflows.items()}
            self._covers = PatternCover(messages).weights, PatternCover(size_bytes).weights

    def ending_with(self, pattern: str) -> Inflow:
        """What the broker no longer takes in once nobody there has this pattern."""
        flow = self.inflows[pattern]
        if self._covers is None:
            return flow
        messages, size_bytes = self._covers
        if pattern not in messages:
            return Inflow()
        if not has_wildcard(pattern):
            return flow
        return Inflow(
            _own_part(flow.messages_s, messages[pattern] / PARTS),
            _own_part(flow.bytes_s, size_bytes[pattern] / PARTS),
        )


def _own_part(flow: float, with_covered: float) -> float:
    """What is left of a pattern's flow after what the patterns below it go on to need."""
    return min(flow, max(0.0, flow - (with_covered - flow)))
