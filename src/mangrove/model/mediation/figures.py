"""What a gateway counts of transforms."""

from __future__ import annotations

import msgspec


class TransformFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One transform, over all contracts that use it at this gateway."""

    transformed: int = 0
    left_out: int = 0
    """Messages that it chose not to let pass."""
    failed: dict[str, int] = {}
    """Messages that became dead letters, by reason."""
    waiting: int = 0
    """Messages that wait for it now."""
    processes: int = 0
    """How often a process was started for it."""
