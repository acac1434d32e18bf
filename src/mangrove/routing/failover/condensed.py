"""One broker's super routing table and [destination][colour] look-up array (PCRT §III-B, IV).

Each different (destination, next hop) of all the tables is kept once, under an address; the array points
from a destination and a colour to the address. A broker i never needs more than (N - 1) * degree(i) entries
(eq. 1).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ENTRY_BYTES = 4  # a destination and a next hop, two bytes each


@dataclass(frozen=True, slots=True)
class SuperEntry:
    """A line of the super routing table (table IV)."""

    address: int
    destination: str
    next_hop: str
    colours: tuple[int, ...]


class BrokerTable:
    """All that one broker needs to forward under any colour.

    `next_hop` is three plain reads. Destinations and next hops are indices into `names`, -1 is "no way".
    """

    __slots__ = ("_cells", "_next", "addresses", "destination", "index", "name", "names", "next_hops")

    def __init__(
        self,
        names: tuple[str, ...],
        index: int,
        addresses: NDArray[np.unsignedinteger],
        destination: NDArray[np.int64],
        next_hops: NDArray[np.int64],
    ) -> None:
        self.names = names
        self.index = index
        self.name = names[index]
        self.addresses = addresses
        """[destination, colour - 1] → address, 0 where there is no entry."""
        self.destination = destination
        """Destination of each address, from address 1."""
        self.next_hops = next_hops
        """Next hop of each address, from address 1."""
        # Plain Python containers answer a single read several times faster than a numpy array does. Column 0
        # stands for no colour and has no entries, so that a colour is its own index.
        padded = np.pad(addresses, ((0, 0), (1, 0)))
        self._cells: list[memoryview] = [memoryview(row.data) for row in padded]
        self._next: tuple[int, ...] = (-1, *(int(hop) for hop in next_hops))

    def next_hop(self, destination: int, colour: int) -> int:
        """Index of the next hop towards a destination under a colour; -1 when there is none."""
        return self._next[self._cells[destination][colour]]

    def super_table(self) -> list[SuperEntry]:
        """The super routing table, in order of address."""
        count = len(self.next_hops)
        flat = self.addresses.ravel()
        cells = np.argsort(flat, kind="stable")  # by address, and within one in order of colour
        starts = np.searchsorted(flat[cells], np.arange(1, count + 2))
        colour = cells % self.addresses.shape[1] + 1
        return [
            SuperEntry(
                address,
                self.names[self.destination[address - 1]],
                self.names[self.next_hops[address - 1]],
                tuple(colour[starts[address - 1] : starts[address]].tolist()),
            )
            for address in range(1, count + 1)
        ]

    def next_hop_array(self) -> NDArray[np.int64]:
        """Next hops [destination, colour - 1] as equation 3 prints them: a broker's own row holds itself."""
        array: NDArray[np.int64] = np.asarray(self._next)[self.addresses]
        array[self.index, :] = self.index
        return array

    @property
    def size_bytes(self) -> int:
        """Bytes of the condensed table: its entries and the array that points to them."""
        return len(self.next_hops) * ENTRY_BYTES + self.addresses.nbytes


@dataclass(frozen=True, slots=True)
class SizeReport:
    """What the tables of all brokers take."""

    entries: int  # condensed, over all brokers
    entries_bound: int  # sum of (N - 1) * degree
    entries_uncondensed: int  # one table per colour
    condensed_bytes: int
    uncondensed_bytes: int


def condense(names: tuple[str, ...], index: int, next_hops: NDArray[np.int16]) -> BrokerTable:
    """The condensed table of a broker from its next hops [destination, colour - 1].

    Addresses are given in the order in which a walk over colours, and within a colour over destinations,
    meets a new entry; this is the order of the paper's table IV.
    """
    size = len(names)
    by_colour = next_hops.T  # [colour, destination]
    keys = np.arange(size) * size + by_colour
    valid = by_colour >= 0
    met = keys[valid]
    first = np.full(size * size, met.size, dtype=np.int64)
    first[met[::-1]] = np.arange(met.size - 1, -1, -1)  # written backwards: the first meeting stays
    known = np.flatnonzero(first < met.size)
    entries = known[np.argsort(first[known])]
    address_of = np.zeros(size * size, dtype=np.min_scalar_type(len(entries)))
    address_of[entries] = np.arange(1, len(entries) + 1)
    addresses = np.where(valid, address_of[np.where(valid, keys, 0)], 0).astype(address_of.dtype)
    return BrokerTable(names, index, np.ascontiguousarray(addresses.T), entries // size, entries % size)


def size_report(tables: Iterable[BrokerTable], degrees: Sequence[int]) -> SizeReport:
    """Sum of sizes over brokers; the uncondensed figure stores every table's reachable entries in full."""
    entries = bound = uncondensed = condensed_bytes = 0
    for table, degree in zip(tables, degrees, strict=True):
        entries += len(table.next_hops)
        bound += (len(table.names) - 1) * degree
        uncondensed += int(np.count_nonzero(table.addresses))
        condensed_bytes += table.size_bytes
    return SizeReport(entries, bound, uncondensed, condensed_bytes, uncondensed * ENTRY_BYTES)
