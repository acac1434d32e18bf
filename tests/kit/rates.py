"""Small files of `topic_rates`, and rates of a lake by pandas alone, to compare the jobs with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq


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


def shard(rows: Sequence[tuple[object, ...]]) -> pa.Table:
    """A small file of `topic_rates` as any other program would write it."""
    frame = pd.DataFrame(rows, columns=["ts", "broker", "topic", "msgs_in"])
    frame["ts"] = pd.to_datetime(frame["ts"], unit="s", utc=True)
    frame["bytes_in"] = frame["msgs_in"] * 100
    frame["msgs_out"] = frame["msgs_in"] * 2
    frame["bytes_out"] = frame["msgs_in"] * 200
    frame["subscribers"] = 2
    frame["filters"] = 1
    return pa.Table.from_pandas(frame, preserve_index=False)


def place(lake: Path, name: str, table: pa.Table, domain: str = "a") -> Path:
    """Put a table into a lake as one file of a day."""
    path = lake / "topic_rates" / "date=2026-03-02" / f"domain={domain}" / f"{name}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)
    return path
