"""The streaming form of `slo`: finished hours are appended as files arrive, each exactly once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from mangrove.errors import InputError
from mangrove.model.telemetry import DELIVERIES
from mangrove.pipelines.jobs.slo import JOB, by_window
from mangrove.pipelines.jobs.slo_job import check_target
from mangrove.pipelines.output import MARKER, check_output, unusable, write_json
from mangrove.pipelines.reading.listing import list_files
from mangrove.pipelines.reading.schemas import spark_schema
from mangrove.pipelines.reading.source import lake
from mangrove.pipelines.state.following import await_query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STREAM = f"{JOB}-stream"
VERSION = 1
SETTINGS = "_stream.json"
CHECKPOINT = "_checkpoint"


def stream(
    spark: SparkSession, path: str, output: Path, target: float, *, seconds: float | None = None
) -> dict[str, Any]:
    """Follow the lake at `path` and append finished hours to `OUTPUT/windows`.

    Where it got to is kept in `OUTPUT/_checkpoint`: a run that is stopped and started again goes on there and
    writes no hour twice. Without `seconds` it takes what is there and ends; else it runs for so long.
    """
    check_target(target)
    check_output(output, STREAM, in_place=True)
    root = lake(path).lake
    assert root is not None
    settings = {"lake": root, "target": target, "version": VERSION}
    _check_settings(output, settings)
    listing = list_files(spark, root, DELIVERIES).require()
    try:
        output.mkdir(parents=True, exist_ok=True)
        (output / MARKER).write_text(f"{STREAM}\n")
        write_json(output / SETTINGS, settings)
    except OSError as error:
        raise unusable(output, error) from error
    source = (
        spark.readStream.schema(spark_schema(DELIVERIES))
        # A damaged file must not end the stream; the batch job names it.
        .option("ignoreCorruptFiles", "true")
        .option("recursiveFileLookup", "true")
        .parquet(f"{root}/{DELIVERIES.name}")
    )
    writer = (
        by_window(source, target)
        .writeStream.format("parquet")
        .outputMode("append")
        .option("path", str(output / "windows"))
        .option("checkpointLocation", str(output / CHECKPOINT))
    )
    await_query(writer, output / CHECKPOINT, seconds)
    written = spark.read.parquet(str(output / "windows")) if _any(output / "windows") else None
    return {
        "target": target,
        "windows": 0 if written is None else written.count(),
        "skipped": [{"path": s.path, "reason": s.reason, "rows": s.rows} for s in listing.skipped],
    }


def _check_settings(output: Path, settings: dict[str, Any]) -> None:
    """A checkpoint goes with the lake and the target that it was made for."""
    try:
        found = msgspec.json.decode((output / SETTINGS).read_bytes(), type=dict[str, Any])
    except FileNotFoundError:
        return
    except (OSError, msgspec.MsgspecError) as error:
        raise InputError(f"--output: cannot read {output / SETTINGS}: {error}") from None
    for name, value in settings.items():
        if found.get(name) != value:
            raise InputError(
                f"--output: {output} goes on with {name} {found.get(name)}, not {value}",
                hint="give another directory: windows of two streams must not mix",
            )


def _any(directory: Path) -> bool:
    return directory.is_dir() and any(directory.glob("*.parquet"))
