"""Brokers and items of a plan against their history, judged on the workers: one row comes back for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa

from mangrove.pipelines.risk.observed import Blocks, Observed, observe
from mangrove.pipelines.risk.windows import Windows, mapped
from mangrove.planning.problem.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame

LOAD, PEAK, BLAME, REPEATED = "load", "peak", "blame", "repeated"
VALUES = "kind string, place int, window long, value double"
RESULTS = "kind string, place int, result string"


class BrokerSeries(msgspec.Struct, frozen=True):
    """A broker over the history."""

    mean_msg_s: float
    deviation_msg_s: float
    observed: Observed


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is looked at: rates of items summed by broker, against capacities; items against levels."""

    assignment: IntArray
    brokers: int
    capacity_msg_s: FloatArray
    item_mean: FloatArray
    item_threshold: FloatArray
    """windows of an item above it make its tail; infinite: the item is not looked at"""
    item_level: FloatArray
    blocks: Blocks
    window_s: int
    tail_share: float
    seed: int


def judged(frame: DataFrame, what: Judgement) -> DataFrame:
    """`kind, place, result`: brokers by `LOAD`, items by `PEAK` and `BLAME`, repeated rows by `REPEATED`."""
    values = mapped(frame, len(what.assignment), what.window_s, _valued(what), VALUES)
    return values.groupBy("kind", "place").applyInPandas(_judge(what), RESULTS)


def _valued(what: Judgement) -> Callable[[Windows], pa.RecordBatch]:
    def each(windows: Windows) -> pa.RecordBatch:
        rates = windows.rates_msg_s
        on = (what.assignment[:, None] == np.arange(what.brokers)).astype(np.float64)
        loads = rates @ on
        start, brokers = windows.start_s, what.brokers
        row, item = np.nonzero(rates > what.item_threshold)
        over = loads > what.capacity_msg_s
        # Who carried more than usual while its broker carried too much.
        extra = np.where(over[:, what.assignment], rates - what.item_mean, 0.0).sum(axis=0)
        blamed = np.flatnonzero(extra)
        parts = (
            (LOAD, np.tile(np.arange(brokers), len(start)), np.repeat(start, brokers), loads.ravel()),
            (PEAK, item, start[row], rates[row, item]),
            (BLAME, blamed, np.zeros(len(blamed), dtype=np.int64), extra[blamed]),
            (REPEATED, np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64), [windows.repeated]),
        )
        return pa.RecordBatch.from_pydict(
            {
                "kind": pa.array(np.repeat([kind for kind, *_ in parts], [len(p[1]) for p in parts])),
                "place": pa.array(np.concatenate([p[1] for p in parts]).astype(np.int32)),
                "window": pa.array(np.concatenate([p[2] for p in parts]).astype(np.int64)),
                "value": pa.array(np.concatenate([np.asarray(p[3], dtype=np.float64) for p in parts])),
            }
        )

    return each


def _judge(what: Judgement) -> Callable[[pd.DataFrame], pd.DataFrame]:
    def judge(group: pd.DataFrame) -> pd.DataFrame:
        import pandas as pd

        kind, place = str(group["kind"].iloc[0]), int(group["place"].iloc[0])
        value = group["value"].to_numpy(dtype=np.float64)
        result: Any = float(value.sum())
        if kind in (LOAD, PEAK):
            start = group["window"].to_numpy(dtype=np.int64)
            order = np.argsort(start, kind="stable")
            result = _series(what, kind, place, start[order], value[order])
        text = msgspec.json.encode(result).decode()
        return pd.DataFrame({"kind": [kind], "place": [place], "result": [text]})

    return judge


def _series(
    what: Judgement, kind: str, place: int, start: IntArray, value: FloatArray
) -> Observed | BrokerSeries:
    # A seed of its own for each series, so that neither their order nor their number matters.
    seed = int(np.random.SeedSequence([what.seed, kind == LOAD, place]).generate_state(1)[0])
    if kind == PEAK:
        level, threshold = float(what.item_level[place]), float(what.item_threshold[place])
        return observe(start, value, level, threshold, what.blocks, seed)
    windows = what.blocks.total
    mean = float(value.sum()) / windows
    square = float(((value - mean) ** 2).sum()) + (windows - len(value)) * mean**2
    # Windows without any row carried nothing, so they are below any threshold.
    beyond = max(int(what.tail_share * windows), 1)
    threshold = float(np.partition(value, -beyond - 1)[-beyond - 1]) if len(value) > beyond else 0.0
    level = float(what.capacity_msg_s[place])
    found = observe(start, value, level, min(threshold, level), what.blocks, seed)
    return BrokerSeries(mean, float(np.sqrt(square / max(windows - 1, 1))), found)
