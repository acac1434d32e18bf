"""Both ends of one part of a status stream, without the wire: who tells, and who follows what is told."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

from mangrove.model.stream.difference import UnfitChangeError, applied, difference
from mangrove.model.stream.messages import StatusUpdate, packed, unpacked
from mangrove.model.unreadable import UNREADABLE

S = TypeVar("S", bound=msgspec.Struct)

WHOLE_EVERY = 30
"""Updates after which the whole is said without being asked for."""


class Teller:
    """Turns accounts into updates; knows what was said last, and nothing of who hears it."""

    def __init__(self, life: int) -> None:
        self._life = life
        self._number = 0
        self._last: Any = None

    def tell(self, account: msgspec.Struct, at: float, *, whole: bool = False) -> bytes:
        """The next update."""
        tree = msgspec.to_builtins(account)
        self._number += 1
        whole = whole or self._last is None or self._number % WHOLE_EVERY == 0
        change = tree if whole else difference(self._last, tree)
        self._last = tree
        all_of_it = StatusUpdate(self._life, self._number, at, whole=True, change=tree)
        return packed(StatusUpdate(self._life, self._number, at, whole, change), None if whole else all_of_it)

    def forget(self) -> None:
        """Nobody listens any more; the next who does is told the whole."""
        self._last = None


class Follower(Generic[S]):
    """Puts updates together again, into the account that was told."""

    def __init__(self, kind: type[S]) -> None:
        self._kind = kind
        self._tree: Any = None
        self._life = 0
        self._number = 0
        self.account: S | None = None
        """The last that is known."""
        self.at = 0.0
        """When it was made, by the clock of who told it."""
        self.lost = 0
        """Updates that were missed or could not be read."""
        self.omitted_bytes = 0

    def hear(self, payload: bytes) -> bool:
        """Take an update; False if the whole has to be asked for."""
        try:
            update = unpacked(payload)
        except (ValueError, *UNREADABLE):
            return self._missed()
        self.omitted_bytes = update.omitted_bytes
        if update.omitted_bytes:
            return True  # to ask again would bring the same
        if not update.whole and (update.life, update.number) != (self._life, self._number + 1):
            return self._missed()
        try:
            tree = update.change if update.whole else applied(self._tree, update.change)
            account = msgspec.convert(tree, self._kind)
        except (msgspec.ValidationError, UnfitChangeError):
            return self._missed()
        self._tree, self.account, self.at = tree, account, update.at
        self._life, self._number = update.life, update.number
        return True

    def _missed(self) -> bool:
        self.lost += self._tree is not None
        self._tree, self._number = None, -2
        return False
