"""The lake's tables as Arrow schemas."""

from __future__ import annotations

import pyarrow as pa

from mangrove.model.telemetry import SCHEMA_VERSION, VERSION_KEY, ColumnType, Table

ARROW = {
    ColumnType.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    ColumnType.TEXT: pa.string(),
    ColumnType.COUNT: pa.int64(),
    ColumnType.NUMBER: pa.float64(),
    ColumnType.FLAG: pa.bool_(),
    ColumnType.HISTOGRAM: pa.list_(pa.int64()),
}


def arrow_schema(table: Table) -> pa.Schema:
    """The schema of a table's files, with its version in the metadata."""
    fields = [pa.field(c.name, ARROW[c.type], nullable=c.optional) for c in table.columns]
    return pa.schema(fields, metadata={VERSION_KEY: str(SCHEMA_VERSION)})


def readable_as(found: pa.DataType, wanted: ColumnType) -> bool:
    """Whether a column of this type can be read as the wanted one without losing anything."""
    types = pa.types
    if types.is_dictionary(found):
        found = found.value_type
    match wanted:
        case ColumnType.TIMESTAMP:
            return bool(types.is_timestamp(found))
        case ColumnType.TEXT:
            return bool(types.is_string(found) or types.is_large_string(found) or types.is_string_view(found))
        case ColumnType.COUNT:
            return _is_count(found)
        case ColumnType.NUMBER:
            return bool(types.is_float32(found) or types.is_float64(found)) or _is_count(found)
        case ColumnType.FLAG:
            return bool(types.is_boolean(found))
        case ColumnType.HISTOGRAM:
            is_list = types.is_list(found) or types.is_large_list(found)
            return bool(is_list) and _is_count(found.value_type)


def _is_count(found: pa.DataType) -> bool:
    return bool(pa.types.is_integer(found) and found != pa.uint64())
