"""How much was published."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Published:
    """How much was published, in messages and bytes of payload."""

    messages: int = 0
    size_bytes: int = 0
