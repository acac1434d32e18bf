"""Fit the broker model to measurements by non-negative least squares (thesis §4.4.2.2).

`min ‖Xβ − y‖₂` subject to `β ≥ 0`, with rows `(1, n_fltr, r)` and `β = (t_rcv, t_fltr, t_tx)`.
Columns are scaled to unit length first: seconds per filter are two orders of magnitude below seconds per
message, and an unscaled solve would stop at its tolerance before it had found them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from mangrove.errors import Mistakes
from mangrove.planning.problem.arrays import FloatArray
from mangrove.planning.problem.capacity import BrokerModel

PARAMETERS = ("t_rcv", "t_fltr", "t_tx")
# Past this ratio of singular values a parameter is decided by noise, not by the measurements.
CONDITION_LIMIT = 1e6


@dataclass(frozen=True, slots=True)
class Observation:
    """One calibration run at saturation."""

    filters: float
    replication: float
    processing_time_s: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """A fitted model, what it misses, and what the measurements could not tell."""

    model: BrokerModel
    residuals_s: tuple[float, ...]
    relative_rms: float
    unidentified: tuple[str, ...]
    warnings: tuple[str, ...]


def calibrate(observations: Sequence[Observation]) -> Calibration:
    """Fit `T = t_rcv + n_fltr·t_fltr + r·t_tx` with no negative time."""
    _check(observations)
    design = np.array([[1.0, o.filters, o.replication] for o in observations])
    times_s = np.array([o.processing_time_s for o in observations])
    scale = np.linalg.norm(design, axis=0)
    scale[scale == 0] = 1.0
    scaled = design / scale
    solution, _ = nnls(scaled, times_s / times_s.max())
    beta = solution * times_s.max() / scale
    residuals = times_s - design @ beta
    unidentified = _unidentified(scaled)
    warnings = [
        f"the measurements cannot identify {name}: vary its cause (filters or replication) independently "
        "of the others"
        for name in unidentified
    ]
    at_bound = [PARAMETERS[i] for i in range(3) if beta[i] == 0 and PARAMETERS[i] not in unidentified]
    warnings += [f"{name} was fitted as 0: the measurements would have made it negative" for name in at_bound]
    if len(observations) <= len(PARAMETERS):
        warnings.append(
            f"{len(observations)} measurements for {len(PARAMETERS)} parameters: the residuals say nothing"
        )
    return Calibration(
        model=BrokerModel(*(float(b) for b in beta)),
        residuals_s=tuple(float(r) for r in residuals),
        relative_rms=float(np.sqrt(np.mean((residuals / times_s) ** 2))),
        unidentified=unidentified,
        warnings=tuple(warnings),
    )


def _unidentified(scaled: FloatArray) -> tuple[str, ...]:
    """Parameters with weight in the (numerical) null space of the design: any value fits equally well."""
    _, singular, rows = np.linalg.svd(scaled, full_matrices=True)
    padded = np.zeros(scaled.shape[1])
    padded[: singular.size] = singular
    null_rows = rows[padded <= padded[0] / CONDITION_LIMIT]
    loose = np.abs(null_rows).max(axis=0, initial=0.0) > 1e-3
    return tuple(name for name, free in zip(PARAMETERS, loose, strict=True) if free)


def _check(observations: Sequence[Observation]) -> None:
    mistakes = Mistakes("calibration")
    if not observations:
        mistakes.note("observations", "none given", "one or more")
    for index, one in enumerate(observations):
        for name in ("filters", "replication"):
            value = getattr(one, name)
            if not (np.isfinite(value) and value >= 0):
                mistakes.note(f"observations[{index}].{name}", f"{value}", "zero or more")
        if not (np.isfinite(one.processing_time_s) and one.processing_time_s > 0):
            time_s = one.processing_time_s
            mistakes.note(f"observations[{index}].processing_time_s", f"{time_s}", "above zero")
    mistakes.raise_if_any()
