"""What is remembered of flows: of so many, and none gives way while another origin has more of them.

An origin that makes flows without end, or names ever others that nobody knows, pushes out its own. It takes
no longer the more there are: origins are sorted by how many flows they have, and each change makes one more
or one less.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Generic, TypeVar

FlowKey = tuple[int, int, int]
"""Origin, epoch and number of a flow."""

V = TypeVar("V")


class KeptFlows(Generic[V]):
    """Something for each flow. Of an origin that has most, the flow used longest ago makes room."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 0
        self._by_origin: dict[int, OrderedDict[FlowKey, V]] = {}
        """By origin the flows, the one used last at the end."""
        self._having: dict[int, OrderedDict[int, None]] = {}
        """By a number of flows the origins that have so many, the one that came to it last at the end."""
        self._highest = 0
        """The largest of these numbers."""

    def get(self, key: FlowKey) -> V | None:
        """What is remembered of a flow, if anything."""
        flows = self._by_origin.get(key[0])
        return None if flows is None else flows.get(key)

    def use(self, key: FlowKey) -> V | None:
        """The same; from now on this flow is the last of its origin to be forgotten."""
        flows = self._by_origin.get(key[0])
        if flows is None or (value := flows.get(key)) is None:
            return None
        flows.move_to_end(key)
        return value

    def add(self, key: FlowKey, value: V) -> V | None:
        """Remember something of a flow that is not known; what is forgotten instead, if anything."""
        flows = self._by_origin.setdefault(key[0], OrderedDict())
        flows[key] = value
        self._count += 1
        self._sort(key[0], len(flows) - 1, len(flows))
        return self._forget() if self._count > self._most else None

    def items(self) -> Iterator[tuple[FlowKey, V]]:
        """All flows, and what is remembered of them."""
        for flows in self._by_origin.values():
            yield from flows.items()

    def _forget(self) -> V:
        origin = next(iter(self._having[self._highest]))
        flows = self._by_origin[origin]
        _, forgotten = flows.popitem(last=False)
        self._count -= 1
        self._sort(origin, len(flows) + 1, len(flows))
        if not flows:
            del self._by_origin[origin]
        return forgotten

    def _sort(self, origin: int, before: int, after: int) -> None:
        """An origin has one flow more or less than before."""
        if before:
            del self._having[before][origin]
            if not self._having[before]:
                del self._having[before]
        if after:
            self._having.setdefault(after, OrderedDict())[origin] = None
        if after > self._highest or self._highest not in self._having:
            self._highest = after
