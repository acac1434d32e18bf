"""Forwarding: which neighbour brings a frame nearer to each of its destinations.

Gateways ask for every frame; the answers come from the next hops that a broker's failover table gives for the
present state of the network.
"""

from __future__ import annotations

from collections.abc import Sequence

_REMEMBERED_SPLITS = 4096

Hop = tuple[str, int]
"""A neighbour, and the mask of destinations that are reached through it."""


class Forwarding:
    """Forwards by next hops. Bit i of a mask stands for the i-th broker by name, as in the tables.

    The tables are loop-free for all brokers that have the same view of the failures (see `colours`).
    """

    def __init__(self, next_hops: Sequence[int], names: Sequence[str]) -> None:
        """`next_hops` holds the index of the next hop for each destination, -1 where there is none."""
        via: dict[int, int] = {}
        for destination, hop in enumerate(next_hops):
            if hop >= 0:
                via[hop] = via.get(hop, 0) | 1 << destination
        self._via = [(names[neighbour], mask) for neighbour, mask in sorted(via.items())]
        self._splits: dict[int, tuple[Hop, ...]] = {}

    def split(self, destinations: int) -> tuple[Hop, ...]:
        """Next hops for a mask of destinations."""
        hops = self._splits.get(destinations)
        if hops is None:
            hops = tuple((name, destinations & mask) for name, mask in self._via if destinations & mask)
            if len(self._splits) < _REMEMBERED_SPLITS:
                self._splits[destinations] = hops
        return hops

    def reachable(self) -> int:
        """Mask of the destinations that can be reached."""
        return sum(mask for _, mask in self._via)
