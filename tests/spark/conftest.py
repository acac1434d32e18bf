"""One Spark session for all Spark tests: two cores, no web page, few shuffle partitions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from mangrove.pipelines.spark_session import session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with session("local[2]", memory="1g") as running:
        running.conf.set("spark.sql.shuffle.partitions", "2")
        yield running


def plain_rates(lake: Path, names: list[str]) -> pd.DataFrame:
    """Messages by second (rows, gaps filled with zeros) and topic, by pandas alone, from the files given."""
    parts = [
        pq.read_table(path, partitioning=None).to_pandas(ignore_metadata=True)
        for path in sorted((lake / "topic_rates").rglob("*.parquet"))
        if path.name.startswith(tuple(names))
    ]
    rows = pd.concat(parts)
    rows = rows[rows["msgs_in"] >= 0].drop_duplicates(["ts", "broker", "topic"])
    rows["second"] = rows["ts"].astype("int64") // np.int64(
        1_000_000 if "us" in str(rows["ts"].dtype) else 10**9
    )
    for name in ("topic", "broker"):
        rows[name] = rows[name].astype(str)
    wide = rows.pivot_table(index="second", columns="topic", values="msgs_in", aggfunc="sum")
    every = range(int(wide.index.min()), int(wide.index.max()) + 1)
    return wide.reindex(every).fillna(0.0).sort_index(axis=1)
