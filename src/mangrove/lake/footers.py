"""What the footer of one Parquet file tells: whether its schema fits, how many rows, which files it replaces.

Nothing but the footer is read. This runs wherever the file can be opened: here, or on a cluster's workers.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from mangrove.lake.schemas import readable_as
from mangrove.model.telemetry import REPLACES_KEY, SCHEMA_VERSION, VERSION_KEY, ColumnType, Table

READ_ERRORS = (pa.ArrowException, OSError)
# A time that Python's calendar does not have, a text that is no UTF-8.
BOUND_ERRORS = (pa.ArrowException, OverflowError, ValueError)


@dataclass(frozen=True, slots=True)
class Footer:
    """A file's footer. With a `problem` the file is of no use; `rows` is None when even that is not known.

    `fingerprint` is the same for copies. `narrow` names columns that Spark reads as whole numbers and casts.
    `holes`: values that may not be missing could be; only the data can tell. `first_s` and `last_s`: the
    seconds that its rows are of, if it tells.
    """

    rows: int | None
    problem: str = ""
    fingerprint: str = ""
    replaces: tuple[str, ...] = ()
    narrow: tuple[str, ...] = ()
    holes: bool = False
    first_s: int | None = None
    last_s: int | None = None


def read_footer(filesystem: pafs.FileSystem, path: str, table: Table, *, has_domain: bool) -> Footer:
    """Look at one file; `has_domain` says that its path tells the domain."""
    try:
        with filesystem.open_input_file(path) as source, pq.ParquetFile(source) as file:
            metadata, schema = file.metadata, file.schema_arrow
    except READ_ERRORS as error:
        return Footer(None, f"not a readable Parquet file ({first_line(error)})")
    keys = metadata.metadata or {}
    version = keys.get(VERSION_KEY.encode(), str(SCHEMA_VERSION).encode()).decode(errors="replace")
    if version != str(SCHEMA_VERSION):
        return Footer(metadata.num_rows, f"schema version {version}; this release reads {SCHEMA_VERSION}")
    if problem := schema_problem(schema, table, has_domain=has_domain):
        return Footer(metadata.num_rows, problem)
    replaces = keys.get(REPLACES_KEY.encode(), b"").decode(errors="replace")
    try:
        fingerprint, (first_s, last_s) = _fingerprint(metadata), _seconds(metadata)
    except BOUND_ERRORS as error:
        return Footer(metadata.num_rows, f"bounds of its values are no values ({first_line(error)})")
    return Footer(
        metadata.num_rows,
        fingerprint=fingerprint,
        replaces=tuple(name for name in replaces.split("\n") if name),
        narrow=_narrow(metadata, schema, table),
        holes=_holes(metadata, schema, table),
        first_s=first_s,
        last_s=last_s,
    )


def schema_problem(schema: pa.Schema, table: Table, *, has_domain: bool) -> str:
    """Why rows of this schema cannot be rows of the table; empty if they can."""
    problems = []
    found = set(schema.names)
    implied = {"domain"} if has_domain else set()
    wanted = {column.name for column in table.columns}
    if missing := sorted(wanted - found - implied):
        problems.append(f"missing columns: {', '.join(missing)}")
    if extra := sorted(found - wanted - {"date"}):
        problems.append(f"unknown columns: {', '.join(extra)}")
    for column in table.columns:
        if column.name in found:
            kind = schema.field(column.name).type
            if not readable_as(kind, column.type):
                problems.append(f"column {column.name} is {kind}, not {column.type.value}")
    return "; ".join(problems)


def first_line(error: BaseException) -> str:
    """What an error says, without its details."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def _fingerprint(metadata: pq.FileMetaData) -> str:
    """Sizes and bounds of every group: files that are no copies hardly ever agree in all of them."""
    sha = hashlib.sha256(f"{metadata.num_rows} {metadata.serialized_size}".encode())
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for place in range(group.num_columns):
            chunk = group.column(place)
            bounds = chunk.statistics
            known = bounds is not None and bounds.has_min_max
            sha.update(f"{chunk.total_compressed_size} {(bounds.min, bounds.max) if known else ''}".encode())
    return sha.hexdigest()[:16]


def _seconds(metadata: pq.FileMetaData) -> tuple[int | None, int | None]:
    """The first and the last second of its rows, by the bounds of every group."""
    place = next(n for n in range(len(metadata.schema)) if metadata.schema.column(n).name == "ts")
    bounds = [metadata.row_group(n).column(place).statistics for n in range(metadata.num_row_groups)]
    if not bounds or not all(each is not None and each.has_min_max for each in bounds):
        return None, None
    return _second(min(each.min for each in bounds)), _second(max(each.max for each in bounds))


def _second(moment: datetime) -> int:
    """Since 1970; a moment without a zone is in UTC, as everything in a lake is."""
    return int((moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp())


def _narrow(metadata: pq.FileMetaData, schema: pa.Schema, table: Table) -> tuple[str, ...]:
    """Columns whose stored form Spark's scan does not turn into the table's type by itself."""
    stored = {
        metadata.schema.column(place).name: metadata.schema.column(place).physical_type
        for place in range(len(metadata.schema))
    }
    found = []
    for column in table.columns:
        if column.name not in schema.names:
            continue
        kind = schema.field(column.name).type
        # Spark reads the nanoseconds of its own old format, and none of the standard's.
        nanoseconds = pa.types.is_timestamp(kind) and kind.unit == "ns" and stored[column.name] != "INT96"
        whole = column.type is ColumnType.NUMBER and pa.types.is_integer(kind)
        if nanoseconds or whole:
            found.append(column.name)
    return tuple(found)


def _holes(metadata: pq.FileMetaData, schema: pa.Schema, table: Table) -> bool:
    needed = {column.name for column in table.columns if not column.optional}
    doubtful = {field.name for field in schema if field.name in needed and field.nullable}
    places = [
        place
        for place in range(len(metadata.schema))
        if metadata.schema.column(place).path.split(".")[0] in doubtful
    ]
    for group in range(metadata.num_row_groups):
        for place in places:
            statistics = metadata.row_group(group).column(place).statistics
            if statistics is None or not statistics.has_null_count or statistics.null_count:
                return True
    return False
