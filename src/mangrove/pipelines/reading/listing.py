"""The files of a lake's table, listed by Spark and looked at by its workers.

Spark's source of binary files lists through Hadoop's file systems, in parallel where there are many
directories; contents are not read unless asked for. The workers open the footers, so the driver needs neither
the files nor the time, and the same code serves a session in this process, a cluster and Spark Connect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.fs as pafs

from mangrove.errors import InputError
from mangrove.lake.files import (
    READERS,
    LakeFile,
    Listing,
    MissingTableError,
    Skipped,
    day_problem,
    digest,
    missing_table,
    open_filesystem,
    partition_value,
    sorted_out,
)
from mangrove.lake.footers import READ_ERRORS, Footer, read_footer
from mangrove.model.telemetry import Table
from mangrove.pipelines.reading.days import days_between
from mangrove.pipelines.reading.lake_reader import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

LISTED = "path string, uri string, size_bytes bigint, modified_ms bigint"
LOOKED_AT = (
    f"{LISTED}, rows bigint, problem string, fingerprint string, replaces array<string>, "
    "narrow array<string>, holes boolean, first_s bigint, last_s bigint"
)
UNCHECKED = "footers were not checked: Arrow cannot open this kind of address"


def list_files(
    spark: SparkSession,
    lake: str,
    table: Table,
    *,
    domains: frozenset[str] | None = None,
    since_s: float | None = None,
    until_s: float | None = None,
    known: Sequence[LakeFile] = (),
) -> Listing:
    """Check the files of a table, those of some domains and days if asked.

    Footers of `known` files that have the same size and time are not read again, if they were read.
    """
    listed = _listed(spark, lake, table).where(_in_question(domains, since_s, until_s))
    before = {(file.uri, file.size_bytes, file.modified_ms): file for file in known}
    kept: list[LakeFile] = []
    if before:
        there = [tuple(row) for row in listed.collect()]
        checked = {key: file for key, file in before.items() if not _unchecked(file)}
        kept = [checked[row[1:]] for row in there if row[1:] in checked]
        listed = spark.createDataFrame([row for row in there if row[1:] not in checked], LISTED)
    found = [_file(row) for row in _looked_at(listed, lake, table).collect()]
    if any(file.footer.problem == UNCHECKED for file in found):
        # Rules that need all footers would judge some files by those of others: none of them counts.
        files = [replace(file, footer=Footer(None, holes=True)) for file in (*kept, *_counted(found, before))]
        days = {file.path: problem for file in files if (problem := day_problem(file.path, table))}
        skipped = [Skipped(f"{lake}/{table.name}", UNCHECKED), *(Skipped(*each) for each in days.items())]
        usable = [file for file in files if file.path not in days]
        return Listing(lake, table, usable, skipped, tuple(files))
    return sorted_out(lake, table, [*kept, *found], lambda paths: _digests(spark, lake, table, paths))


def _unchecked(file: LakeFile) -> bool:
    """Whether nobody could open it when it was listed."""
    return file.footer.rows is None and not file.footer.problem


def _counted(files: Iterable[LakeFile], before: Mapping[tuple[str, int, int], LakeFile]) -> list[LakeFile]:
    """The files, with the incomplete rows that were counted in them before."""
    counts = {key: file.incomplete for key, file in before.items()}
    return [
        replace(file, incomplete=counts.get((file.uri, file.size_bytes, file.modified_ms))) for file in files
    ]


def shown_path(path: str) -> str:
    """A path as people write it: local ones without Hadoop's prefix."""
    return path.removeprefix("file://").removeprefix("file:")


def _listed(spark: SparkSession, lake: str, table: Table) -> DataFrame:
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as f

    source = (
        spark.read.format("binaryFile")
        .option("recursiveFileLookup", "true")
        .option("pathGlobFilter", "*.parquet")
    )
    try:
        frame = source.load(f"{lake}/{table.name}").select(
            "path",
            f.col("_metadata.file_path").alias("uri"),
            f.col("length").alias("size_bytes"),
            f.unix_millis("modificationTime").alias("modified_ms"),
        )
        _ = frame.columns
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        raise _missing(lake, table) from None
    return frame


def _missing(lake: str, table: Table) -> InputError:
    try:
        filesystem, base = open_filesystem(lake)
        return missing_table(filesystem, base, lake, table)
    except (InputError, *READ_ERRORS):
        return MissingTableError(f"the lake {lake} has no table {table.name}, or does not exist")


def _in_question(domains: frozenset[str] | None, since_s: float | None, until_s: float | None) -> Column:
    """By directory; files whose path tells no domain, or no day, are always in question."""
    from pyspark.sql import functions as f

    condition = f.lit(True)
    domain, date = (f.regexp_extract("path", f"/{name}=([^/]+)/", 1) for name in ("domain", "date"))
    if domains is not None:
        condition &= domain.isin("", *sorted(domains))
    undated = ~date.rlike(r"^\d{4}-\d{2}-\d{2}$")
    return condition & (undated | days_between(since_s, until_s).condition(date))


def _looked_at(listed: DataFrame, lake: str, table: Table) -> DataFrame:
    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            place = placing(lake, table)
        except InputError:
            for batch in batches:
                yield _batch(row | asdict(Footer(None, UNCHECKED)) for row in batch.to_pylist())
            return

        def footer(row: dict[str, Any]) -> dict[str, Any]:
            has_domain = partition_value(row["path"], "domain") is not None
            return row | asdict(read_footer(*place(row["path"]), table, has_domain=has_domain))

        with ThreadPoolExecutor(READERS) as pool:
            for batch in batches:
                yield _batch(pool.map(footer, batch.to_pylist()))

    return listed.mapInArrow(look, LOOKED_AT)


def placing(lake: str, table: Table) -> Callable[[str], tuple[pafs.FileSystem, str]]:
    """From paths as Hadoop writes them to what Arrow opens."""
    filesystem, base = open_filesystem(lake)
    within = table_path(lake, table)
    return lambda path: (filesystem, f"{base.rstrip('/')}/{table.name}/{path.partition(within)[2]}")


def table_path(lake: str, table: Table) -> str:
    """What paths of a table's files have in common, without what comes before the path in a URL."""
    path = urlsplit(lake).path if "://" in lake else lake
    return f"{path}/{table.name}/"


def _batch(rows: Iterable[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), schema=arrow_schema(LOOKED_AT))


def _file(row: Any) -> LakeFile:
    path = shown_path(row["path"])
    told = {each.name: row[each.name] for each in fields(Footer)}
    footer = Footer(**told | {name: tuple(told[name]) for name in ("replaces", "narrow")})
    return LakeFile(
        path,
        partition_value(path, "domain"),
        row["rows"] or 0,
        footer,
        row["uri"],
        row["size_bytes"],
        row["modified_ms"],
    )


def _digests(spark: SparkSession, lake: str, table: Table, paths: Sequence[str]) -> Mapping[str, bytes]:
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        place = placing(lake, table)
        for batch in batches:
            for path in batch.column("path").to_pylist():
                try:
                    content = digest(*place(path))
                except READ_ERRORS:
                    continue
                yield pa.RecordBatch.from_pydict({"path": [path], "digest": [content]})

    frame = spark.createDataFrame([(path,) for path in paths], "path string")
    found = frame.mapInArrow(read, "path string, digest binary").collect()
    return {row["path"]: bytes(row["digest"]) for row in found}
