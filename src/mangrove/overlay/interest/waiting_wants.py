"""Wants that wait to be told, in slices.

What came first is told first. Where tables are hashed, a want takes those along that lie on its leaf of the
hash: of many that wait, a slice then changes few leaves, and each leaf is hashed once and not at every slice.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator

Leaf = Callable[[str], int]


class WaitingWants:
    """A set of wants, in the order in which they are told."""

    def __init__(self, leaf: Leaf | None = None) -> None:
        """Those that have the same `leaf` are told together; without it, each as it came."""
        self._leaf = leaf
        # In plain dicts, taking out the first ones grows dear.
        self._leaves: OrderedDict[int, OrderedDict[str, None]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, want: str) -> bool:
        wants = self._leaves.get(self._place(want))
        return wants is not None and want in wants

    def __iter__(self) -> Iterator[str]:
        for wants in self._leaves.values():
            yield from wants

    def add(self, want: str) -> None:
        """It is to be told."""
        leaf = self._leaf
        place = 0 if leaf is None else leaf(want)
        wants = self._leaves.get(place)
        if wants is None:
            self._leaves[place] = wants = OrderedDict()
        if want not in wants:
            wants[want] = None
            self._count += 1

    def discard(self, want: str) -> None:
        """It need not be told any more, if it was to be."""
        if not self._count:
            return
        place = self._place(want)
        wants = self._leaves.get(place)
        if wants is not None and want in wants:
            del wants[want]
            self._count -= 1
            if not wants:
                del self._leaves[place]

    def told(self, count: int) -> None:
        """So many of the first ones were told."""
        self._count -= count
        while count:
            place = next(iter(self._leaves))
            wants = self._leaves[place]
            if len(wants) <= count:
                count -= len(wants)
                del self._leaves[place]
            else:
                for _ in range(count):
                    wants.popitem(last=False)
                count = 0

    def _place(self, want: str) -> int:
        return 0 if self._leaf is None else self._leaf(want)
