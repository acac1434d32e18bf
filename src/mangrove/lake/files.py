"""Which files of a lake can be used, and why the others cannot.

Only footers are read, in the driver. Files are told apart from their copies by footer first and by content
where footers agree. Paths are local or any that Arrow can open (`s3://`, `gs://`, `hdfs://`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from mangrove.errors import InputError
from mangrove.lake.schemas import readable_as
from mangrove.model.telemetry import REPLACES_KEY, SCHEMA_VERSION, TABLES, VERSION_KEY, Table

READERS = 16
MAX_SHOWN = 20


@dataclass(frozen=True, slots=True)
class LakeFile:
    """A usable file."""

    path: str
    domain: str | None
    rows: int


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
    """The files of one table."""

    root: str
    table: Table
    files: list[LakeFile] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)

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
    listing = Listing(root, table)
    directory = f"{base.rstrip('/')}/{table.name}"
    info = filesystem.get_file_info(directory)
    if info.type != pafs.FileType.Directory:
        if filesystem.get_file_info(base).type != pafs.FileType.Directory:
            raise InputError(
                f"the lake {root} does not exist", hint="give the directory that holds the tables"
            )
        found = sorted(i.base_name for i in filesystem.get_file_info(pafs.FileSelector(base)))
        known = [name for name in found if name in TABLES]
        raise InputError(
            f"the lake {root} has no table {table.name}",
            hint=f"tables found: {', '.join(known) or 'none'}; expected {root}/{table.name}/date=…/domain=…/",
        )
    paths = sorted(_data_files(filesystem, directory))
    if domains is not None:
        paths = [path for path in paths if _partition(path, "domain") in {*domains, None}]
    with ThreadPoolExecutor(READERS) as pool:
        checked = list(pool.map(lambda path: _check(filesystem, path, table), paths))
    replaced = {gone for each in checked if isinstance(each, _Checked) for gone in each.replaces}
    same: dict[object, list[_Checked]] = {}
    for each in checked:
        if isinstance(each, Skipped):
            listing.skipped.append(each)
        elif each.file.path in replaced:
            listing.skipped.append(Skipped(each.file.path, "its rows are in a merged file", each.file.rows))
        else:
            same.setdefault(each.fingerprint, []).append(each)
    for group in same.values():
        listing.files += _without_copies(filesystem, group, listing.skipped)
    listing.files.sort(key=lambda file: file.path)
    return listing


def _data_files(filesystem: pafs.FileSystem, directory: str) -> Iterator[str]:
    for info in filesystem.get_file_info(pafs.FileSelector(directory, recursive=True)):
        inner = info.path[len(directory) :].strip("/").split("/")
        hidden = any(part.startswith((".", "_")) for part in inner)
        if info.type == pafs.FileType.File and not hidden and info.path.endswith(".parquet"):
            yield info.path


@dataclass(frozen=True, slots=True)
class _Checked:
    file: LakeFile
    fingerprint: object
    replaces: frozenset[str]


def _check(filesystem: pafs.FileSystem, path: str, table: Table) -> _Checked | Skipped:
    try:
        with filesystem.open_input_file(path) as source:
            footer = pq.ParquetFile(source)
            metadata, schema = footer.metadata, footer.schema_arrow
    except (pa.ArrowException, OSError) as error:
        return Skipped(path, f"not a readable Parquet file ({_first_line(error)})")
    keys = metadata.metadata or {}
    version = keys.get(VERSION_KEY.encode(), str(SCHEMA_VERSION).encode()).decode(errors="replace")
    if version != str(SCHEMA_VERSION):
        reason = f"schema version {version}; this release reads {SCHEMA_VERSION}"
        return Skipped(path, reason, metadata.num_rows)
    domain = _partition(path, "domain")
    if problem := _schema_problem(schema, table, has_domain=domain is not None):
        return Skipped(path, problem, metadata.num_rows)
    replaces = keys.get(REPLACES_KEY.encode(), b"").decode()
    folder = path.rpartition("/")[0]
    return _Checked(
        LakeFile(path, domain, metadata.num_rows),
        (domain, metadata.num_rows, metadata.serialized_size, _group_sizes(metadata)),
        frozenset(f"{folder}/{name}" for name in replaces.split("\n") if name),
    )


def _schema_problem(schema: pa.Schema, table: Table, *, has_domain: bool) -> str:
    problems = []
    found = set(schema.names)
    implied = {"domain"} if has_domain else set()
    wanted = {column.name for column in table.columns}
    if missing := sorted(wanted - found - implied):
        problems.append(f"missing columns: {', '.join(missing)}")
    if extra := sorted(found - wanted - {"date"}):
        problems.append(f"unknown columns: {', '.join(extra)}")
    for column in table.columns:
        if column.name in found:
            kind = schema.field(column.name).type
            if not readable_as(kind, column.type):
                problems.append(f"column {column.name} is {kind}, not {column.type.value}")
    return "; ".join(problems)


def _without_copies(
    filesystem: pafs.FileSystem, group: list[_Checked], skipped: list[Skipped]
) -> Iterator[LakeFile]:
    if len(group) == 1:
        yield group[0].file
        return
    first_with: dict[bytes, str] = {}
    for each in group:
        with filesystem.open_input_stream(each.file.path) as stream:
            sha = hashlib.sha256()
            while part := stream.read(1 << 20):
                sha.update(part)
        original = first_with.setdefault(sha.digest(), each.file.path)
        if original == each.file.path:
            yield each.file
        else:
            skipped.append(Skipped(each.file.path, f"a copy of {original}", each.file.rows))


def _group_sizes(metadata: pq.FileMetaData) -> tuple[int, ...]:
    return tuple(metadata.row_group(index).total_byte_size for index in range(metadata.num_row_groups))


def _partition(path: str, name: str) -> str | None:
    match = re.search(rf"/{name}=([^/]+)/", path)
    return match[1] if match else None


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
