"""The figures behind a plan: rates of its items, how they vary together, and what brokers can carry."""

from __future__ import annotations

import msgspec

MAX_FIGURES_ITEMS = 600
"""A covariance of more items is too large to travel with every plan; such plans are judged by their word."""


class PlanFigures(msgspec.Struct, frozen=True, kw_only=True):
    """An allocation problem without its bounds; numbers are packed as 32-bit floats, little-endian."""

    items: tuple[str, ...]
    brokers: tuple[str, ...]
    mean_rate_msg_s: bytes
    covariance: bytes
    """The upper triangle with the diagonal, row by row."""
    capacity_msg_s: bytes = b""
    """One for each broker, where it does not depend on what is allocated."""
    service_time_s: bytes = b""
    """Else the time for a message, by broker and item."""
    utilisation_threshold: float = 1.0
