"""One broker's super routing table and [destination][colour] look-up array (PCRT §III-B, IV).

Each different (destination, next hop) of all the tables is kept once, under an address; the array points
from a destination and a colour to the address. A broker i never needs more than (N - 1) * degree(i) entries
(eq. 1). Most failures elsewhere change nothing here, and many that do change the same: colours whose columns
of the array would be equal share one.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

MAX_BROKERS = 4096
"""For so many failover tables are made."""
ENTRY_BYTES = 4  # a destination and a next hop, two bytes each
_PART = 1024


class SuperEntry(msgspec.Struct, frozen=True):
    """A line of the super routing table (table IV)."""

    address: int
    destination: str
    next_hop: str
    colours: tuple[int, ...]


class BrokerTable:
    """All that one broker needs to forward under any colour.

    `next_hop` is four plain reads. Destinations and next hops are indices into `names`, -1 is "no way".
    """

    __slots__ = (
        "_cells",
        "_column",
        "_next",
        "columns",
        "destination",
        "index",
        "name",
        "names",
        "next_hops",
        "pointers",
    )

    def __init__(
        self,
        names: tuple[str, ...],
        index: int,
        pointers: NDArray[np.unsignedinteger],
        columns: NDArray[np.unsignedinteger],
        destination: NDArray[np.int64],
        next_hops: NDArray[np.int64],
    ) -> None:
        self.names = names
        self.index = index
        self.name = names[index]
        self.pointers = pointers
        """[destination, column] → address, 0 where there is no entry."""
        self.columns = columns
        """Column of each colour, from colour 1."""
        self.destination = destination
        """Destination of each address, from address 1."""
        self.next_hops = next_hops
        """Next hop of each address, from address 1."""
        # Plain Python containers answer a single read several times faster than a numpy array does.
        self._cells: list[memoryview] = [memoryview(row.data) for row in pointers]
        self._column = memoryview(columns.data)
        self._next: tuple[int, ...] = (-1, *(int(hop) for hop in next_hops))

    @property
    def addresses(self) -> NDArray[np.unsignedinteger]:
        """[destination, colour - 1] → address: the array as equation 2 has it."""
        whole: NDArray[np.unsignedinteger] = self.pointers[:, self.columns]
        return whole

    def next_hop(self, destination: int, colour: int) -> int:
        """Index of the next hop towards a destination under a colour; -1 when there is none."""
        return self._next[self._cells[destination][self._column[colour - 1]]]

    def hops(self, colour: int) -> list[int]:
        """Next hops under a colour by destination."""
        column = self._column[colour - 1]
        return [self._next[cells[column]] for cells in self._cells]

    def super_table(self) -> list[SuperEntry]:
        """The super routing table, in order of address."""
        count = len(self.next_hops)
        flat = self.addresses.ravel()
        cells = np.argsort(flat, kind="stable")  # by address, and within one in order of colour
        starts = np.searchsorted(flat[cells], np.arange(1, count + 2))
        colour = cells % len(self.columns) + 1
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
        """Bytes of the condensed table: entries, array of pointers, column of each colour."""
        return len(self.next_hops) * ENTRY_BYTES + self.pointers.nbytes + self.columns.nbytes


class SizeReport(msgspec.Struct, frozen=True):
    """What the tables of all brokers take."""

    entries: int  # condensed, over all brokers
    entries_bound: int  # sum of (N - 1) * degree
    entries_uncondensed: int  # one table per colour
    condensed_bytes: int
    uncondensed_bytes: int


class ColumnsMet:
    """Collects a broker's next hops colour by colour, and keeps equal ones once."""

    def __init__(self, colours: int) -> None:
        self._place: dict[bytes, int] = {}
        self.of = array("I", [0]) * colours
        """Column of each colour, from colour 1."""

    def add(self, hops: bytes) -> int:
        """The column for these next hops, two bytes each."""
        return self._place.setdefault(hops, len(self._place))

    def condensed(self, names: tuple[str, ...], index: int) -> BrokerTable:
        """The condensed table of a broker.

        Addresses are given in the order in which a walk over columns, and within a column over destinations,
        meets a new entry. Columns are put in the order in which a walk over the colours meets them, so this
        is the order of the paper's table IV.
        """
        size = len(names)
        of, first = np.unique(np.frombuffer(self.of, dtype=np.uint32), return_index=True)
        order = of[np.argsort(first)]
        every = list(self._place)
        rows = np.frombuffer(b"".join(every[each] for each in order), dtype=np.int16).reshape(-1, size)
        rank = np.zeros(len(every), dtype=np.min_scalar_type(len(order)))
        rank[order] = np.arange(len(order))
        address_of = np.zeros(size * size, dtype=np.int64)
        entries = np.zeros(0, dtype=np.int64)
        for some in _parts(rows):
            met = (np.arange(size) * size + some)[some >= 0]
            new, first = np.unique(met[address_of[met] == 0], return_index=True)
            new = new[np.argsort(first)]
            address_of[new] = np.arange(len(new)) + len(entries) + 1
            entries = np.concatenate((entries, new))
        pointers = np.empty((size, len(rows)), dtype=np.min_scalar_type(len(entries)))
        for start, some in zip(range(0, len(rows), _PART), _parts(rows), strict=True):
            at = address_of[np.arange(size) * size + np.maximum(some, 0)]
            pointers[:, start : start + _PART] = np.where(some >= 0, at, 0).T
        columns = rank[np.frombuffer(self.of, dtype=np.uint32)]
        return BrokerTable(names, index, pointers, columns, entries // size, entries % size)


def _parts(rows: NDArray[np.int16]) -> list[NDArray[np.int16]]:
    """So many at a time: what is made of them on the way is larger than they are."""
    return [rows[start : start + _PART] for start in range(0, len(rows), _PART)]


def condense(names: tuple[str, ...], index: int, next_hops: NDArray[np.int16]) -> BrokerTable:
    """The condensed table of a broker from its next hops [colour - 1, destination]."""
    met = ColumnsMet(len(next_hops))
    for place, hops in enumerate(next_hops):
        met.of[place] = met.add(hops.tobytes())
    return met.condensed(names, index)


def size_report(tables: Iterable[BrokerTable], degrees: Sequence[int]) -> SizeReport:
    """Sum of sizes over brokers; the uncondensed figure stores every table's reachable entries in full."""
    entries = bound = uncondensed = condensed_bytes = 0
    for table, degree in zip(tables, degrees, strict=True):
        entries += len(table.next_hops)
        bound += (len(table.names) - 1) * degree
        uncondensed += int(np.count_nonzero(table.pointers, axis=0)[table.columns].sum())
        condensed_bytes += table.size_bytes
    return SizeReport(entries, bound, uncondensed, condensed_bytes, uncondensed * ENTRY_BYTES)
