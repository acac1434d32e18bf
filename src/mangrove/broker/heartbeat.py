"""The seam by which an agent notices that a broker has died: a connection that is probed again and again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

Refused = Callable[[], None]
"""Called when the connection was closed, or never there, and nobody listens any more where the broker was."""


class Heartbeat(Protocol):
    """One broker's pulse. Nothing waits: what is asked for is done in the background and has an owner."""

    def beat(self) -> int:
        """Ask whether the broker is there; the number of this question."""

    def answered(self, beat: int) -> bool:
        """Whether it has answered this question, or a later one."""

    @property
    def silenced(self) -> str:
        """Why the broker cannot be asked at all, although it may be alive; empty: it can."""

    async def close(self) -> None:
        """Let go of the broker."""
