"""A job that never ends by itself, in a process of its own: `python -m tests.kit.spark_job OUTPUT [OPTIONS]`.

`OUTPUT.running` appears when its Spark tasks run. Tests look at what becomes of it when it is interrupted,
out of time, or left by its cluster.
"""

from __future__ import annotations

import argparse
import dataclasses
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from mangrove.errors import EXIT_INTERRUPTED, MangroveError
from mangrove.pipelines.output import output_directory
from mangrove.pipelines.session.settings import SparkSettings
from mangrove.pipelines.spark_session import opened

START_S = 120.0


def await_a_machine(spark: SparkSession) -> None:
    """Wait until an executor is there: the job has little patience, and executors start slowly."""
    deadline = time.monotonic() + START_S
    while spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() < 2:
        if time.monotonic() > deadline:
            raise MangroveError(f"no executor in {START_S:g} s")
        time.sleep(0.1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("output", type=Path)
    parser.add_argument("--master", default=None)
    parser.add_argument("--remote", default=None)
    parser.add_argument("--time-limit", type=float, default=None)
    parser.add_argument("--patience", type=float, default=3.0)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    settings = SparkSettings.checked(given.master, given.remote, "1g", time_limit_s=given.time_limit)
    mark = f"{given.output}.running"

    def busy(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            Path(mark).touch()
            time.sleep(1000)
            yield batch

    try:
        with opened(dataclasses.replace(settings, patience_s=given.patience)) as spark:
            if (given.master or "").startswith("spark:"):
                await_a_machine(spark)
            frame = spark.range(0, 8, numPartitions=2).mapInArrow(busy, "id bigint")
            with output_directory(given.output, "endless") as directory:
                (directory / "half").write_text("half\n")
                frame.collect()
    except MangroveError as error:
        sys.stderr.write(f"error: {error.message}\nhint: {error.hint}\n")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)


if __name__ == "__main__":
    main()
