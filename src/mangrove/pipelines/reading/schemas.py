"""The lake's tables as Spark schemas."""

from __future__ import annotations

from pyspark.sql import types as t

from mangrove.model.telemetry import Column, ColumnType, Table

SPARK_TYPES = {
    ColumnType.TIMESTAMP: "timestamp",
    ColumnType.TEXT: "string",
    ColumnType.COUNT: "bigint",
    ColumnType.NUMBER: "double",
    ColumnType.FLAG: "boolean",
    ColumnType.HISTOGRAM: "array<bigint>",
}


def spark_schema(table: Table) -> t.StructType:
    """The schema of a table for Spark, which treats every column that it reads as optional."""
    return t.StructType(
        [t.StructField(c.name, t.DataType.fromDDL(SPARK_TYPES[c.type])) for c in table.columns]
    )


def column_problem(column: Column, found: t.DataType) -> str:
    """Why a table's column cannot be read as the lake's without losing anything; empty if it can."""
    whole = isinstance(found, t.ByteType | t.ShortType | t.IntegerType | t.LongType)
    match column.type:
        case ColumnType.TIMESTAMP:
            fits = isinstance(found, t.TimestampType | t.TimestampNTZType)
        case ColumnType.TEXT:
            fits = isinstance(found, t.StringType | t.VarcharType | t.CharType)
        case ColumnType.COUNT:
            fits = whole
        case ColumnType.NUMBER:
            fits = whole or isinstance(found, t.FloatType | t.DoubleType | t.DecimalType)
        case ColumnType.FLAG:
            fits = isinstance(found, t.BooleanType)
        case ColumnType.HISTOGRAM:
            inner = found.elementType if isinstance(found, t.ArrayType) else None
            fits = isinstance(inner, t.ByteType | t.ShortType | t.IntegerType | t.LongType)
    return "" if fits else f"column {column.name} is {found.simpleString()}, not {column.type.value}"
