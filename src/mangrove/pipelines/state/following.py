"""A state is kept current while files arrive, and the job's result with it.

Structured Streaming's file source says that there are new files, and its checkpoint which it has told; what
is read is decided by the state, which knows the files that it was made of. So a batch that is repeated after
a crash does nothing twice, and whatever happens the result is that of a batch run over the same files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from mangrove.errors import InputError, MangroveError
from mangrove.model.telemetry import Table
from mangrove.pipelines.reading.rows import spark_errors
from mangrove.pipelines.session.failures import CLUSTER_SIGNS, reason

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from mangrove.pipelines.state.state import State

CHECKPOINT = ".stream"
NOTE = ".stream.json"
INTERVAL_S = 10

Summary = dict[str, Any]


def keep_current(
    spark: SparkSession,
    held: State,
    tables: Sequence[Table],
    run: Callable[[], Summary],
    *,
    seconds: float | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Summary:
    """Run the job, with its state, whenever one of its tables has new files; the last summary.

    It goes on for some seconds, or until what is there now is in the result.
    """
    require_driver(spark)
    checkpoint = held.directory / CHECKPOINT
    _require_fitting(held, tables)
    latest: Summary | None = None
    failed: list[Exception] = []

    def keep(_: DataFrame, number: int) -> None:
        nonlocal latest
        try:
            latest = run()
        except OSError as error:
            hint = "nothing is half-written; see to it, and run the same command again"
            failed.append(MangroveError(f"the stream failed: {error}", hint=hint))
            raise
        except Exception as error:
            # On its way through Java it would lose its hint, and its place.
            failed.append(error)
            raise
        progress(f"batch {number} is in the result")

    writer = _files(spark, held, tables).writeStream.foreachBatch(keep)
    writer = writer.option("checkpointLocation", str(checkpoint))
    try:
        await_query(writer, checkpoint, seconds)
    except MangroveError:
        if failed:
            raise failed[0] from None
        raise
    return run() if latest is None else latest


def require_driver(spark: SparkSession) -> None:
    """Batches are worked on in this process, which a Connect server cannot call."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise InputError("--stream cannot run on Spark Connect", hint="give --master, or neither")


def await_query(writer: Any, checkpoint: Path, seconds: float | None) -> None:
    """Start a query; wait until it has taken what is there or, with `seconds`, for so long; end it."""
    trigger = {"availableNow": True} if seconds is None else {"processingTime": f"{INTERVAL_S} seconds"}
    query: StreamingQuery | None = None
    try:
        query = writer.trigger(**trigger).start()
        query.awaitTermination(None if seconds is None else int(seconds))
    except spark_errors() as error:
        # Whoever cancels jobs, and whoever lost the cluster, is told of it elsewhere.
        if CLUSTER_SIGNS.search(str(error)) or "cancelled" in str(error):
            raise
        raise MangroveError(
            f"the stream failed: {reason(error)}",
            hint=f"if it goes on failing, {checkpoint} does not fit this lake or this release: "
            f"move {checkpoint.parent} away and start anew; the lake still has all rows",
        ) from error
    finally:
        # Of a query that has failed already, stopping tells the failure once more.
        if query is not None:
            with suppress(*spark_errors()):
                query.stop()


def _files(spark: SparkSession, held: State, tables: Sequence[Table]) -> DataFrame:
    """All files of all tables, whether there are any yet or not: a checkpoint counts its sources."""
    frames = [
        spark.readStream.schema("ts timestamp")
        .option("recursiveFileLookup", "true")
        .option("pathGlobFilter", "*.parquet")
        .parquet(held.source.place(table))
        for table in tables
    ]
    frame = frames[0]
    for more in frames[1:]:
        frame = frame.unionByName(more)
    return frame


def _require_fitting(held: State, tables: Sequence[Table]) -> None:
    """A checkpoint belongs to the directories that it was made for: another's lets files pass unseen."""
    note = held.directory / NOTE
    wanted = [held.source.place(table) for table in tables]
    try:
        found = msgspec.json.decode(note.read_bytes(), type=list[str])
    except FileNotFoundError:
        found = None
    except (OSError, msgspec.MsgspecError):
        found = []
    if found != wanted and (held.directory / CHECKPOINT).exists():
        raise InputError(
            f"--state: the checkpoint {held.directory / CHECKPOINT} is of other tables",
            hint="delete it: the next run finds out anew which files there are",
        )
    note.write_bytes(msgspec.json.encode(wanted))
