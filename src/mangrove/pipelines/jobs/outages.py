"""From bits by the second, observed and down, to seconds of observation and of outage, and how many."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

# Samples further apart than this are separate stretches of observation.
GAP_S = 60
OUTAGES = "kind string, component string, samples bigint, observed_s bigint, down_s bigint, fell bigint"


@dataclass(frozen=True, slots=True)
class Span:
    """Bits of the seconds from `start_s` on, the lowest bit of the first byte first."""

    start_s: int
    observed: bytes
    down: bytes


@dataclass(frozen=True, slots=True)
class Outages:
    """Sums of one component."""

    samples: int = 0
    observed_s: int = 0
    down_s: int = 0
    fell: int = 0

    def as_frame(self, kind: str, component: str) -> pd.DataFrame:
        """One row for Spark."""
        import pandas as pd

        row = (kind, component, self.samples, self.observed_s, self.down_s, self.fell)
        return pd.DataFrame([row], columns=[part.split()[0] for part in OUTAGES.split(", ")])


def outages(spans: Iterable[Span], since_s: int | None = None, until_s: int | None = None) -> Outages:
    """Add up spans in any order; those of the same seconds are joined.

    A sample stands for the time since the one before it, and for a second after a gap.
    """
    joined: dict[int, tuple[NDArray[np.uint8], NDArray[np.uint8]]] = {}
    for span in spans:
        observed, down = (np.frombuffer(bits, dtype=np.uint8) for bits in (span.observed, span.down))
        if span.start_s in joined:
            held = joined[span.start_s]
            observed, down = held[0] | observed, held[1] | down
        joined[span.start_s] = observed, down
    samples = observed_s = down_s = fell = 0
    before_s, before_up = None, True
    for start_s in sorted(joined):
        observed, down = (np.unpackbits(bits, bitorder="little") for bits in joined[start_s])
        seconds = np.flatnonzero(observed)
        up = down[seconds] == 0
        seconds = seconds.astype(np.int64) + start_s
        inside = np.ones(len(seconds), dtype=bool)
        if since_s is not None:
            inside &= seconds >= since_s
        if until_s is not None:
            inside &= seconds < until_s
        seconds, up = seconds[inside], up[inside]
        if not len(seconds):
            continue
        first = GAP_S + 1 if before_s is None else int(seconds[0]) - before_s
        apart = np.concatenate([[first], np.diff(seconds)])
        stretch = np.where(apart > GAP_S, 1, apart)
        samples += len(seconds)
        observed_s += int(stretch.sum())
        down_s += int(stretch[~up].sum())
        fell += int((~up & np.concatenate([[before_up], up[:-1]])).sum())
        before_s, before_up = int(seconds[-1]), bool(up[-1])
    return Outages(samples, observed_s, down_s, fell)
