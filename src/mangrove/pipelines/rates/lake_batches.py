"""Checked files of a lake, read by the workers with Arrow, in batches like those of Spark's scan.

The scan takes every row apart and puts it together twice on its way to Python; Arrow hands out columns, and
texts as numbers into a list. Over a day of 2,000 topics that is a factor (decision 0323). Tables, addresses
that Arrow cannot open, and files that it fails to read are left to the scan; results are the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from functools import reduce
from typing import TYPE_CHECKING
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mangrove.lake.schemas import ARROW
from mangrove.model.telemetry import TOPIC_RATES, ColumnType
from mangrove.pipelines.rates.blocks import COUNTS, EPOCH, MICROSECONDS
from mangrove.pipelines.reading.days import DAY_S
from mangrove.pipelines.reading.lake_reader import READ_ERRORS, open_parquet, to_type
from mangrove.pipelines.reading.listing import placing
from mangrove.pipelines.reading.rows import FAILED_READ, Rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

UNIT = "path string, date string, domain string, part bigint, parts bigint"
BATCH_ROWS = 1 << 17
# A task is worth its start when it has so many rows to read; larger files are shared, by groups of rows.
TASK_ROWS = 1_000_000


def readable(rows: Rows) -> bool:
    """Whether the workers can open the files: they have looked at all footers."""
    return rows.listing is not None and all(file.footer.rows is not None for file in rows.files)


@dataclass(frozen=True, slots=True)
class LakeBatches:
    """How files are read. Plain values, sent to the workers along with the function."""

    lake: str
    domains: frozenset[str] | None
    since_s: float | None
    until_s: float | None
    dated: bool
    """Whether rows belong to the day of their directory; else to that of their time."""

    def frame(self, rows: Rows) -> DataFrame:
        """The files as rows, in as many partitions as their rows are worth."""
        files, units = rows.to_read(), []
        for file in files:
            parts = max(1, file.rows // TASK_ROWS)
            domain = None if file.domain is None else unquote(file.domain)
            units += [(file.path, file.date if self.dated else None, domain, n, parts) for n in range(parts)]
        tasks = max(4, sum(file.rows for file in files) // TASK_ROWS)
        return rows.spark.createDataFrame(units, UNIT).repartition(min(len(units), tasks))

    def batches(self, units: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The complete rows of files in question, with their day."""
        place = placing(self.lake, TOPIC_RATES)
        for unit in (unit for batch in units for unit in batch.to_pylist()):
            texts = ["broker", "topic"] if unit["domain"] else ["domain", "broker", "topic"]
            try:
                with open_parquet(*place(unit["path"]), read_dictionary=texts) as file:
                    bounds = [(unit["part"] + n) * file.num_row_groups // unit["parts"] for n in (0, 1)]
                    columns = ["ts", *texts, *COUNTS]
                    for batch in file.iter_batches(BATCH_ROWS, row_groups=range(*bounds), columns=columns):
                        if rows := self._rows(batch, texts, unit["domain"], unit["date"]):
                            yield rows
            except READ_ERRORS as error:
                raise OSError(f"{FAILED_READ}: {unit['path']}: {error}") from error

    def _rows(
        self, batch: pa.RecordBatch, texts: list[str], domain: str | None, day: str | None
    ) -> pa.RecordBatch | None:
        columns = {name: _encoded(batch.column(name)) for name in texts}
        columns |= {name: to_type(batch.column(name), pa.int64()) for name in COUNTS}
        columns["ts"] = to_type(batch.column("ts"), ARROW[ColumnType.TIMESTAMP])
        if domain is not None:
            zeros = np.zeros(batch.num_rows, dtype=np.int32)
            columns["domain"] = pa.DictionaryArray.from_arrays(zeros, [domain])
        table = pa.RecordBatch.from_pydict(columns)
        keep = [pc.is_valid(column) for column in table.columns if column.null_count]
        if self.since_s is not None:
            keep.append(pc.greater_equal(columns["ts"], _moment(self.since_s)))
        if self.until_s is not None:
            keep.append(pc.less(columns["ts"], _moment(self.until_s)))
        if self.domains is not None:
            wanted = pc.is_in(columns["domain"].dictionary, value_set=pa.array(sorted(self.domains)))
            keep.append(wanted.take(columns["domain"].indices))
        if keep:
            table = table.filter(reduce(pc.and_, keep))
        if not table.num_rows:
            return None
        if day is None:
            days = table.column("ts").cast(pa.int64()).to_numpy() // (DAY_S * MICROSECONDS)
        else:
            days = np.full(table.num_rows, (date.fromisoformat(day) - EPOCH).days)
        return table.append_column("day", pa.array(days.astype(np.int32)))


def _encoded(texts: pa.Array) -> pa.DictionaryArray:
    """Texts as numbers into a list of strings."""
    if not pa.types.is_dictionary(texts.type):
        texts = texts.cast(pa.string()).dictionary_encode()
    return pa.DictionaryArray.from_arrays(texts.indices, texts.dictionary.cast(pa.string()))


def _moment(moment_s: float) -> pa.Scalar:
    return pa.scalar(round(moment_s * MICROSECONDS), ARROW[ColumnType.TIMESTAMP])
