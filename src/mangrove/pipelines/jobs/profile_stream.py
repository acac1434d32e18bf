"""`profile --stream`: the state of `profile` is kept current while files arrive.

Structured Streaming's file source says that there are new files; what is read is decided by the state, which
knows the files that it was made of. So a batch that is repeated after a crash does nothing twice.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from mangrove.errors import InputError
from mangrove.model.telemetry import TOPIC_RATES
from mangrove.pipelines.jobs.profile import JOB, STATE_VERSION, refresh
from mangrove.pipelines.reading.source import Source
from mangrove.pipelines.state.state import open_state

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHECKPOINT = ".stream"
INTERVAL_S = 10


def follow(
    spark: SparkSession,
    source: Source,
    state: Path,
    seconds: float | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> int:
    """Keep the state current for some seconds, or until what is there now is in it; returns the batches."""
    if not hasattr(spark, "sparkContext"):
        raise InputError("--stream cannot run on Spark Connect", hint="give --master, or neither")
    with open_state(state, JOB, STATE_VERSION, source) as kept:
        batches = 0

        def keep(_: DataFrame, number: int) -> None:
            nonlocal batches
            parts = refresh(spark, kept)[1]
            batches += 1
            progress(f"batch {number}: {len(parts)} days of domains were new or changed")

        checkpoint = state.resolve() / CHECKPOINT
        _require_fitting(checkpoint, source)
        files = (
            spark.readStream.schema("ts timestamp")
            .option("recursiveFileLookup", "true")
            .option("pathGlobFilter", "*.parquet")
            .parquet(source.place(TOPIC_RATES))
        )
        writer = files.writeStream.foreachBatch(keep).option("checkpointLocation", str(checkpoint))
        if seconds is None:
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()
        else:
            query = writer.trigger(processingTime=f"{INTERVAL_S} seconds").start()
            try:
                query.awaitTermination(int(seconds))
            finally:
                query.stop()
        return batches


def _require_fitting(checkpoint: Path, source: Source) -> None:
    """A checkpoint belongs to one lake; another's would let files pass unseen."""
    note = checkpoint.with_name(f"{CHECKPOINT}-lake")
    if checkpoint.exists() and (not note.is_file() or note.read_text() != source.place(TOPIC_RATES)):
        raise InputError(
            f"--state: the checkpoint {checkpoint} is of another lake",
            hint="delete it: the next run finds out anew which files there are",
        )
    note.write_text(source.place(TOPIC_RATES))
