"""A directory with partial results by day and domain, so that a run reads only what is new.

How a job keeps a state:

    with open_state(directory, JOB, VERSION, source, {"window": "60 s"}) as state:
        rows = state.rows(spark, DELIVERIES, columns)      # lists; footers only of files not read before
        state.refresh(rows, partial)                       # reads only days × domains whose files changed
        state.publish()                                    # from here on the new state is the state
        sums = state.frame(spark, DELIVERIES, SCHEMA)      # all parts, or those of a period

`partial` turns rows with a column `date` (their directory's) into partial results that keep `date` and
`domain` and are written as Parquet by Spark. Results must depend on nothing but the rows of their own day and
domain. It may be called again if a file proves damaged.

A part is made of the usable files of one `date=…/domain=…` directory. If they change in any way (new, late,
merged, replaced, gone), the part is computed anew as a whole, so late and repeated rows need no care. Files
are never overwritten: a run writes directories of its own and publishes them by replacing the manifest, in
one step. A run that is killed before leaves the old state; what it wrote is deleted by the next. A lock
excludes a second run. The directory must be one that the driver and Spark's workers see alike.
"""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

import msgspec

from mangrove.errors import InputError, MangroveError, system_words
from mangrove.model.telemetry import Table
from mangrove.pipelines.output import disk_refused
from mangrove.pipelines.reading.days import days_between
from mangrove.pipelines.reading.lake_scan import Part
from mangrove.pipelines.reading.rows import FAILED_READ, Rows, spark_errors, unharmed
from mangrove.pipelines.reading.source import Source
from mangrove.pipelines.session.failures import reason
from mangrove.pipelines.state.manifest import (
    ANEW,
    BEGUN,
    Manifest,
    TableState,
    inputs_of,
    key_of,
    read_manifest,
    write_manifest,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOCK = ".lock"


class State:
    """An open state; see the module. Made by `open_state`."""

    def __init__(self, directory: Path, source: Source, manifest: Manifest) -> None:
        self.directory, self.source = directory, source
        self.manifest = manifest
        self.refreshed: dict[str, tuple[Part, ...]] = {}

    def rows(self, spark: SparkSession, table: Table, columns: Iterable[str] | None = None) -> Rows:
        """All rows of a table of the state's lake; footers of files seen before are not read again.

        What could not be read is looked at anew: it may have been for want of a permission, or of time.
        """
        known = [file for file in self._table(table).files if not (file.footer.problem or file.damage)]
        return Rows(spark, self.source, table, columns=columns, known=known)

    def refresh(self, rows: Rows, partial: Callable[[Rows], DataFrame]) -> tuple[Part, ...]:
        """Compute the parts whose files changed, to which `rows` are restricted; returns them.

        Nothing is published yet.
        """
        name = rows.table.name
        old = self._table(rows.table)
        run = self.manifest.runs + 1
        written = self.directory / name / f".writing-{run}"
        stale: list[Part] = []

        def compute() -> None:
            stale[:] = self._stale(rows)
            rows.restrict(stale)
            if stale:
                frame = partial(rows)
                frame.write.mode("overwrite").partitionBy("date", "domain").parquet(str(written))

        unharmed(compute, rows)
        rows.report()
        inputs = {key_of(part): text for part, text in inputs_of(rows.files).items()}
        runs = {key: old.run[key] for key in inputs if key in old.run}
        for part in stale:
            made = written / f"date={part.date}" / f"domain={part.domain}"
            runs[key_of(part)] = run if made.is_dir() else 0
            if made.is_dir():
                place = self._place(name, part, run)
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.rmtree(place, ignore_errors=True)
                made.replace(place)
        shutil.rmtree(written, ignore_errors=True)
        found = () if rows.listing is None else rows.listing.found
        tables = self.manifest.tables | {name: TableState(files=found, inputs=inputs, run=runs)}
        self.manifest = msgspec.structs.replace(self.manifest, tables=tables)
        self.refreshed[name] = tuple(sorted(stale))
        return self.refreshed[name]

    def publish(self) -> None:
        """Make what was refreshed the state, then delete what it does not need."""
        if any(self.refreshed.values()):
            self.manifest = msgspec.structs.replace(self.manifest, runs=self.manifest.runs + 1)
        try:
            write_manifest(self.directory, self.manifest)
        except OSError as error:
            raise _refused(self.directory, error) from error
        self.refreshed.clear()
        self.clean()

    def runs(self, table: Table) -> dict[Part, int]:
        """Which run made each part: the same number is the same content."""
        return {Part(*key.split("/", 1)): run for key, run in self._table(table).run.items()}

    def places(
        self,
        table: Table,
        domains: Iterable[str] | None = None,
        since_s: float | None = None,
        until_s: float | None = None,
    ) -> dict[Part, Path]:
        """The directories, each of one run, of all parts that have any result; or of those in question."""
        wanted, days = None if domains is None else frozenset(domains), days_between(since_s, until_s)
        return {
            part: self._place(table.name, part, run)
            for part, run in sorted(self.runs(table).items())
            if run and (wanted is None or part.domain in wanted) and part.date in days
        }

    def frame(
        self,
        spark: SparkSession,
        table: Table,
        schema: str,
        domains: Iterable[str] | None = None,
        since_s: float | None = None,
        until_s: float | None = None,
    ) -> DataFrame:
        """Partial results of all parts, or of those that a period and domains touch.

        `schema` is theirs, with `date string` and `domain string`.
        """
        places = [str(place) for place in self.places(table, domains, since_s, until_s).values()]
        if not places:
            return spark.createDataFrame([], schema)
        base = str(self.directory / table.name)
        return spark.read.schema(schema).option("basePath", base).parquet(*places)

    def clean(self) -> None:
        """Delete what no part needs: of runs that were killed, and parts that were computed anew."""
        for name in {path.parent.name for path in self.directory.glob("*/.writing-*")}:
            for leftover in (self.directory / name).glob(".writing-*"):
                shutil.rmtree(leftover, ignore_errors=True)
        for place in self.directory.glob("*/date=*/domain=*/run-*"):
            table = self.manifest.tables.get(place.parts[-4])
            key = f"{place.parts[-3].partition('=')[2]}/{place.parts[-2].partition('=')[2]}"
            if table is None or place.name != f"run-{table.run.get(key, 0)}":
                shutil.rmtree(place, ignore_errors=True)
                with suppress(OSError):
                    place.parent.rmdir()

    def _table(self, table: Table) -> TableState:
        return self.manifest.tables.get(table.name, TableState())

    def _stale(self, rows: Rows) -> list[Part]:
        """Parts that were made of other files, or that somebody has taken away."""
        old, places = self._table(rows.table), self.places(rows.table)
        gone = {part for part, place in places.items() if not any(place.glob("*.parquet"))}
        inputs = inputs_of(rows.files).items()
        return sorted(part for part, text in inputs if part in gone or old.inputs.get(key_of(part)) != text)

    def _place(self, table: str, part: Part, run: int) -> Path:
        return self.directory / table / f"date={part.date}" / f"domain={part.domain}" / f"run-{run}"


def opened_state(
    state: Path | State | None,
    job: str,
    version: int,
    source: Source,
    settings: Mapping[str, str] | None = None,
) -> AbstractContextManager[State | None]:
    """For a job that may have a state: none, one that is open already, or that of a directory."""
    if state is None or isinstance(state, State):
        return nullcontext(state)
    return open_state(state, job, version, source, settings)


@contextmanager
def open_state(
    directory: Path, job: str, version: int, source: Source, settings: Mapping[str, str] | None = None
) -> Iterator[State]:
    """The state of a job on a lake, made if there is none; partial results depend on `settings`."""
    if source.lake is None or source.tables:
        raise InputError(
            "--state needs a lake: a table of the catalog does not tell what is new",
            hint="give --input alone, or leave --state out",
        )
    wanted = Manifest(job=job, version=version, lake=source.lake, settings=dict(settings or {}))
    directory = directory.resolve()
    with ExitStack() as stack:
        try:
            if directory.exists() and not directory.is_dir():
                raise InputError(f"--state: {directory} is a file", hint="give a directory")
            read_manifest(directory, wanted)
            directory.mkdir(parents=True, exist_ok=True)
            _lock(stack.enter_context((directory / LOCK).open("w")), directory)
            # Once more: another run may have published while this one had no lock.
            state = State(directory, source, read_manifest(directory, wanted))
            (directory / BEGUN).touch()
            state.clean()
        except OSError as error:
            raise InputError(
                f"--state: {directory} cannot be used: {system_words(error)}",
                hint="give a directory that this user may write; nothing was changed",
            ) from error
        try:
            yield state
        except spark_errors() as error:
            if FAILED_READ in str(error) and str(directory) in str(error):
                raise InputError(f"--state: {directory} is damaged: {reason(error)}", hint=ANEW) from error
            raise
        except OSError as error:
            if not disk_refused(error, directory):
                raise
            raise _refused(directory, error) from error


def _lock(file: IO[str], directory: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise InputError(
            f"--state: another run uses {directory}", hint="wait for it to end; nothing was changed"
        ) from None


def _refused(directory: Path, error: OSError) -> MangroveError:
    return MangroveError(
        f"--state: {directory} cannot be written: {system_words(error)}",
        hint="what was published before is as it was; see that there is room and that this user may write"
        " there, and run the same command again",
    )
