"""Writes the lake: small files at once, merged into larger ones later, each appearing whole or not at all.

Every few seconds what was recorded becomes a new file: written under a hidden name, flushed to the disk,
then renamed. So a crash loses the last few seconds and can leave a hidden file behind, which nobody reads.
Small files are slow to read, so every few minutes they are merged. The merged file lists the files that it
replaces, is renamed into place first, and they are deleted second; if the writer dies in between, a reader
sees from the list which ones to ignore, and the next writer deletes them.

Pages carry checksums, so that damage shows when they are read. A file that is damaged is not merged: it stays
where it is, and readers report it.

What is kept in memory is bounded: rows beyond the bound, as when the disk refuses for long, are refused and
counted. A merge holds a part of the rows at a time.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from mangrove.lake.schemas import arrow_schema
from mangrove.model.telemetry import REPLACES_KEY, TABLES, Table

PARTS_BEFORE_MERGE = 60
MAX_KEPT_ROWS = 100_000
MERGED_GROUP_ROWS = 20_000
PART_PREFIX = "part-"
MERGED_PREFIX = "merged-"

Row = Mapping[str, object]

log = logging.getLogger(__name__)


class LakeWriter:
    """Collects rows and writes them. `flush` and `close` block on the disk: call them from a thread.

    Rows may be added at any moment, also while a flush runs: they are either in it or kept for the next one.
    """

    def __init__(
        self,
        directory: Path,
        *,
        parts_before_merge: int = PARTS_BEFORE_MERGE,
        max_kept_rows: int = MAX_KEPT_ROWS,
    ) -> None:
        self.directory = directory
        self._parts_before_merge = parts_before_merge
        self._max_kept_rows = max_kept_rows
        self._refused = 0
        self._kept: dict[str, list[Row]] = {}
        self._kept_rows = 0
        # Guards what is kept, for moments; the other is held for as long as somebody writes.
        self._keeping = threading.Lock()
        self._writing = threading.Lock()
        self._sequence = 0
        self._parts: dict[Path, list[Path]] = {}
        for table in TABLES:
            for folder in sorted((directory / table).glob("date=*/domain=*")):
                self._adopt(folder, arrow_schema(TABLES[table]))

    def add(self, table: Table, rows: Sequence[Row]) -> None:
        """Keep rows for the next flush. `ts` is a datetime in UTC."""
        more = list(rows)
        with self._keeping:
            taken = more[: max(0, self._max_kept_rows - self._kept_rows)]
            self._refused += len(more) - len(taken)
            self._kept_rows += len(taken)
            self._kept.setdefault(table.name, []).extend(taken)

    def take_refused(self) -> int:
        """How many rows were refused since the last call because too many were kept already."""
        with self._keeping:
            refused, self._refused = self._refused, 0
            return refused

    def flush(self) -> list[Path]:
        """Write all kept rows; returns the new files. What cannot be written is kept for the next time."""
        with self._writing:
            written = self._write_kept()
            for folder, parts in list(self._parts.items()):
                if len(parts) >= self._parts_before_merge:
                    self._merge(folder)
            return written

    def close(self, merge_until: float | None = None) -> None:
        """Write what is left, and leave few files behind, as far as that is done by `merge_until`.

        That is a moment of the monotonic clock; what is not merged then, the next writer takes over.
        """
        with self._writing:
            self._write_kept()
            for folder, parts in list(self._parts.items()):
                if merge_until is not None and time.monotonic() > merge_until:
                    break
                if len(parts) > 1:
                    self._merge(folder)

    def _write_kept(self) -> list[Path]:
        with self._keeping:
            kept, self._kept = self._kept, {}
        pending = self._sorted_out(kept)
        written = []
        try:
            while pending:
                (name, folder), rows = next(iter(pending.items()))
                written.append(self._write_part(TABLES[name], folder, rows))
                del pending[name, folder]
                with self._keeping:
                    self._kept_rows -= len(rows)
        except BaseException:
            with self._keeping:
                for (name, _), rows in pending.items():
                    self._kept[name] = rows + self._kept.get(name, [])
            raise
        return written

    def _sorted_out(self, kept: Mapping[str, list[Row]]) -> dict[tuple[str, Path], list[Row]]:
        sorted_out: dict[tuple[str, Path], list[Row]] = {}
        for name, rows in kept.items():
            of_second: dict[tuple[object, object], list[Row]] = {}
            for row in rows:
                of_second.setdefault((row["ts"], row["domain"]), []).append(row)
            for (when, domain), its_rows in of_second.items():
                assert isinstance(when, datetime)
                date = when.astimezone(UTC).date().isoformat()
                folder = self.directory / name / f"date={date}" / f"domain={domain}"
                sorted_out.setdefault((name, folder), []).extend(its_rows)
        return sorted_out

    def _write_part(self, table: Table, folder: Path, rows: list[Row]) -> Path:
        schema = arrow_schema(table)
        columns = {column.name: [row[column.name] for row in rows] for column in table.columns}
        self._sequence += 1
        path = folder / f"{PART_PREFIX}{time.time_ns()}-{os.getpid()}-{self._sequence}.parquet"
        write_whole(pa.table(columns, schema=schema), path)
        self._parts.setdefault(folder, []).append(path)
        return path

    def _merge(self, folder: Path) -> None:
        parts = [path for path in self._parts.pop(folder) if path.exists()]
        if not parts:
            return
        first = parts[0].name.removeprefix(PART_PREFIX)
        try:
            with appearing_whole(folder / f"{MERGED_PREFIX}{first}") as hidden:
                merged = _concatenate(parts, hidden)
        except pa.ArrowException as error:
            raise OSError(f"the files in {folder} cannot be merged: {error}") from error
        for path in merged:
            path.unlink()

    def _adopt(self, folder: Path, schema: pa.Schema) -> None:
        """Finish what a writer that died had begun, and take over its small files."""
        for leftover in folder.glob(".*.tmp"):
            leftover.unlink()
        for merged in folder.glob(f"{MERGED_PREFIX}*.parquet"):
            try:
                metadata = pq.read_metadata(merged).metadata or {}
            except (OSError, pa.ArrowException):
                continue  # damaged: readers report it
            for name in metadata.get(REPLACES_KEY.encode(), b"").decode().split("\n"):
                if name:
                    (folder / name).unlink(missing_ok=True)
        parts = [path for path in sorted(folder.glob(f"{PART_PREFIX}*.parquet")) if _has_schema(path, schema)]
        if parts:
            self._parts[folder] = parts


def write_whole(table: pa.Table, path: Path) -> None:
    """Write a Parquet file that appears under its name only when it is complete and on the disk."""
    with appearing_whole(path) as hidden:
        pq.write_table(table, hidden, compression="zstd", write_page_checksum=True)


@contextmanager
def appearing_whole(path: Path) -> Iterator[Path]:
    """A hidden path to write to, which becomes `path` when all is written and on the disk.

    If nothing was written to it, nothing appears.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.with_name(f".{path.name}.tmp")
    try:
        yield hidden
        if not hidden.exists():
            return
        with hidden.open("rb") as written:
            os.fsync(written.fileno())
        hidden.replace(path)
    finally:
        hidden.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _concatenate(parts: Sequence[Path], target: Path) -> list[Path]:
    """One file from several, a group of rows in memory at a time; returns those that are in it.

    What cannot be read is not, and without any that can, nothing is written.
    """
    merged: list[Path] = []
    with ExitStack() as stack:
        writer: pq.ParquetWriter | None = None
        group: list[pa.Table] = []
        for path in parts:
            if (table := _sound(path)) is not None:
                if writer is None:
                    how = {"compression": "zstd", "write_page_checksum": True}
                    writer = stack.enter_context(pq.ParquetWriter(target, table.schema, **how))
                group.append(table)
                merged.append(path)
            if group and (sum(each.num_rows for each in group) >= MERGED_GROUP_ROWS or path == parts[-1]):
                assert writer is not None
                writer.write_table(pa.concat_tables(group))
                group.clear()
        if writer is not None:
            writer.add_key_value_metadata({REPLACES_KEY: names(merged)})
    return merged


def _sound(path: Path) -> pa.Table | None:
    """The rows of a file, if each of its pages is as it was written."""
    try:
        return pq.read_table(path, partitioning=None, page_checksum_verification=True)
    except (OSError, pa.ArrowException) as error:
        log.warning("%s stays as it is: %s", path, error)
        return None


def names(paths: Sequence[Path]) -> bytes:
    """Names of files for the metadata of the one that replaces them."""
    return "\n".join(path.name for path in paths).encode()


def _has_schema(path: Path, schema: pa.Schema) -> bool:
    try:
        return bool(pq.read_schema(path).equals(schema))
    except (OSError, pa.ArrowException):
        return False
