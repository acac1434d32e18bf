"""Facts of the parts of a cube, kept beside them in a state: a run asks Spark only for those of new parts.

A part's directory is of one run and its content never changes, so facts that are there are right, and they go
when it goes.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from mangrove.pipelines.rates.facts import Facts, facts_of_rows, rows_of_facts
from mangrove.pipelines.reading.lake_scan import Part

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Spark's readers pass over names that begin so.
NAME = "_facts.arrow"


def kept_facts(cube: DataFrame, places: Mapping[Part, Path]) -> Facts:
    """The facts of a cube that has all rows of its parts, whose directories these are."""
    found = {part: _read(place / NAME) for part, place in places.items()}
    if missing := [part for part, table in found.items() if table is None]:
        computed = rows_of_facts(cube.where(cube["date"].isin(*{part.date for part in missing})))
        for part in missing:
            own = (pc.field("date") == part.date) & (pc.field("domain") == unquote(part.domain))
            found[part] = computed.filter(own).combine_chunks()
            _write(places[part] / NAME, found[part])
    return facts_of_rows(pa.concat_tables(found.values())) if found else Facts()


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
