"""Snapshots of a domain's interest on their way between two gateways, in parts of bounded size.

A part names the version that the whole snapshot is of; parts of one snapshot follow each other on their link.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from mangrove.overlay.protocol.control_messages import InterestUpdate
from mangrove.overlay.protocol.signed import Signed
from mangrove.overlay.trust.table_hash import TableHash

SLICE_SUBJECTS = 500
SMALL_SUBJECTS = 32
SLICE_BYTES = 48 << 10
"""What goes into one frame, and what is done before others get their turn."""


def first_slice(subjects: Iterable[str]) -> Iterator[str]:
    """As many subjects as one frame takes; at least one, if there is any."""
    room = SLICE_BYTES
    for subject in islice(subjects, SLICE_SUBJECTS):
        room -= len(subject.encode())
        yield subject
        if room <= 0:
            return


class Snapshot:
    """The interest of a domain at one version, told part by part."""

    def __init__(
        self,
        domain: str,
        epoch: int,
        version: int,
        subjects: list[str],
        statement: Signed | None = None,
    ) -> None:
        self.domain = domain
        self._epoch = epoch
        self._version = version
        self._subjects = subjects
        self._statement = statement
        self._told = 0
        self._parts = 0
        self.done = False

    @property
    def small(self) -> bool:
        """Whether it is a single part of few subjects, none of which can make it large."""
        return len(self._subjects) <= SMALL_SUBJECTS

    @property
    def stamp(self) -> tuple[int, int]:
        """The version that it is of."""
        return (self._epoch, self._version)

    def next_part(self) -> InterestUpdate:
        """What to send next; `done` after the last one."""
        subjects = list(first_slice(self._subjects[self._told : self._told + SLICE_SUBJECTS]))
        self._told += len(subjects)
        self.done = self._told == len(self._subjects)
        part = InterestUpdate(
            origin=self.domain,
            epoch=self._epoch,
            version=self._version,
            snapshot=True,
            added=subjects,
            part=self._parts,
            last=self.done,
            statement=None if self._parts else self._statement,
        )
        self._parts += 1
        return part


class Assembly:
    """A snapshot of which some parts have come."""

    __slots__ = ("hash", "parts", "stamp", "statement", "subjects")

    def __init__(self, stamp: tuple[int, int]) -> None:
        self.stamp = stamp
        self.parts = 0
        self.subjects: dict[str, None] = {}
        self.statement: Signed | None = None
        self.hash = TableHash()
        """Of all that came, made as it came, where domains have keys."""

    def add(self, subjects: Iterable[str]) -> None:
        """The next part."""
        self.parts += 1
        self.subjects.update(dict.fromkeys(subjects))
