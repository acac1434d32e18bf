"""What all policies for slow subscribers do: keep what waits within limits, and say what is left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from mangrove.client.message import Message

MAX_PENDING_MESSAGES = 512 * 1024
MAX_PENDING_BYTES = 128 << 20
"""What waits for a slow reader or callback; besides, the messages that it has in hand."""

NOTHING: list[Message] = []
"""Shared, never changed: mostly nothing is left out."""


def nothing() -> list[Message]:
    """The reader of one message at a time has read what it took."""
    return NOTHING


class Waiting(Protocol):
    """Messages of one subscription that wait for its reader. One message may wait whatever its size is."""

    max_messages: int
    max_bytes: int
    size_bytes: int
    """Bytes of what waits."""
    taken_in: int
    """How many were ever put here and not cut off at once."""
    take_back: Callable[[], list[Message]]
    """Takes what the reader has in hand, and has not read, from it; called before something is left out."""

    @property
    def messages(self) -> int:
        """How many wait."""

    def put(self, messages: list[Message], size_bytes: int) -> list[Message]:
        """Take messages in, in their order; what is left out for it, in the order in which it came."""

    def take(self) -> list[Message]:
        """The next to be read; empty if none waits."""

    @property
    def before_first(self) -> int:
        """How many of those taken in came before the first that waits: tells for how long it has waited."""
