"""Recognises messages that a subscription has had already."""

from __future__ import annotations

REMEMBERED = 8192


class RecentIds:
    """The last so many (subject, id) pairs.

    Gateways deliver every frame once; but one whose machine lost power forgets what it has delivered just
    before, and its neighbour sends again what was not acknowledged: better twice than never. Here the second
    copy ends.
    """

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        self._seen: dict[tuple[str, str], None] = {}
        self.duplicates = 0

    def is_new(self, subject: str, identity: str | None) -> bool:
        """Whether a message has not been seen before; one without an id always counts as new."""
        if identity is None:
            return True
        key = (subject, identity)
        if key in self._seen:
            self.duplicates += 1
            return False
        self._seen[key] = None
        if len(self._seen) > self._remembered:
            del self._seen[next(iter(self._seen))]
        return True
