"""Which files of a lake can be used, and why the others cannot.

Only footers are read. Files are told apart from their copies by footer first and by content where footers
agree. Paths are local or any that Arrow can open (`s3://`, `gs://`, `hdfs://`). The jobs list their files
through Spark (`pipelines/reading/listing.py`) and sort them out by the same rules.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs

from mangrove.errors import InputError
from mangrove.lake.footers import Footer, read_footer
from mangrove.model.telemetry import TABLES, Table

READERS = 16
MAX_SHOWN = 20


class MissingTableError(InputError):
    """The lake is there, but not this table."""


@dataclass(frozen=True, slots=True)
class LakeFile:
    """A file of a table, and what is known of it.

    Size, time and `uri` (its name in Spark's plans) are known when Spark listed it; `damage` when reading
    failed; `incomplete`, the rows that lack a value, when they were counted.
    """

    path: str
    domain: str | None
    rows: int
    footer: Footer
    uri: str = ""
    size_bytes: int = 0
    modified_ms: int = 0
    damage: str = ""
    incomplete: int | None = None

    @property
    def date(self) -> str | None:
        """The day that its directory names."""
        return partition_value(self.path, "date")


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something that was left out: a whole file, or `rows` rows of it."""

    path: str
    reason: str
    rows: int | None = None

    def __str__(self) -> str:
        count = "" if self.rows is None else f"{self.rows} rows: "
        return f"{self.path}: {count}{self.reason}"


@dataclass(slots=True)
class Listing:
    """The files of one table: those to read, what was left out, and all that were found."""

    root: str
    table: Table
    files: list[LakeFile] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    found: tuple[LakeFile, ...] = ()

    @property
    def rows(self) -> int:
        """Rows in all usable files."""
        return sum(file.rows for file in self.files)

    def require(self) -> Listing:
        """Itself, or the reason why there is nothing to work on."""
        if self.files and self.rows:
            return self
        if self.skipped:
            raise InputError(
                f"no usable file of {self.table.name} in {self.root}: {len(self.skipped)} skipped\n"
                + shown(self.skipped),
                hint="the tables and their columns are described in docs/reference/telemetry-lake.md",
            )
        what = "holds no rows" if self.files else "has no Parquet files"
        raise InputError(
            f"{self.root}/{self.table.name} {what} ({len(self.files)} files)",
            hint="`mangrove up` records a lake; `mangrove pipeline synthetic` makes one for trial",
        )


def shown(skipped: Iterable[Skipped]) -> str:
    """What was skipped, one on each line, the rest counted."""
    lines = [f"  {each}" for each in skipped]
    if len(lines) > MAX_SHOWN:
        lines[MAX_SHOWN:] = [f"  … and {len(lines) - MAX_SHOWN} more"]
    return "\n".join(lines)


def open_filesystem(root: str) -> tuple[pafs.FileSystem, str]:
    """The file system of a lake and the path in it."""
    if "://" not in root:
        return pafs.LocalFileSystem(), str(Path(root).resolve())
    try:
        filesystem, path = pafs.FileSystem.from_uri(re.sub(r"^s3[an]://", "s3://", root))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(
            f"cannot open {root}: {error}", hint="a directory, or s3://, gs://, hdfs://"
        ) from None
    return filesystem, path


def list_table(root: str, table: Table, *, domains: frozenset[str] | None = None) -> Listing:
    """Check all files of a table; with `domains`, only theirs."""
    filesystem, base = open_filesystem(root)
    directory = f"{base.rstrip('/')}/{table.name}"
    if filesystem.get_file_info(directory).type != pafs.FileType.Directory:
        raise missing_table(filesystem, base, root, table)
    paths = sorted(_data_files(filesystem, directory))
    if domains is not None:
        paths = [path for path in paths if partition_value(path, "domain") in {*domains, None}]

    def look(path: str) -> LakeFile:
        domain = partition_value(path, "domain")
        footer = read_footer(filesystem, path, table, has_domain=domain is not None)
        return LakeFile(path, domain, footer.rows or 0, footer)

    with ThreadPoolExecutor(READERS) as pool:
        found = list(pool.map(look, paths))
    return sorted_out(root, table, found, lambda same: {path: digest(filesystem, path) for path in same})


def missing_table(filesystem: pafs.FileSystem, base: str, root: str, table: Table) -> InputError:
    """What is wrong with a lake in which a table was not found."""
    if filesystem.get_file_info(base).type != pafs.FileType.Directory:
        return InputError(f"the lake {root} does not exist", hint="give the directory that holds the tables")
    there = sorted(info.base_name for info in filesystem.get_file_info(pafs.FileSelector(base)))
    known = [name for name in there if name in TABLES]
    return MissingTableError(
        f"the lake {root} has no table {table.name}",
        hint=f"tables found: {', '.join(known) or 'none'}; expected {root}/{table.name}/date=…/domain=…/",
    )


def sorted_out(
    root: str,
    table: Table,
    found: Iterable[LakeFile],
    digests: Callable[[Sequence[str]], Mapping[str, bytes]],
) -> Listing:
    """Leave out files that are of no use or of no day, that a merged file replaces, and copies of others.

    `digests` is asked for the contents of files whose footers agree.
    """
    listing = Listing(root, table, found=tuple(sorted(found, key=lambda file: file.path)))
    good = []
    for file in listing.found:
        if problem := file.footer.problem or file.damage or day_problem(file.path, table):
            listing.skipped.append(Skipped(file.path, problem, file.footer.rows))
        else:
            good.append(file)
    replaced = {f"{file.path.rpartition('/')[0]}/{name}" for file in good for name in file.footer.replaces}
    same: dict[object, list[LakeFile]] = {}
    for file in good:
        if file.path in replaced:
            listing.skipped.append(Skipped(file.path, "its rows are in a merged file", file.rows))
        else:
            same.setdefault((file.domain, file.footer.fingerprint), []).append(file)
    alike = [file.path for group in same.values() if len(group) > 1 for file in group]
    contents = digests(alike) if alike else {}
    first_with: dict[tuple[str | None, bytes], str] = {}
    for file in (file for group in same.values() for file in group):
        content = contents.get(file.path)
        original = file.path if content is None else first_with.setdefault((file.domain, content), file.path)
        if original == file.path:
            listing.files.append(file)
        else:
            listing.skipped.append(Skipped(file.path, f"a copy of {original}", file.rows))
    listing.files.sort(key=lambda file: file.path)
    listing.skipped.sort(key=lambda each: each.path)
    return listing


def day_problem(path: str, table: Table) -> str:
    """Why a file's directory is of no day; empty if it is: names of other forms sort in ways of their own."""
    below = f"/{path.rpartition(f'/{table.name}/')[2]}"
    name = partition_value(below, "date")
    if name is None or is_day(name):
        return ""
    return f"date={name} is no day as directories are named: date=YYYY-MM-DD"


def is_day(name: str) -> bool:
    """Whether this is a day of the calendar, written as the lake's directories are."""
    try:
        return date.fromisoformat(name).isoformat() == name
    except ValueError:
        return False


def digest(filesystem: pafs.FileSystem, path: str) -> bytes:
    """The content of a file in 32 bytes."""
    sha = hashlib.sha256()
    with filesystem.open_input_stream(path) as stream:
        while part := stream.read(1 << 20):
            sha.update(part)
    return sha.digest()


def _data_files(filesystem: pafs.FileSystem, directory: str) -> Iterator[str]:
    for info in filesystem.get_file_info(pafs.FileSelector(directory, recursive=True)):
        inner = info.path[len(directory) :].strip("/").split("/")
        hidden = any(part.startswith((".", "_")) for part in inner)
        if info.type == pafs.FileType.File and not hidden and info.path.endswith(".parquet"):
            yield info.path


def partition_value(path: str, name: str) -> str | None:
    """What the path says after `name=`."""
    match = re.search(rf"/{name}=([^/]+)/", path)
    return match[1] if match else None
