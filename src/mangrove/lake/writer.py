"""Writes the lake: small files at once, merged into larger ones later, each appearing whole or not at all.

Every few seconds what was recorded becomes a new file: written under a hidden name, flushed to the disk,
then renamed. So a crash loses the last few seconds and can leave a hidden file behind, which nobody reads.
Small files are slow to read, so every few minutes they are merged. The merged file lists the files that it
replaces, is renamed into place first, and they are deleted second; if the writer dies in between, a reader
sees from the list which ones to ignore, and the next writer deletes them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from mangrove.lake.schemas import arrow_schema
from mangrove.model.telemetry import REPLACES_KEY, TABLES, Table

PARTS_BEFORE_MERGE = 60
PART_PREFIX = "part-"
MERGED_PREFIX = "merged-"

Row = Mapping[str, object]


class LakeWriter:
    """Collects rows and writes them. `flush` blocks on the disk: call it from a thread."""

    def __init__(self, directory: Path, *, parts_before_merge: int = PARTS_BEFORE_MERGE) -> None:
        self.directory = directory
        self._parts_before_merge = parts_before_merge
        self._rows: dict[str, list[Row]] = {}
        self._sequence = 0
        self._parts: dict[Path, list[Path]] = {}
        for table in TABLES:
            for folder in sorted((directory / table).glob("date=*/domain=*")):
                self._adopt(folder)

    def add(self, table: Table, rows: Sequence[Row]) -> None:
        """Keep rows for the next flush. `ts` is a datetime in UTC."""
        self._rows.setdefault(table.name, []).extend(rows)

    def flush(self) -> list[Path]:
        """Write all kept rows; returns the new files. What cannot be written is kept for the next time."""
        pending, self._rows = self._rows, {}
        written = []
        try:
            for name in list(pending):
                for folder, rows in self._sorted_out(name, pending[name]).items():
                    written.append(self._write_part(TABLES[name], folder, rows))
                del pending[name]
        except BaseException:
            for name, rows in pending.items():
                self._rows[name] = rows + self._rows.get(name, [])
            raise
        for folder, parts in self._parts.items():
            if len(parts) >= self._parts_before_merge:
                self._merge(folder)
        return written

    def close(self) -> None:
        """Write what is left, and leave few files behind."""
        self.flush()
        for folder, parts in self._parts.items():
            if len(parts) > 1:
                self._merge(folder)

    def _sorted_out(self, name: str, rows: list[Row]) -> dict[Path, list[Row]]:
        folders: dict[Path, list[Row]] = {}
        for row in rows:
            when = row["ts"]
            assert isinstance(when, datetime)
            date = when.astimezone(UTC).date().isoformat()
            folder = self.directory / name / f"date={date}" / f"domain={row['domain']}"
            folders.setdefault(folder, []).append(row)
        return folders

    def _write_part(self, table: Table, folder: Path, rows: list[Row]) -> Path:
        schema = arrow_schema(table)
        columns = {column.name: [row[column.name] for row in rows] for column in table.columns}
        self._sequence += 1
        path = folder / f"{PART_PREFIX}{time.time_ns()}-{os.getpid()}-{self._sequence}.parquet"
        write_whole(pa.table(columns, schema=schema), path)
        self._parts.setdefault(folder, []).append(path)
        return path

    def _merge(self, folder: Path) -> None:
        parts = [path for path in self._parts[folder] if path.exists()]
        self._parts[folder] = []
        if not parts:
            return
        merged = pa.concat_tables([pq.read_table(path, partitioning=None) for path in parts])
        metadata = {**(merged.schema.metadata or {}), REPLACES_KEY.encode(): names(parts)}
        first = parts[0].name.removeprefix(PART_PREFIX)
        write_whole(merged.replace_schema_metadata(metadata), folder / f"{MERGED_PREFIX}{first}")
        for path in parts:
            path.unlink()

    def _adopt(self, folder: Path) -> None:
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
        parts = [path for path in sorted(folder.glob(f"{PART_PREFIX}*.parquet")) if _readable(path)]
        if parts:
            self._parts[folder] = parts


def write_whole(table: pa.Table, path: Path) -> None:
    """Write a Parquet file that appears under its name only when it is complete and on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.with_name(f".{path.name}.tmp")
    try:
        pq.write_table(table, hidden, compression="zstd")
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


def names(paths: Sequence[Path]) -> bytes:
    """Names of files for the metadata of the one that replaces them."""
    return "\n".join(path.name for path in paths).encode()


def _readable(path: Path) -> bool:
    try:
        pq.read_metadata(path)
    except (OSError, pa.ArrowException):
        return False
    return True
