"""Parquet files of a lake, opened with Arrow; casts to the lake's types, and schemas for Spark."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq

READ_ERRORS = (pa.ArrowException, OSError)


def open_parquet(
    filesystem: pafs.FileSystem, path: str, *, read_dictionary: list[str] | None = None
) -> pq.ParquetFile:
    """A file of the lake, whose pages are checked as they are read; closing it closes the stream."""
    source = filesystem.open_input_file(path)
    return pq.ParquetFile(source, read_dictionary=read_dictionary, page_checksum_verification=True)


def to_type(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Cast; finer timestamps are cut to microseconds, and those without a zone are UTC."""
    if pa.types.is_timestamp(wanted):
        if array.type.tz is None:
            array = pc.assume_timezone(array, "UTC")
        return array.cast(wanted, safe=False)
    return array.cast(wanted)


def arrow_schema(text: str) -> pa.Schema:
    """A schema in Spark's words for Arrow; values may be missing."""
    kinds = {"string": pa.string(), "bigint": pa.int64(), "binary": pa.binary(), "boolean": pa.bool_()}
    fields = []
    for name, kind in (part.split() for part in text.split(", ")):
        inner = kinds[kind.removeprefix("array<").removesuffix(">")]
        fields.append((name, pa.list_(inner) if kind.startswith("array") else inner))
    return pa.schema(fields)
