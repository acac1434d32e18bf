"""A table of the session's catalog (Hive, Iceberg, Delta, whatever Spark knows) as a table of the lake."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mangrove.errors import InputError
from mangrove.pipelines.reading.lake_scan import on_days
from mangrove.pipelines.reading.schemas import SPARK_TYPES, column_problem

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from mangrove.pipelines.reading.rows import Rows


def catalog_frame(rows: Rows) -> DataFrame:
    """The wanted columns in the lake's types, or what is wrong with the table."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as f

    name = rows.source.tables[rows.table.name]
    try:
        frame = rows.spark.table(name)
        fields = {field.name: field.dataType for field in frame.schema}
    except AnalysisException as error:
        raise InputError(
            f"the session's catalog has no table {name}: {(str(error).splitlines() or [''])[0]}",
            hint="catalogs are configured with Spark's own settings; `SHOW TABLES` lists what there is",
        ) from None
    missing = [c.name for c in rows.columns if c.name not in fields]
    problems = [f"missing columns: {', '.join(missing)}"] if missing else []
    there = [c for c in rows.columns if c.name in fields]
    problems += [problem for c in there if (problem := column_problem(c, fields[c.name]))]
    if problems:
        raise InputError(
            f"the table {name} cannot be read as {rows.table.name}: {'; '.join(problems)}",
            hint="docs/reference/telemetry-lake.md describes the columns; a view can rename and cast",
        )
    if "date" in fields:
        frame = on_days(frame, rows.since_s, rows.until_s)
    return frame.select(*(f.col(c.name).cast(SPARK_TYPES[c.type]).alias(c.name) for c in rows.columns))
