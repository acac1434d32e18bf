"""Scenarios as a file beside the problem: `scenarios.npz`, which `plan allocate --risk empirical` reads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mangrove.planning.empirical.document import FILE_NAME, scenario_arrays
from mangrove.planning.empirical.scenarios import Scenarios


def write_scenarios(directory: Path, items: Sequence[str], scenarios: Scenarios) -> Path:
    """Write the file; rates in single precision, as they were collected."""
    path = directory / FILE_NAME
    arrays = scenario_arrays(items, scenarios)
    np.savez_compressed(
        path, items=arrays["items"], rates=arrays["rates"].astype(np.float32), weights=arrays["weights"]
    )
    return path
