"""Rows of a table as a `DataFrame` with the table's exact columns, from a lake or from the session's catalog.

What footers tell is checked before anything is read (`listing`). Damage inside a file shows only when it is
read, so jobs run as if all were well; should a read fail, `unharmed` lists the files again, finds out which
ones cannot be read to their end, and runs the job once more without them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from mangrove.errors import InputError
from mangrove.lake.files import LakeFile, Listing, Skipped, sorted_out
from mangrove.model.telemetry import Table
from mangrove.pipelines.reading.catalog import catalog_frame
from mangrove.pipelines.reading.lake_scan import LakeScan, Part, part_of
from mangrove.pipelines.reading.listing import list_files
from mangrove.pipelines.reading.source import Source

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")
FAILED_READ = "FAILED_READ_FILE"
INCOMPLETE = "rows without a value where one is needed"
ATTEMPTS = 3
LENIENT = {"ignoreCorruptFiles": "true", "ignoreMissingFiles": "true"}


class Rows:
    """Rows that a job reads. `frame` has the columns asked for, in the table's order and types.

    Rows with nulls where none may be are left out of it; `report` counts them.
    """

    def __init__(
        self,
        spark: SparkSession,
        source: Source,
        table: Table,
        *,
        columns: Iterable[str] | None = None,
        domains: Iterable[str] | None = None,
        since_s: float | None = None,
        until_s: float | None = None,
        known: Sequence[LakeFile] = (),
    ) -> None:
        wanted = None if columns is None else frozenset(columns)
        self.spark, self.source, self.table = spark, source, table
        self.columns = tuple(c for c in table.columns if wanted is None or c.name in wanted)
        self.domains = None if domains is None else frozenset(domains)
        self.since_s, self.until_s = since_s, until_s
        self.listing: Listing | None = None
        self.recovered = 0
        self._known = tuple(known)
        self._parts: frozenset[Part] | None = None
        self._noted: list[Skipped] = []
        self._frame: DataFrame | None = None
        self._catalog_empty: bool | None = None
        if table.name in source.tables:
            self._frame = self._filtered(catalog_frame(self))
        elif source.lake is None:
            raise InputError(
                f"no table is given for {table.name}", hint=f"--table {table.name}=catalog.db.table"
            )
        else:
            self._list()

    @property
    def frame(self) -> DataFrame:
        """The rows; ask anew after `restrict` or `recover`."""
        if self._frame is None:
            self._frame = self._filtered(self._scan().frame(self.to_read()))
        return self._frame

    @property
    def dated(self) -> DataFrame:
        """The rows of a lake with one more column, `date`: the day that their directory names."""
        return self._filtered(self._scan(with_date=True).frame(self.to_read()))

    @property
    def files(self) -> list[LakeFile]:
        """The usable files; none for a table of the catalog."""
        return [] if self.listing is None else self.listing.files

    @property
    def skipped(self) -> list[Skipped]:
        """What was left out as far as it is known; `report` knows all."""
        holes = [
            Skipped(file.path, INCOMPLETE, file.incomplete)
            for file in self.files
            if file.incomplete is not None
        ]
        listed = [] if self.listing is None else self.listing.skipped
        return sorted([*listed, *self._noted, *(each for each in holes if each.rows)], key=lambda s: s.path)

    @property
    def empty(self) -> bool:
        """Whether there is no row to read."""
        if self.listing is None:
            if self._catalog_empty is None:
                self._catalog_empty = not unharmed(lambda: self.frame.select("ts").take(1), self)
            return self._catalog_empty
        return not any(f.rows or f.footer.rows is None for f in self.files)

    def require(self) -> Rows:
        """Itself, or the reason why there is nothing to work on."""
        if self.listing is None:
            if self.empty:
                raise InputError(
                    f"the table {self.source.place(self.table)} has no row to work on",
                    hint="is it the right table, and did anybody write to it in the period asked for?",
                )
        elif all(file.footer.rows is not None for file in self.listing.files):
            self.listing.require()
        return self

    def restrict(self, parts: Iterable[Part] | None) -> None:
        """From here on, `frame` has only rows of these days and domains (by directory); None: of all."""
        self._parts = None if parts is None else frozenset(parts)
        self._frame = None

    def to_read(self) -> list[LakeFile]:
        """The files of `frame`; none for a table of the catalog."""
        if self._parts is None or self.listing is None:
            return self.require().files
        return [file for file in self.files if part_of(file) in self._parts]

    def report(self) -> list[Skipped]:
        """What was left out, with rows that lack a value: data are read only where footers leave it open."""
        self._count_incomplete()
        return self.skipped

    def count_by_file(self, condition: str, reason: str) -> list[Skipped]:
        """How many of the rows meet an SQL condition, in each file that has any."""
        from pyspark.sql import functions as f

        if self.listing is None:
            count = self.frame.where(condition).count()
            return [Skipped(self.source.place(self.table), reason, count)] if count else []
        files = {file.uri: file for file in self.to_read()}
        frame = self._filtered(self._scan().frame(list(files.values()), with_uri=True)).where(condition)
        counted = frame.groupBy("uri").agg(f.count("*").alias("rows")).collect()
        found = [Skipped(files[row["uri"]].path, reason, row["rows"]) for row in counted]
        return sorted(found, key=lambda each: each.path)

    def recover(self, error: BaseException) -> None:
        """After a read that failed: list anew, and leave out what cannot be read to its end."""
        self.recovered += 1
        if self.listing is None:
            match = re.search(r"reading file (\S+)", str(error))
            name = match[1].rstrip(".") if match else "a file"
            self._noted.append(Skipped(self.source.place(self.table), f"damaged in part: {name}"))
            self.spark.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
            return
        self._list()
        there = self.to_read()
        read = {row["uri"]: row["rows"] for row in self._read_through(there).collect()} if there else {}
        self._learn(
            replace(file, damage=f"damaged ({read.get(file.uri, 0)} of {file.rows} rows can be read)")
            for file in there
            if file.footer.rows is not None and read.get(file.uri, 0) != file.rows
        )

    def _list(self) -> None:
        assert self.source.lake is not None
        self._frame = None
        self.listing = list_files(
            self.spark,
            self.source.lake,
            self.table,
            domains=self.domains,
            since_s=self.since_s,
            until_s=self.until_s,
            known=self._known if self.listing is None else self.listing.found,
        )

    def _learn(self, files: Iterable[LakeFile]) -> None:
        """Sort out once more, knowing more of some files."""
        assert self.listing is not None
        more = {file.uri: file for file in files}
        found = [more.get(file.uri, file) for file in self.listing.found]
        copies = {each.path for each in self.listing.skipped if each.reason.startswith("a copy of ")}
        keep = [file for file in found if file.path not in copies]
        again = sorted_out(self.listing.root, self.table, keep, lambda _: {})
        again.found = tuple(found)
        again.skipped += [each for each in self.listing.skipped if each.path in copies]
        self.listing, self._frame = again, None

    def _scan(self, options: dict[str, str] | None = None, *, with_date: bool = False) -> LakeScan:
        assert self.listing is not None
        return LakeScan(
            self.spark,
            self.listing,
            self.columns,
            domains=self.domains,
            since_s=self.since_s,
            until_s=self.until_s,
            parts=self._parts,
            options=options or {},
            with_date=with_date,
        )

    def _read_through(self, files: list[LakeFile]) -> DataFrame:
        """Rows that can be read of each file, every wanted column included."""
        from pyspark.sql import functions as f

        frame = self._scan(LENIENT).frame(files, with_uri=True)
        every = f.xxhash64(*(c.name for c in self.columns))
        return frame.groupBy("uri").agg(f.count("*").alias("rows"), f.bit_xor(every).alias("read"))

    def _count_incomplete(self) -> None:
        from pyspark.sql import functions as f

        if self.listing is None:
            count = catalog_frame(self).where(~self._complete()).count()
            noted = Skipped(self.source.place(self.table), INCOMPLETE, count)
            self._noted = [each for each in self._noted if each.reason != INCOMPLETE]
            self._noted += [noted] if count else []
            return
        doubtful = [file for file in self.listing.files if file.footer.holes and file.incomplete is None]
        if not doubtful:
            return
        frame = self._scan(LENIENT).frame(doubtful, with_uri=True).where(~self._complete())
        counted = frame.groupBy("uri").agg(f.count("*").alias("rows")).collect()
        rows = {row["uri"]: row["rows"] for row in counted}
        self._learn(replace(file, incomplete=rows.get(file.uri, 0)) for file in doubtful)

    def _filtered(self, frame: DataFrame) -> DataFrame:
        from pyspark.sql import functions as f

        if self.domains is not None:
            frame = frame.where(f.col("domain").isin(*sorted(self.domains)))
        if self.since_s is not None:
            frame = frame.where(f.col("ts") >= _moment(self.since_s))
        if self.until_s is not None:
            frame = frame.where(f.col("ts") < _moment(self.until_s))
        return frame.where(self._complete())

    def _complete(self) -> SparkColumn:
        from pyspark.sql import functions as f

        condition = f.lit(True)
        for column in self.columns:
            if not column.optional:
                condition &= f.col(column.name).isNotNull()
        return condition


def open_rows(
    spark: SparkSession,
    source: Source,
    table: Table,
    *,
    columns: Iterable[str] | None = None,
    domains: Iterable[str] | None = None,
    since_s: float | None = None,
    until_s: float | None = None,
) -> Rows:
    """The rows of a table; `until_s` is exclusive. Wrap what is computed from them in `unharmed`."""
    return Rows(
        spark, source, table, columns=columns, domains=domains, since_s=since_s, until_s=until_s
    ).require()


def unharmed(action: Callable[[], T], *tables: Rows | None) -> T:
    """What `action` computes from the frames of `tables`, which it must take from them anew on each call.

    If a file cannot be read, or was merged away meanwhile, it is computed again without it.
    """
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return action()
        except spark_errors() as error:
            if FAILED_READ not in str(error) or attempt == ATTEMPTS:
                raise
            for rows in tables:
                if rows is not None:
                    rows.recover(error)
    raise AssertionError("the last attempt returns or raises")


def spark_errors() -> tuple[type[BaseException], ...]:
    """What an action of Spark can raise."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return (PySparkException, Py4JError)


def _moment(moment_s: float) -> SparkColumn:
    from pyspark.sql import functions as f

    return f.timestamp_micros(f.lit(round(moment_s * 1_000_000)))
