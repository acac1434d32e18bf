"""Named arrays ↔ `Scenarios`: what `pipeline profile --scenarios` leaves beside the problem, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mangrove.errors import InputError, Mistakes
from mangrove.planning.empirical.scenarios import MIN_SCENARIOS, Scenarios, with_common_shape

FILE_NAME = "scenarios.npz"
FIELDS = ("items", "rates", "weights")
REMEDY = "make it with `mangrove pipeline profile --scenarios N`, in one run with the problem"


def scenario_arrays(items: Sequence[str], scenarios: Scenarios) -> dict[str, NDArray[np.generic]]:
    """The arrays by name; rates as messages per second, `[item, scenario]`."""
    return {
        "items": np.array(items, dtype=np.str_),
        "rates": scenarios.rates_msg_s,
        "weights": scenarios.weights,
    }


def read_scenarios(
    arrays: Mapping[str, NDArray[np.generic]], items: Sequence[str], brokers: int, source: str
) -> Scenarios:
    """Scenarios with a row for each of `items`, in their order, and the shape of sets for so many brokers."""
    missing = [name for name in FIELDS if name not in arrays]
    if missing:
        raise InputError(f"{source}: there is no array {', '.join(missing)}", hint=REMEDY)
    named = [str(name) for name in np.atleast_1d(arrays["items"])]
    rates: NDArray[Any] = arrays["rates"]
    weights: NDArray[Any] = arrays["weights"]
    mistakes = Mistakes(source)
    for name, array, dimensions in (("rates", rates, 2), ("weights", weights, 1)):
        if array.ndim != dimensions or array.dtype.kind not in "fiu":
            mistakes.note(
                name, f"{array.dtype} of {array.ndim} dimensions", f"numbers of {dimensions} dimensions"
            )
    mistakes.raise_if_any()
    rates, weights = rates.astype(np.float64), weights.astype(np.float64)
    if rates.shape != (len(named), len(weights)):
        mistakes.note(
            "rates",
            f"{rates.shape[0]} x {rates.shape[1]} for {len(named)} items and {len(weights)} scenarios",
        )
    for name, array in (("rates", rates), ("weights", weights)):
        if not np.isfinite(array).all() or (array < 0).any():
            mistakes.note(name, "holds values that are not finite, or below 0", "numbers of 0 or more")
    if len(weights) < MIN_SCENARIOS:
        mistakes.note("weights", f"{len(weights)} scenarios", f"{MIN_SCENARIOS} or more")
    row_of = {name: row for row, name in enumerate(named)}
    if len(row_of) < len(named):
        mistakes.note("items", "an item occurs twice")
    if lacking := [item for item in items if item not in row_of]:
        more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
        mistakes.note("items", f"the problem's item {lacking[0]!r}{more} is missing", REMEDY)
    mistakes.raise_if_any()
    total = float(weights.sum())
    if total <= 0:
        raise InputError(f"{source}: all weights are 0", hint=REMEDY)
    chosen = np.ascontiguousarray(rates[[row_of[item] for item in items]], dtype=np.float64)
    return with_common_shape(Scenarios(chosen, np.asarray(weights / total, dtype=np.float64)), brokers)
