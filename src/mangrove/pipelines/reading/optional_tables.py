"""Tables that a lake may or may not have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mangrove.errors import InputError
from mangrove.lake.files import Skipped, list_table, open_filesystem
from mangrove.pipelines.reading.lake_reader import rows, verified

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from mangrove.model.telemetry import Table


def rows_if_there(
    spark: SparkSession,
    lake: str,
    table: Table,
    skipped: list[Skipped],
    *,
    columns: tuple[str, ...] | None = None,
    required: bool = False,
) -> DataFrame | None:
    """The table's rows, or None when the lake has none and they are not required."""
    import pyarrow.fs as pafs

    filesystem, base = open_filesystem(lake)
    if filesystem.get_file_info(base).type != pafs.FileType.Directory:
        raise InputError(f"the lake {lake} does not exist", hint="give the directory that holds the tables")
    there = filesystem.get_file_info(f"{base.rstrip('/')}/{table.name}").type == pafs.FileType.Directory
    if not there and not required:
        return None
    listing = list_table(lake, table)
    if not required and not listing.rows:
        skipped += listing.skipped
        return None
    good = verified(spark, listing, columns)
    skipped += good.skipped
    return rows(spark, good, columns)
