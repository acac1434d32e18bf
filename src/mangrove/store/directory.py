"""The directory as the store keeps it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from mangrove.model.agents.directory import DirectoryRecord, read_record
from mangrove.model.unreadable import UNREADABLE
from mangrove.store.buckets import DIRECTORY, Buckets

MAX_RECORDS = 1_000_000


class StoredDirectory(NamedTuple):
    """What was found, and how many values could not be used: unreadable, or another domain's."""

    records: tuple[DirectoryRecord, ...]
    unusable: int


async def read_directory(buckets: Buckets, domain: str) -> StoredDirectory:
    """All records of a domain."""
    return usable(await buckets.read(DIRECTORY, max_records=MAX_RECORDS), domain)


def usable(values: Iterable[bytes], domain: str) -> StoredDirectory:
    """The records among what a store holds."""
    records: list[DirectoryRecord] = []
    unusable = 0
    for value in values:
        try:
            record = read_record(value)
        except UNREADABLE:
            unusable += 1
            continue
        if record.domain == domain and record.topic and record.epoch >= 0:
            records.append(record)
        else:
            unusable += 1
    return StoredDirectory(tuple(records), unusable)
