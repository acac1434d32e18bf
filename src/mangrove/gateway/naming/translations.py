"""What is asked for on one side, and what that is on the other: there for as long as anybody asks for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

Near = TypeVar("Near", bound=Hashable)
Far = TypeVar("Far", bound=Hashable)


class Translations(Generic[Near, Far]):
    """Several may be called the same on the far side, and one by several names.

    Each keeps what it was translated to. So names may change, and what was asked for before is taken back by
    the names under which it was asked for.
    """

    def __init__(self, translate: Callable[[Near], tuple[Far, ...]]) -> None:
        self._translate = translate
        self._far: dict[Near, tuple[Far, ...]] = {}
        self._asked: Counter[Far] = Counter()

    def __contains__(self, near: Near) -> bool:
        return near in self._far

    def all(self) -> list[Near]:
        """All that is asked for."""
        return list(self._far)

    def clear(self) -> None:
        """Nothing is asked for any more."""
        self._far.clear()
        self._asked.clear()

    def add(self, near: Near) -> tuple[tuple[Far, ...], tuple[Far, ...]]:
        """It is asked for: what that is on the far side, and what of it nobody asked for before."""
        if near in self._far:
            return self._far[near], ()
        far = self._far[near] = self._translate(near)
        new = tuple(each for each in far if not self._asked[each])
        self._asked.update(far)
        return far, new

    def remove(self, near: Near) -> tuple[Far, ...]:
        """It is not asked for any more: what nobody asks for now, also if it never was."""
        far = self._far.pop(near, None)
        if far is None:
            return tuple(each for each in self._translate(near) if not self._asked[each])
        return tuple(each for each in far if self._released(each))

    def anew(self, some: Iterable[Near]) -> tuple[list[Far], list[Far]]:
        """Names have changed: what is asked for on the far side because of that, and what is no longer."""
        before: dict[Far, bool] = {}
        for near in some:
            old = self._far.get(near)
            if old is None or (new := self._translate(near)) == old:
                continue
            self._far[near] = new
            for each in (*old, *new):
                before.setdefault(each, self._asked[each] > 0)
            self._asked.update(new)
            for each in old:
                self._released(each)
        now = {each: self._asked[each] > 0 for each in before}
        return (
            [each for each, asked in now.items() if asked and not before[each]],
            [each for each, asked in now.items() if before[each] and not asked],
        )

    def _released(self, far: Far) -> bool:
        """One asks for it no more; whether nobody does."""
        self._asked[far] -= 1
        if self._asked[far]:
            return False
        del self._asked[far]
        return True
