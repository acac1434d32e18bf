"""Facts of the parts of a cube, kept in a state: a run asks Spark only for those of parts that are new.

They are kept under a name that tells all they depend on: the part, and the run that made it. A name that is
there is right, nothing is ever overwritten, and what no part needs is deleted.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from mangrove.pipelines.rates.facts import Facts, facts_of_rows, rows_of_facts
from mangrove.pipelines.reading.lake_scan import Part

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

VERSION = 1


@dataclass(frozen=True, slots=True)
class KeptFacts:
    """The kept facts of one state. `runs` tells which run made a part of the cube; 0: it has no rows."""

    directory: Path
    runs: Mapping[Part, int]

    def of(self, cube: DataFrame, domains: frozenset[str] | None = None) -> Facts:
        """The facts of a cube that has all rows of its parts, or all of those of some domains."""
        self.directory.mkdir(exist_ok=True)
        names = {part: _name(part, run) for part, run in self.runs.items() if run}
        wanted = [part for part in sorted(names) if domains is None or part.domain in domains]
        found = {part: _read(self.directory / names[part]) for part in wanted}
        missing = [part for part, table in found.items() if table is None]
        if missing:
            dates = sorted({part.date for part in missing})
            computed = rows_of_facts(cube.where(cube["date"].isin(*dates)))
            for part in missing:
                own = (pc.field("date") == part.date) & (pc.field("domain") == unquote(part.domain))
                rows = computed.filter(own).combine_chunks()
                found[part] = rows
                _write(self.directory / names[part], rows)
        for path in set(self.directory.iterdir()) - {self.directory / name for name in names.values()}:
            with suppress(OSError):
                path.unlink()
        tables = [table for table in found.values() if table is not None]
        return facts_of_rows(pa.concat_tables(tables)) if tables else Facts()


def _name(part: Part, run: int) -> str:
    text = json.dumps([VERSION, *part, run])
    return f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.arrow"


def _read(path: Path) -> pa.Table | None:
    """Kept rows, if they are there and whole."""
    try:
        with path.open("rb") as file, pa.ipc.open_file(file) as reader:
            return reader.read_all()
    except (OSError, pa.ArrowException):
        return None


def _write(path: Path, rows: pa.Table) -> None:
    """Whole or not at all."""
    writing = path.with_name(f".{path.name}")
    with writing.open("wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
        writer.write_table(rows)
    writing.replace(path)
