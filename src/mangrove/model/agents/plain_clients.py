"""Connections of clients that do not speak with an agent."""

from __future__ import annotations

import msgspec


class PlainClient(msgspec.Struct, frozen=True):
    """A connection that is no SDK's: what it is handed, by pattern, in messages since it connected."""

    cid: int
    name: str
    patterns: tuple[tuple[str, int], ...]
    """Pattern and messages handed over so far."""
    bytes_out: int
    pending_bytes: int
    messages_in: int = 0
    """What it has published so far."""
    bytes_in: int = 0
