"""A job's output directory: it appears whole or not at all, and running again replaces it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from mangrove.errors import InputError

MARKER = "_mangrove_job"


@contextmanager
def output_directory(path: Path, job: str) -> Iterator[Path]:
    """A temporary directory that becomes `path` at the end; on an error nothing is left and nothing replaced.

    Only a directory that a job of the same name wrote, or an empty one, is replaced.
    """
    check_output(path, job)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    temporary.chmod(0o755)
    try:
        yield temporary
        (temporary / MARKER).write_text(f"{job}\n")
        old = None
        if path.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{path.name}-old-", dir=path.parent))
            path.replace(old / "replaced")
        temporary.replace(path)
        if old is not None:
            shutil.rmtree(old)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def check_output(path: Path, job: str) -> None:
    """Refuse to replace what this job did not write."""
    if not path.exists():
        return
    if not path.is_dir():
        raise InputError(f"--output: {path} is a file", hint="give a directory")
    marker = path / MARKER
    if any(path.iterdir()) and not (marker.is_file() and marker.read_text().strip() == job):
        raise InputError(
            f"--output: {path} holds files that `mangrove pipeline {job}` did not write",
            hint="give a new directory, or empty this one",
        )


def write_json(path: Path, document: object) -> None:
    """A JSON document, indented unless it is large."""
    data = msgspec.json.encode(document, order="sorted")
    if len(data) < 1 << 20:
        data = msgspec.json.format(data, indent=2)
    path.write_bytes(data + b"\n")


def write_parquet(path: Path, table: pa.Table) -> None:
    """A small table."""
    pq.write_table(table, path, compression="zstd")
