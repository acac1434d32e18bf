"""Checked files of a lake as one frame, by Spark's own Parquet scan.

The scan prunes directories (`date=`, `domain=`) and columns and skips groups of rows by time; it spills and
follows the cluster. Files that store a column differently are read apart and cast.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from mangrove.lake.files import LakeFile, Listing, partition_value
from mangrove.model.telemetry import Column, ColumnType
from mangrove.pipelines.reading.days import days_between
from mangrove.pipelines.reading.listing import table_path
from mangrove.pipelines.reading.schemas import SPARK_TYPES

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS = ("date", "domain")
# Whatever the session is set to: a read that fails must be seen to fail.
OPTIONS = {
    "parquet.page.verify-checksum.enabled": "true",
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
}
NANOSECONDS = "spark.sql.legacy.parquet.nanosAsLong"


class Part(NamedTuple):
    """A directory of the lake: what one domain recorded on one day."""

    date: str
    domain: str


def part_of(file: LakeFile) -> Part | None:
    """The directory that a file is in, if it is in one of a day and a domain."""
    date = file.date
    return None if date is None or file.domain is None else Part(date, file.domain)


@dataclass(frozen=True, slots=True)
class LakeScan:
    """How files are to be read: which columns, what may be pruned."""

    spark: SparkSession
    listing: Listing
    columns: tuple[Column, ...]
    domains: frozenset[str] | None = None
    since_s: float | None = None
    until_s: float | None = None
    parts: frozenset[Part] | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    with_date: bool = False

    def frame(self, files: list[LakeFile], *, with_uri: bool = False) -> DataFrame:
        """The rows of these files, which are some of the listing's."""
        apart: dict[tuple[tuple[str, ...], tuple[str, ...]], list[LakeFile]] = {}
        for file in files:
            apart.setdefault((self._layout(file.path), file.footer.narrow), []).append(file)
        frames = [self._group(*shape, group, with_uri=with_uri) for shape, group in sorted(apart.items())]
        frame = frames[0]
        for more in frames[1:]:
            frame = frame.unionByName(more)
        return frame

    def _group(
        self, layout: tuple[str, ...], narrow: tuple[str, ...], files: list[LakeFile], *, with_uri: bool
    ) -> DataFrame:
        from pyspark.sql import functions as f

        directory = f"{self.listing.root}/{self.listing.table.name}"
        kinds = {c.name: SPARK_TYPES[c.type] for c in self.listing.table.columns}
        kinds |= dict.fromkeys(narrow, "bigint") | dict.fromkeys(layout, "string")
        schema = ", ".join(f"{name} {kind}" for name, kind in kinds.items())
        reader = self.spark.read.schema(schema).options(**{**OPTIONS, **self.options})
        if narrow:
            self.spark.conf.set(NANOSECONDS, "true")
        uri = f.col("_metadata.file_path")
        wanted = {file.uri for file in files}
        paths = [each.path for each in self.listing.found]
        if layout == PARTITIONS and all(self._layout(path) == layout for path in paths):
            frame = self._pruned(reader.parquet(directory))
            # The index of a frame is made when it is: what came since the listing is not among the wanted.
            there = {name.replace("file:///", "file:/") for name in frame.inputFiles()}
            others = {name for name in there - wanted if self._in_question(name)}
            if others and len(others) <= len(wanted):
                frame = frame.where(~uri.isin(*sorted(others)))
            elif others:
                frame = frame.where(uri.isin(*sorted(wanted)))
        else:
            # Spark takes its partitions from all directories or from none, so these files are named.
            frame = reader.option("basePath", directory).parquet(*sorted(file.path for file in files))
        columns = [_cast(c, narrow=c.name in narrow) for c in self.columns]
        columns += [f.col("date")] if self.with_date else []
        return frame.select(*columns, *([uri.alias("uri")] if with_uri else []))

    def _pruned(self, frame: DataFrame) -> DataFrame:
        """Only directories in question."""
        from pyspark.sql import functions as f

        frame = on_days(frame, self.since_s, self.until_s)
        if self.domains is not None:
            frame = frame.where(f.col("domain").isin(*sorted(self.domains)))
        if self.parts is not None:
            condition = f.lit(False)
            for date in sorted({part.date for part in self.parts}):
                domains = sorted(part.domain for part in self.parts if part.date == date)
                condition |= (f.col("date") == date) & f.col("domain").isin(*domains)
            frame = frame.where(condition)
        return frame

    def _layout(self, path: str) -> tuple[str, ...]:
        """Names of the partitions that the path below the table's directory tells."""
        below = path.partition(table_path(self.listing.root, self.listing.table))[2]
        return tuple(part.partition("=")[0] for part in below.split("/")[:-1] if "=" in part)

    def _in_question(self, uri: str) -> bool:
        path = unquote(uri)
        date, domain = partition_value(path, "date") or "", partition_value(path, "domain") or ""
        return (
            (self.domains is None or domain in self.domains)
            and date in days_between(self.since_s, self.until_s)
            and (self.parts is None or Part(date, domain) in self.parts)
        )


def on_days(frame: DataFrame, since_s: float | None, until_s: float | None) -> DataFrame:
    """Only directories of days in question."""
    from pyspark.sql import functions as f

    return frame.where(days_between(since_s, until_s).condition(f.col("date")))


def _cast(column: Column, *, narrow: bool) -> SparkColumn:
    from pyspark.sql import functions as f

    if narrow and column.type is ColumnType.TIMESTAMP:
        # In whole numbers: doubles are too short for nanoseconds since 1970.
        return f.timestamp_micros(f.expr(f"{column.name} div 1000")).alias(column.name)
    return f.col(column.name).cast(SPARK_TYPES[column.type]).alias(column.name)
