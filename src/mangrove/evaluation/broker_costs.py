"""What a broker spends on a message: the three times of the thesis's model, measured, with intervals.

`T = t_rcv + n_fltr · t_fltr + r · t_tx` (§4.4.2), fitted to runs at saturation by non-negative least squares,
as the thesis does. The intervals are the middle 95 % of fits to runs drawn again from the measured ones (the
pairs bootstrap): they include what the model does not explain, and they respect that no time is negative.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mangrove.errors import InputError
from mangrove.evaluation.published import FILTERS, REPLICATION
from mangrove.planning.problem.calibration import PARAMETERS, Observation, calibrate
from mangrove.planning.problem.capacity import BrokerModel

CLOCKS = ("seconds", "cpu_s")
"""Time that passes for a message at saturation, and processor time that the broker spends on it."""
DRAWS = 1000
MIN_RUNS = 6


@dataclass(frozen=True, slots=True)
class BrokerRun:
    """One run at saturation: what was asked of the broker, and what a message took."""

    message_bytes: int
    filters: int
    replication: int
    seconds: float
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Interval:
    """A fitted time in seconds and its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class BrokerCosts:
    """The model of one message size by one clock."""

    message_bytes: int
    clock: str
    runs: int
    times_s: Mapping[str, Interval]  # by PARAMETERS
    relative_rms: float
    """How far the runs lie from the model, as a share of what they took."""
    capacity_msg_s: Interval
    """With the filters and the replication of §4.5.6.1."""
    warnings: tuple[str, ...]


def fit_costs(runs: Sequence[BrokerRun], seed: int, draws: int = DRAWS) -> tuple[BrokerCosts, ...]:
    """The model for each message size and clock."""
    sizes = sorted({run.message_bytes for run in runs})
    return tuple(
        _fit([run for run in runs if run.message_bytes == size], clock, seed, draws)
        for size in sizes
        for clock in CLOCKS
    )


def _fit(runs: Sequence[BrokerRun], clock: str, seed: int, draws: int) -> BrokerCosts:
    if len(runs) < MIN_RUNS:
        raise InputError(
            f"{len(runs)} runs with {runs[0].message_bytes} bytes are too few for an interval",
            hint=f"measure at least {MIN_RUNS}, with several numbers of filters and of subscribers",
        )
    observations = [
        Observation(run.filters, run.replication, max(getattr(run, clock), 1e-12)) for run in runs
    ]
    fitted = calibrate(observations)
    rng = np.random.default_rng([seed, runs[0].message_bytes, CLOCKS.index(clock)])
    again: list[BrokerModel] = []
    while len(again) < draws:
        chosen = rng.integers(0, len(runs), len(runs))
        drawn = calibrate([observations[index] for index in chosen])
        if not drawn.unidentified:  # a draw of equal runs says nothing
            again.append(drawn.model)
    found = _times(fitted.model)
    spread = {name: [_times(model)[name] for model in again] for name in PARAMETERS}
    capacities = [float(model.capacity_msg_s(FILTERS, REPLICATION)) for model in again]
    return BrokerCosts(
        runs[0].message_bytes,
        clock,
        len(runs),
        {name: _interval(found[name], spread[name]) for name in PARAMETERS},
        fitted.relative_rms,
        _interval(float(fitted.model.capacity_msg_s(FILTERS, REPLICATION)), capacities),
        fitted.warnings,
    )


def _times(model: BrokerModel) -> dict[str, float]:
    return dict(zip(PARAMETERS, (model.t_rcv_s, model.t_fltr_s, model.t_tx_s), strict=True))


def _interval(value: float, draws: Sequence[float]) -> Interval:
    low, high = np.percentile(draws, [2.5, 97.5])
    return Interval(value, float(low), float(high))
