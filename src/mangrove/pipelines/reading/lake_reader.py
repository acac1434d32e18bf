"""Rows of a lake's table, read by the workers with Arrow and brought to the table's exact schema.

Files are read in Python rather than by Spark's own scan: it accepts what other writers produce (nanoseconds,
dictionaries, narrower integers, `domain` only in the path), a damaged file is one file skipped and not a
failed job, and the numbers reach numpy without a detour through rows in the JVM.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from mangrove.errors import InputError
from mangrove.lake.files import Listing, Skipped, open_filesystem
from mangrove.lake.schemas import ARROW
from mangrove.model.telemetry import Column
from mangrove.pipelines.reading.schemas import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCH_ROWS = 1 << 17
READ_ERRORS = (pa.ArrowException, OSError)


def open_parquet(
    filesystem: pafs.FileSystem, path: str, *, read_dictionary: list[str] | None = None
) -> pq.ParquetFile:
    """A file of the lake; closing it closes the stream."""
    return pq.ParquetFile(filesystem.open_input_file(path), read_dictionary=read_dictionary)


def canonical(batch: pa.RecordBatch, columns: tuple[Column, ...], domain: str | None) -> pa.RecordBatch:
    """The columns in their exact types; rows with a null where none may be are left out."""
    arrays = []
    for column in columns:
        if column.name == "domain" and domain is not None:
            array = pa.repeat(pa.scalar(domain), batch.num_rows)
        else:
            array = to_type(batch.column(column.name), ARROW[column.type])
        arrays.append(array)
    fields = [pa.field(column.name, ARROW[column.type]) for column in columns]
    whole = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
    holes = [whole.column(c.name) for c in columns if not c.optional and whole.column(c.name).null_count]
    for hole in holes[:1]:
        keep = pc.is_valid(hole)
        for other in holes[1:]:
            keep = pc.and_(keep, pc.is_valid(other))
        whole = whole.filter(keep)
    return whole


def to_type(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Cast; finer timestamps are cut to microseconds, and those without a zone are UTC."""
    if pa.types.is_timestamp(wanted):
        if array.type.tz is None:
            array = pc.assume_timezone(array, "UTC")
        return array.cast(wanted, safe=False)
    return array.cast(wanted)


def rows(spark: SparkSession, listing: Listing, columns: tuple[str, ...] | None = None) -> DataFrame:
    """All rows of the usable files. Files that cannot be read to their end give what can be read."""
    table = listing.table
    wanted = tuple(c for c in table.columns if columns is None or c.name in columns)
    root = listing.root

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        filesystem, _ = open_filesystem(root)
        for path, domain in _paths(batches):
            try:
                with open_parquet(filesystem, path) as source:
                    names = [c.name for c in wanted if c.name in source.schema_arrow.names]
                    for batch in source.iter_batches(BATCH_ROWS, columns=names):
                        yield canonical(batch, wanted, domain)
            except READ_ERRORS:
                continue

    return _paths_frame(spark, listing).mapInArrow(read, spark_schema(replace(table, columns=wanted)))


def verified(spark: SparkSession, listing: Listing, columns: tuple[str, ...] | None = None) -> Listing:
    """The listing without files that turn out to be damaged inside; incomplete rows are counted, by file."""
    table, root = listing.table, listing.root
    wanted = tuple(c for c in table.columns if columns is None or c.name in columns)

    def check(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        filesystem, _ = open_filesystem(root)
        for path, domain in _paths(batches):
            problem, incomplete = "", 0
            try:
                with open_parquet(filesystem, path) as source:
                    names = [c.name for c in wanted if c.name in source.schema_arrow.names]
                    for batch in source.iter_batches(BATCH_ROWS, columns=names):
                        incomplete += batch.num_rows - canonical(batch, wanted, domain).num_rows
            except READ_ERRORS as error:
                problem = (str(error).splitlines() or ["unreadable"])[0]
            if problem or incomplete:
                yield pa.RecordBatch.from_pydict(
                    {"path": [path], "problem": [problem], "incomplete": [incomplete]}
                )

    listing.require()
    schema = "path string, problem string, incomplete bigint"
    found = _paths_frame(spark, listing).mapInArrow(check, schema).collect()
    damaged = {row["path"]: row["problem"] for row in found if row["problem"]}
    skipped = [
        Skipped(f.path, f"damaged ({damaged[f.path]})", f.rows) for f in listing.files if f.path in damaged
    ]
    skipped += [
        Skipped(row["path"], "rows without a value where one is needed", row["incomplete"])
        for row in sorted(found)
        if row["incomplete"]
    ]
    files = [file for file in listing.files if file.path not in damaged]
    return Listing(root, table, files, listing.skipped + skipped).require()


def _paths_frame(spark: SparkSession, listing: Listing) -> DataFrame:
    if not listing.files:
        raise InputError(f"no usable file of {listing.table.name} in {listing.root}")
    frame = spark.createDataFrame(
        [(file.path, file.domain) for file in listing.files], "path string, domain string"
    )
    return frame.repartition(min(len(listing.files), 64))


def _paths(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, str | None]]:
    for batch in batches:
        yield from zip(batch.column("path").to_pylist(), batch.column("domain").to_pylist(), strict=True)
