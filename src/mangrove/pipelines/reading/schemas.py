"""The lake's tables as Spark schemas."""

from __future__ import annotations

from pyspark.sql import types as t

from mangrove.model.telemetry import ColumnType, Table


def spark_schema(table: Table) -> t.StructType:
    """The schema of a table for Spark, which treats every column that it reads as optional."""
    spark = {
        ColumnType.TIMESTAMP: t.TimestampType(),
        ColumnType.TEXT: t.StringType(),
        ColumnType.COUNT: t.LongType(),
        ColumnType.NUMBER: t.DoubleType(),
        ColumnType.FLAG: t.BooleanType(),
        ColumnType.HISTOGRAM: t.ArrayType(t.LongType()),
    }
    return t.StructType([t.StructField(c.name, spark[c.type]) for c in table.columns])
