"""`calibrate`: broker parameters by non-negative least squares, for each broker type (thesis §4.4.2.2)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mangrove.errors import InputError
from mangrove.model.telemetry import CALIBRATION_RUNS
from mangrove.pipelines.output import check_output, output_directory, write_json, write_parquet
from mangrove.pipelines.reading.rows import open_rows, unharmed
from mangrove.pipelines.reading.source import Source, as_source
from mangrove.planning.problem.calibration import Observation, calibrate

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

JOB = "calibrate"
TIMES = ("processing_time_s", "cpu_time_s")
FITTED = (
    "broker_type string, message_bytes bigint, runs bigint, t_rcv double, t_fltr double, t_tx double, "
    "relative_rms double, warnings string"
)


def fitted(runs: DataFrame, time: str) -> DataFrame:
    """`calibration_runs` → the model of each broker type, over all message sizes and for each size."""
    from pyspark.sql import functions as f

    usable = runs.where((f.col(time) > 0) & (f.col("replication") >= 0) & (f.col("filters") >= 0))
    # A handful of rows: no need to look first whether any is repeated.
    once = usable.dropDuplicates(list(CALIBRATION_RUNS.key))
    every_size = once.withColumn("message_bytes", f.lit(None).cast("bigint"))

    def fit(frame: pd.DataFrame) -> pd.DataFrame:
        return _fit(frame, time)

    both = once.unionByName(every_size)
    return both.groupBy("broker_type", "message_bytes").applyInPandas(fit, FITTED)


def _fit(frame: pd.DataFrame, time: str) -> pd.DataFrame:
    import pandas as pd

    ordered = frame.sort_values(["replication", "filters", time])
    columns = (ordered[name].tolist() for name in ("replication", "filters", time))
    result = calibrate(
        [Observation(filters, copies, seconds) for copies, filters, seconds in zip(*columns, strict=True)]
    )
    size = frame["message_bytes"].iloc[0]
    return pd.DataFrame(
        {
            "broker_type": [frame["broker_type"].iloc[0]],
            "message_bytes": pd.array([None if pd.isna(size) else int(size)], dtype="Int64"),
            "runs": [len(frame)],
            "t_rcv": [result.model.t_rcv_s],
            "t_fltr": [result.model.t_fltr_s],
            "t_tx": [result.model.t_tx_s],
            "relative_rms": [result.relative_rms],
            "warnings": [json.dumps(result.warnings)],
        }
    )


def run(spark: SparkSession, source: Source | str, output: Path, time: str = TIMES[0]) -> dict[str, Any]:
    """Read, fit, write `model.json`, `models.parquet` and `summary.json`."""
    if time not in TIMES:
        raise InputError(f"--time: {time!r}", hint=" or ".join(TIMES))
    check_output(output, JOB)
    origin = as_source(source)
    runs = open_rows(spark, origin, CALIBRATION_RUNS)
    table = unharmed(lambda: fitted(runs.frame, time).orderBy("broker_type", "message_bytes").toArrow(), runs)
    found = table.to_pylist()
    if not found:
        raise InputError(
            f"{origin}: none of the calibration runs has a {time} above zero",
            hint="run `mangrove calibrate`",
        )
    overall = [row for row in found if row["message_bytes"] is None]
    summary = {
        "time": time,
        "models": [{**row, "warnings": json.loads(row["warnings"])} for row in found],
        "warnings": [f"{r['broker_type']}: {text}" for r in overall for text in json.loads(r["warnings"])],
        "skipped": [{"path": s.path, "reason": s.reason, "rows": s.rows} for s in runs.report()],
    }
    models = {
        row["broker_type"]: {name: row[name] for name in ("t_rcv", "t_fltr", "t_tx")} for row in overall
    }
    with output_directory(output, JOB) as directory:
        write_json(directory / "model.json", {"models": models})
        write_parquet(directory / "models.parquet", table)
        write_json(directory / "summary.json", summary)
    return summary
