"""Which messages came before: a broker that is back hands out again what it cannot know to be taken.

It marks them, and only marked ones are looked up, by their id, key and body. One without an id may be another
with the same content, so it is taken as new.
"""

from __future__ import annotations

from collections import OrderedDict

MAX_REMEMBERED = 1 << 17


class Repeats:
    """Remembers the messages with ids that were handed on last."""

    def __init__(self, most: int = MAX_REMEMBERED) -> None:
        self._most = most
        self._seen: OrderedDict[int, None] = OrderedDict()
        self.found = 0
        """Messages that were told to be repetitions."""

    def is_repeated(self, identity: str, key: bytes, body: bytes, *, marked: bool) -> bool:
        """Whether a message was handed on before; it is remembered."""
        name = hash((identity, key, body))
        if marked and name in self._seen:
            self.found += 1
            return True
        self._seen[name] = None
        if len(self._seen) > self._most:
            self._seen.popitem(last=False)
        return False
