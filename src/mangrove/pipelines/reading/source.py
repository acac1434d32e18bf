"""Where the rows of a job come from: a lake, or tables that the session's catalog knows.

`rows.open_rows(spark, source, table, …)` gives the rows; `rows.unharmed(action, rows)` computes from them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from mangrove.errors import InputError
from mangrove.model.telemetry import TABLES, Table


@dataclass(frozen=True, slots=True)
class Source:
    """A lake (a directory, or any URL that Spark knows), or names of tables by name of the lake's table.

    A table that `tables` names is read from the catalog, every other one from the lake.
    """

    lake: str | None = None
    tables: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return ", ".join([*([self.lake] if self.lake else []), *sorted(self.tables.values())])

    def place(self, table: Table) -> str:
        """Where this table is, for messages."""
        return self.tables.get(table.name) or f"{self.lake}/{table.name}"

    def has(self, table: Table) -> bool:
        """Whether there is a place to look for the table."""
        return table.name in self.tables or self.lake is not None


def lake(path: str) -> Source:
    """All tables from one lake; a local path is made absolute, because Spark's processes run elsewhere."""
    text = path.rstrip("/") or "/"
    return Source(text if urlsplit(text).scheme and "://" in text else str(Path(text).resolve()))


def as_source(source: Source | str) -> Source:
    """A source, from its text a lake."""
    return lake(source) if isinstance(source, str) else source


def parse_source(input_: str | None, tables: Sequence[str], wanted: Sequence[Table]) -> Source:
    """`--input LAKE` and `--table [NAME=]CATALOG.DB.TABLE` (repeated) for a job that reads `wanted`.

    The first of `wanted` is what a bare name stands for.
    """
    known = [table.name for table in wanted]
    named: dict[str, str] = {}
    for text in tables:
        name, equals, place = text.partition("=")
        if not equals:
            name, place = known[0], text
        if name not in known:
            raise InputError(
                f"--table: {text!r}: this job reads no {name}",
                hint=f"NAME=TABLE with one of: {', '.join(known)}"
                + ("" if name in TABLES else "; a name without `=` stands for the first of them"),
            )
        if not place or name in named:
            what = "names no table" if not place else f"is the second table for {name}"
            raise InputError(f"--table: {text!r} {what}", hint="--table topic_rates=catalog.db.rates")
        named[name] = place
    if input_ is None and not named:
        raise InputError(
            "no input", hint="--input LAKE, or --table catalog.db.table for a table of the catalog"
        )
    return Source(None if input_ is None else lake(input_).lake, named)
