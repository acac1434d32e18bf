"""Rates of a lake by pandas alone, to compare the jobs with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
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
