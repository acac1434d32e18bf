"""What was refused at the border of a domain, as its gateway tells it."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Crossing(StrEnum):
    """Which way a message would have passed the border."""

    LEAVE = "leave"
    ENTER = "enter"

    def phrase(self, domain: str) -> str:
        """As part of a sentence."""
        return f"leave for {domain}" if self is Crossing.LEAVE else f"enter from {domain}"


class AccessRefusal(msgspec.Struct, frozen=True, kw_only=True):
    """Messages that a rule kept from passing."""

    rule: str
    """Its place in the federation file."""
    crossing: Crossing
    domain: str
    """Where they would have gone, or came from."""
    count: int
    example: str
    """The first subject that was refused."""
