"""First look at `topic_rates`: which streams there are, when, how busy each minute was, what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mangrove.errors import InputError
from mangrove.lake.files import LakeFile, Listing, Skipped, open_filesystem, shown
from mangrove.pipelines.rates.rates_file import MICROSECONDS, IntArray, RatesBatch, RatesFile, Stream
from mangrove.pipelines.reading.lake_reader import READ_ERRORS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FOUND = (
    "what string, path string, domain string, broker string, topic string, minute bigint, "
    "first_s bigint, last_s bigint, rows bigint, msgs_in bigint"
)
# A task is worth its start-up when it has so many rows to read.
ROWS_PER_TASK = 2_000_000
_FIELDS = tuple(part.split()[0] for part in FOUND.split(", "))
FAULTS = {
    "incomplete": "left out: a value is missing",
    "negative": "left out: a negative count (a counter was reset)",
    "backwards": "the clock went backwards; of rows for the same moment the first is used",
}


@dataclass(slots=True)
class Scan:
    """What the first look found."""

    files: list[LakeFile]
    skipped: list[Skipped]
    streams: list[Stream] = field(default_factory=list)
    msgs_in: list[int] = field(default_factory=list)
    first_s: int = 0
    last_s: int = 0
    rows: int = 0
    minutes: dict[str, tuple[NDArray[np.int64], NDArray[np.float64]]] = field(default_factory=dict)


def file_frame(spark: SparkSession, files: list[LakeFile]) -> DataFrame:
    """The files as rows, spread evenly; `number` is a file's place in the order of paths."""
    frame = spark.createDataFrame(
        [(number, file.path, file.domain) for number, file in enumerate(files)],
        "number bigint, path string, domain string",
    )
    tasks = -(-sum(file.rows for file in files) // ROWS_PER_TASK)
    return frame.repartition(max(1, min(len(files), max(tasks, 4))))


def scan(spark: SparkSession, listing: Listing, domains: frozenset[str] | None = None) -> Scan:
    """Look at all files."""
    from pyspark.sql import functions as f

    root = listing.root

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        filesystem, _ = open_filesystem(root)
        for batch in batches:
            for path, domain in zip(
                batch.column("path").to_pylist(), batch.column("domain").to_pylist(), strict=True
            ):
                found = _look(RatesFile(filesystem, path, domain, wanted=("msgs_in",)), domains)
                columns = {name: [row.get(name) for row in found] for name in _FIELDS}
                yield pa.RecordBatch.from_pydict(columns, schema=_arrow_schema())

    found = (
        file_frame(spark, listing.files)
        .mapInArrow(look, FOUND)
        .groupBy("what", "path", "domain", "broker", "topic", "minute")
        .agg(
            f.min("first_s").alias("first_s"),
            f.max("last_s").alias("last_s"),
            f.sum("rows").alias("rows"),
            f.sum("msgs_in").alias("msgs_in"),
        )
    )
    return _summed_up(listing, found.collect())


def _arrow_schema() -> pa.Schema:
    kinds = {"string": pa.string(), "bigint": pa.int64()}
    return pa.schema([(name, kinds[kind]) for name, kind in (part.split() for part in FOUND.split(", "))])


def _look(file: RatesFile, domains: frozenset[str] | None) -> list[dict[str, Any]]:
    """One row for each stream, for each minute of a domain, and for each kind of fault."""
    per_stream: dict[int, list[int]] = {}
    per_minute: dict[tuple[str, int], int] = {}
    try:
        for batch in file.batches():
            second = batch.ts_us // MICROSECONDS
            first, last = int(second.min()), int(second.max())
            count = len(file.streams)
            rows = np.bincount(batch.stream, minlength=count)
            total = np.bincount(batch.stream, weights=batch.counts["msgs_in"], minlength=count)
            for each in np.flatnonzero(rows).tolist():
                held = per_stream.setdefault(each, [first, last, 0, 0])
                held[0], held[1] = min(held[0], first), max(held[1], last)
                held[2] += int(rows[each])
                held[3] += int(total[each])
            for where, load in _minutes(file, batch, second):
                per_minute[where] = per_minute.get(where, 0) + load
    except READ_ERRORS as error:
        reason = (str(error).splitlines() or ["unreadable"])[0]
        return [{"what": f"damaged ({reason})", "path": file.path, "rows": 0}]
    found: list[dict[str, Any]] = []
    for number, (first, last, rows_of, total_of) in per_stream.items():
        domain, broker, topic = file.streams[number]
        if domains is None or domain in domains:
            row = {"what": "stream", "domain": domain, "broker": broker, "topic": topic}
            found.append(row | {"first_s": first, "last_s": last, "rows": rows_of, "msgs_in": total_of})
    for (domain, minute), load in per_minute.items():
        if domains is None or domain in domains:
            found.append({"what": "minute", "domain": domain, "minute": minute, "rows": 1, "msgs_in": load})
    for name in FAULTS:
        count = getattr(file.faults, name)
        found += [{"what": name, "path": file.path, "rows": count}] if count else []
    return found


def _minutes(file: RatesFile, batch: RatesBatch, second: IntArray) -> Iterator[tuple[tuple[str, int], int]]:
    names = sorted({stream[0] for stream in file.streams})
    of_stream = np.array([names.index(stream[0]) for stream in file.streams])
    keys, place = np.unique((second // 60) * len(names) + of_stream[batch.stream], return_inverse=True)
    loads = np.bincount(place, weights=batch.counts["msgs_in"])
    for key, load in zip(keys.tolist(), loads.tolist(), strict=True):
        minute, name = divmod(key, len(names))
        yield (names[name], minute), int(load)


def _summed_up(listing: Listing, found: list[Any]) -> Scan:
    rows_of = {file.path: file.rows for file in listing.files}
    damaged = {row["path"] for row in found if row["what"].startswith("damaged")}
    result = Scan([file for file in listing.files if file.path not in damaged], list(listing.skipped))
    streams = sorted(
        ((row["domain"], row["broker"], row["topic"]), row) for row in found if row["what"] == "stream"
    )
    for row in sorted((r for r in found if r["path"] is not None), key=lambda r: (r["path"], r["what"])):
        if row["path"] in damaged:
            result.skipped.append(Skipped(row["path"], row["what"], rows_of[row["path"]]))
        else:
            result.skipped.append(Skipped(row["path"], FAULTS[row["what"]], row["rows"]))
    if not streams:
        raise InputError(
            f"no usable row of topic_rates in {listing.root} ({len(listing.files)} files)\n"
            + shown(result.skipped),
            hint="look at the files named above, or at --domain",
        )
    result.streams = [stream for stream, _ in streams]
    result.msgs_in = [row["msgs_in"] for _, row in streams]
    result.first_s = min(row["first_s"] for _, row in streams)
    result.last_s = max(row["last_s"] for _, row in streams)
    result.rows = sum(row["rows"] for _, row in streams)
    for domain in sorted({stream[0] for stream in result.streams}):
        pairs = sorted(
            (row["minute"], row["msgs_in"])
            for row in found
            if row["what"] == "minute" and row["domain"] == domain
        )
        minute = np.array([pair[0] for pair in pairs], dtype=np.int64)
        result.minutes[domain] = minute, np.array([pair[1] for pair in pairs], dtype=np.float64)
    return result
