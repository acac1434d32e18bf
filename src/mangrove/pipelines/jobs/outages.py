"""From bits by the second, observed and down, to seconds of observation and of outage, and how many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# Samples further apart than this are separate stretches of observation.
GAP_S = 60
# Both ends of a link, and samples and reports, see the same moment in seconds of their own.
SAME_S = 2
OUTAGES = (
    "kind string, component string, samples bigint, observed_s bigint, down_s bigint, fell bigint, "
    "reported bigint"
)
Seconds = NDArray[np.int64]
NO_SECONDS = np.empty(0, dtype=np.int64)


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
    reported: int = 0
    """Failures that were reported and are in no sample."""


def outages(
    spans: Iterable[Span],
    since_s: int | None = None,
    until_s: int | None = None,
    *,
    reports: Iterable[Span] = (),
) -> Outages:
    """Add up spans in any order; those of the same seconds are joined.

    A sample stands for the time since the one before it, and for a second after a gap. What was observed of
    `reports` are the seconds in which a failure was reported.
    """
    samples = observed_s = down_s = fell = 0
    before_s, before_up = None, True
    begins, ends = [NO_SECONDS], [NO_SECONDS]
    for seconds, up in _by_span(spans, since_s, until_s):
        first = GAP_S + 1 if before_s is None else int(seconds[0]) - before_s
        apart = np.concatenate([[first], np.diff(seconds)])
        stretch = np.where(apart > GAP_S, 1, apart)
        samples += len(seconds)
        observed_s += int(stretch.sum())
        down_s += int(stretch[~up].sum())
        fell += int((~up & np.concatenate([[before_up], up[:-1]])).sum())
        begins.append((seconds - stretch + 1)[~up])
        ends.append(seconds[~up])
        before_s, before_up = int(seconds[-1]), bool(up[-1])
    told = np.concatenate([NO_SECONDS, *(seconds for seconds, _ in _by_span(reports, since_s, until_s))])
    reported = _unseen(told, np.concatenate(begins), np.concatenate(ends))
    return Outages(samples, observed_s, down_s, fell, reported)


def _by_span(
    spans: Iterable[Span], since_s: int | None, until_s: int | None
) -> Iterator[tuple[Seconds, NDArray[np.bool_]]]:
    """The seconds of each span that were observed in the period, and which of them were up, in order."""
    joined: dict[int, tuple[NDArray[np.uint8], NDArray[np.uint8]]] = {}
    for span in spans:
        observed, down = (np.frombuffer(bits, dtype=np.uint8) for bits in (span.observed, span.down))
        if span.start_s in joined:
            held = joined[span.start_s]
            observed, down = held[0] | observed, held[1] | down
        joined[span.start_s] = observed, down
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
        if inside.any():
            yield seconds[inside], up[inside]


def _unseen(reports: Seconds, begins: Seconds, ends: Seconds) -> int:
    """Failures among the reports that are of no outage, from a begin to its end; neighbours are of one."""
    place = np.searchsorted(ends, reports - SAME_S)
    begins = np.append(begins, np.iinfo(np.int64).max)
    unseen = reports[begins[place] > reports + SAME_S]
    return int((np.diff(unseen, prepend=unseen[:1] - SAME_S - 1) > SAME_S).sum())
