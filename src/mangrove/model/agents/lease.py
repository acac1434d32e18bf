"""The record by which one agent of a domain leads it."""

from __future__ import annotations

import msgspec


class LeaseRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Who leads; an empty holder has stepped down."""

    holder: str
    """Names a process: one that is started anew under the same name is another."""
    agent: str
    term: int
    beat: int = 0
    successor: str = ""
    """The agent to which a leader that stepped down has left its place."""
