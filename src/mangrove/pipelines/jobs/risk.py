"""`risk`: a plan against history: how often its brokers would have been overloaded, and who is misjudged.

Each broker's load in every window of the peak periods is added up on the workers, as if the plan had been in
force. Beside the normal model's probability stands the share of windows that were overloaded, with an
interval that knows that seconds depend on each other, and the tail's word on what was too rare to be seen.
Two normal predictions tell two errors apart: by the problem's figures (the load may have changed since) and
by the history's own mean and deviation (what is wrong then is the normal shape).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
from scipy.special import ndtri

from mangrove.errors import InputError
from mangrove.model.telemetry import TOPIC_RATES
from mangrove.pipelines.output import check_output, output_directory, write_json, write_parquet
from mangrove.pipelines.rates.peaks import Span, clock, periods
from mangrove.pipelines.reading.rows import open_rows, unharmed
from mangrove.pipelines.risk.judging import BLAME, LOAD, PEAK, REPEATED, BrokerSeries, Judgement, judged
from mangrove.pipelines.risk.observed import Observed, Share, blocks_of
from mangrove.pipelines.risk.plans import PlannedLoad
from mangrove.pipelines.risk.windows import COLUMNS, bounded_batches, history_of, window_frame
from mangrove.planning.judgement import risk as normal_model
from mangrove.planning.judgement.assessment import Load, assess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from mangrove.pipelines.reading.source import Source

JOB = "risk"
# An item is judged at the level that it exceeds with this probability if it is normal; its tail begins where
# a normal one exceeds with the second.
ITEM_RISK = 1e-3
ITEM_TAIL = 1e-2
BLAMED = 3


@dataclass(frozen=True, slots=True)
class RiskSettings:
    """What the user may choose."""

    peak: tuple[Span, ...] | None = None
    """None: found"""
    window_s: int = 1
    block_s: int = 300
    tail_share: float = 0.02
    seed: int = 1
    since_s: float | None = None
    until_s: float | None = None


def run(
    spark: SparkSession,
    source: Source,
    plan: PlannedLoad,
    output: Path,
    settings: RiskSettings | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Check the plan, write `brokers.parquet`, `items.parquet` and `summary.json`; returns the summary."""
    settings = settings or RiskSettings()
    check_output(output, JOB)
    rows = open_rows(
        spark,
        source,
        TOPIC_RATES,
        columns=COLUMNS,
        domains=[plan.topics.domain] if plan.topics.domain else None,
        since_s=settings.since_s,
        until_s=settings.until_s,
    )
    progress("looking for peak periods")
    history = unharmed(lambda: history_of(rows.frame, settings.peak), rows)
    if history is None:
        raise InputError(
            f"{source}: no row of {TOPIC_RATES.name}", hint="is it the lake that the plan is for?"
        )
    when = periods(history.peaks, history.first_s, history.last_s, settings.window_s)
    blocks = blocks_of(when, max(settings.block_s, settings.window_s)) if when.windows else None
    if blocks is None or len(blocks.numbers) < 2:
        raise InputError(
            f"{source}: {when.windows} windows of {settings.window_s} s in the peak periods; a check needs "
            f"two blocks of {settings.block_s} s or more",
            hint="record longer, choose a shorter --block, or use --peak all",
        )
    assessment = assess(plan.problem, plan.assignment)
    limit = plan.problem.utilisation_threshold * np.array([load.capacity_msg_s for load in assessment.loads])
    mean = plan.problem.mean_rate_msg_s
    deviation = np.sqrt(np.clip(np.diag(plan.problem.covariance), 0.0, None))
    varying = deviation > 0
    what = Judgement(
        assignment=np.array(plan.assignment, dtype=np.int64),
        brokers=plan.problem.broker_count,
        capacity_msg_s=limit,
        item_mean=mean,
        item_threshold=np.where(varying, mean - ndtri(ITEM_TAIL) * deviation, np.inf),
        item_level=mean - ndtri(ITEM_RISK) * deviation,
        blocks=blocks,
        window_s=settings.window_s,
        tail_share=settings.tail_share,
        seed=settings.seed,
    )
    progress(f"{plan.problem.item_count:,} items on {what.brokers} brokers, {when.windows:,} windows")
    with bounded_batches(spark, plan.problem.item_count):
        found = unharmed(lambda: judged(window_frame(rows.frame, plan.topics, when), what).collect(), rows)
    results = {(row["kind"], row["place"]): row["result"] for row in found}
    blame = {place: float(text) for (kind, place), text in results.items() if kind == BLAME}
    brokers = [
        _broker(plan, place, load, float(limit[place]), results.get((LOAD, place)), blame, blocks.total)
        for place, load in enumerate(assessment.loads)
    ]
    items = [
        _item(plan, place, results.get((PEAK, place)), float(what.item_level[place]), len(blocks.numbers))
        for place in np.flatnonzero(varying).tolist()
    ]
    summary = {
        "plan": plan.source,
        "rows": history.rows,
        "peaks": {domain: [clock(span) for span in spans] for domain, spans in history.peaks.items()},
        "window_s": settings.window_s,
        "windows": when.windows,
        "block_s": blocks.block_s,
        "blocks": len(blocks.numbers),
        "tail_share": settings.tail_share,
        "seed": settings.seed,
        "brokers": brokers,
        "items": len(items),
        "item_risk": ITEM_RISK,
        "misjudged_brokers": [each["broker"] for each in brokers if each["verdict"] == "too low"],
        "misjudged_items": _worst(items),
        "repeated_rows": int(float(results.get((REPEATED, 0), "0"))),
        "skipped": [{"path": s.path, "reason": s.reason, "rows": s.rows} for s in rows.report()],
        "warnings": list(plan.warnings),
    }
    with output_directory(output, JOB) as directory:
        write_parquet(directory / "brokers.parquet", pa.Table.from_pylist([_flat(each) for each in brokers]))
        write_parquet(directory / "items.parquet", pa.Table.from_pylist([_flat(each) for each in items]))
        write_json(directory / "summary.json", summary)
    return summary


def _broker(
    plan: PlannedLoad,
    place: int,
    load: Load,
    limit: float,
    text: str | None,
    blame: dict[int, float],
    windows: int,
) -> dict[str, Any]:
    series = (
        BrokerSeries(0.0, 0.0, Observed(0, Share(0.0, 0.0, 0.0), None, None, 0.0))
        if text is None
        else msgspec.json.decode(text, type=BrokerSeries)
    )
    observed = series.observed
    z = normal_model.margin(
        np.asarray(limit), np.asarray(series.mean_msg_s), np.asarray(series.deviation_msg_s**2)
    )
    here = float(np.exp(normal_model.log_risk(z)))
    known = observed.share if observed.windows_above or observed.tail is None else observed.tail
    members = [item for item, broker in enumerate(plan.assignment) if broker == place]
    most = sorted((item for item in members if blame.get(item, 0.0) > 0), key=lambda item: -blame[item])
    total = sum(blame[item] for item in most)
    return {
        "broker": plan.problem.brokers[place],
        "items": len(members),
        "limit_msg_s": limit,
        "predicted_mean_msg_s": load.mean_rate_msg_s,
        "mean_msg_s": series.mean_msg_s,
        "deviation_msg_s": series.deviation_msg_s,
        "most_msg_s": observed.most_msg_s,
        "predicted": load.risk,
        "normal_of_history": here,
        "overloaded_windows": observed.windows_above,
        "windows": windows,
        "observed": msgspec.to_builtins(observed.share),
        "tail": None if observed.tail is None else msgspec.to_builtins(observed.tail),
        "tail_shape": observed.shape,
        "verdict": verdict(load.risk, known),
        "factor": _factor(known.value, load.risk),
        "seen": observed.windows_above > 0,
        "blamed": [
            {"item": plan.problem.items[item], "share": blame[item] / total} for item in most[:BLAMED]
        ],
    }


def _item(plan: PlannedLoad, place: int, text: str | None, level: float, blocks: int) -> dict[str, Any]:
    nothing = Observed(0, Share(0.0, 0.0, min(3.0 / blocks, 1.0)), None, None, 0.0)
    observed = nothing if text is None else msgspec.json.decode(text, type=Observed)
    return {
        "item": plan.problem.items[place],
        "broker": plan.problem.brokers[plan.assignment[place]],
        "mean_msg_s": float(plan.problem.mean_rate_msg_s[place]),
        "level_msg_s": level,
        "most_msg_s": observed.most_msg_s,
        "predicted": ITEM_RISK,
        "windows_above": observed.windows_above,
        "observed": msgspec.to_builtins(observed.share),
        "tail_shape": observed.shape,
        "verdict": verdict(ITEM_RISK, observed.share),
        "factor": _factor(observed.share.value, ITEM_RISK),
    }


def verdict(predicted: float, known: Share) -> str:
    """Whether a prediction lies outside of what was observed: `too low` promises too much."""
    if predicted < known.low:
        return "too low"
    return "too high" if predicted > known.high else "fits"


def _factor(value: float, predicted: float) -> float | None:
    """Observed over predicted; None where the prediction is nothing or beyond numbers."""
    return value / predicted if predicted > 0 and math.isfinite(value / predicted) else None


def _worst(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    low = [each for each in items if each["verdict"] == "too low"]
    return sorted(low, key=lambda each: (-each["observed"]["value"], each["item"]))


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """Shares as columns of their own; who is blamed stays in the summary."""
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if name in ("observed", "tail"):
            share = value or {"value": None, "low": None, "high": None}
            flat |= {name: share["value"], f"{name}_low": share["low"], f"{name}_high": share["high"]}
        elif name != "blamed":
            flat[name] = value
    return flat
