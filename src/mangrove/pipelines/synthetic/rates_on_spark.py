"""Synthetic `topic_rates` written by Spark's workers: as many rows as the disk holds, in bounded memory.

Every hour of a domain has a random stream of its own, so neither the number of workers nor the order of their
tasks shows in the rows. They are not those of `rates.generate`, their parameters are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mangrove.errors import InputError
from mangrove.lake.writer import write_whole
from mangrove.pipelines.synthetic.rates import SyntheticRates, rate_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOUR_S = 3600


def generate_on(spark: SparkSession, spec: SyntheticRates, lake: Path) -> int:
    """Write the lake to a directory that all workers see; returns the rows. Faults are not written."""
    from pyspark.sql import functions as f

    if lake.exists() and any(lake.iterdir()):
        raise InputError(f"{lake} is not empty", hint="give a new directory")

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for hour in (each for batch in batches for each in batch.to_pylist()):
            offset_s = hour["offset_s"]
            part = replace(
                spec,
                start=spec.start + timedelta(seconds=offset_s),
                seconds=min(HOUR_S, spec.seconds - offset_s),
            )
            rng = np.random.default_rng([spec.seed, hour["domain"], offset_s])
            rows = 0
            for path, table in rate_tables(part, spec.domains[hour["domain"]], lake, rng):
                write_whole(table, path)
                rows += table.num_rows
            yield pa.RecordBatch.from_pydict({"rows": [rows]})

    hours = [
        (domain, offset_s)
        for domain in range(len(spec.domains))
        for offset_s in range(0, spec.seconds, HOUR_S)
    ]
    frame = spark.createDataFrame(hours, "domain bigint, offset_s bigint").repartition(len(hours))
    (written,) = frame.mapInArrow(write, "rows bigint").agg(f.sum("rows")).collect()
    return int(written[0])
