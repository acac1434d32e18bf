"""Peak periods of a day, found from a domain's load by minute or given by the user.

A plan made for the average fails at ten in the morning, so means and covariances are taken over the busy
periods. The load of each minute of the day (averaged over days) is smoothed over a quarter of an hour; busy
is what lies in the upper part of the range between the median and the largest value. Histories too short to
show a day, and loads without a pattern, are taken as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mangrove.errors import InputError

MINUTES = 1440
SMOOTHING_MINUTES = 15
# A history shorter than this shows no daily pattern.
SHORTEST_HISTORY_MINUTES = 180
# The busiest quarter of an hour must exceed the median by this factor, or there is no peak.
DISTINCT = 1.2
# Busy: above median + BUSY·(largest − median).
BUSY = 0.6
SHORTEST_PEAK_MINUTES = 15

Span = tuple[int, int]
"""From and until, in minutes of the day (UTC); `until` is not included."""
WHOLE_DAY: tuple[Span, ...] = ((0, MINUTES),)


@dataclass(frozen=True, slots=True)
class Periods:
    """Sorted, disjoint periods of whole windows, in seconds since 1970. Windows begin at multiples of their
    length, so a window is the same one whatever period it is in."""

    starts_s: tuple[int, ...]
    ends_s: tuple[int, ...]
    window_s: int = 1

    @property
    def windows(self) -> int:
        """How many windows there are."""
        seconds = sum(end - start for start, end in zip(self.starts_s, self.ends_s, strict=True))
        return seconds // self.window_s


def parse_peak(text: str) -> tuple[Span, ...] | None:
    """`all`, or `09:00-11:00,…` in UTC; None for `auto`. A span may go over midnight."""
    if text == "auto":
        return None
    if text == "all":
        return WHOLE_DAY
    spans: list[Span] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,2}):(\d{2})-(\d{1,2}):(\d{2})", part.strip())
        if match is None:
            raise InputError(
                f"--peak: {part.strip()!r} is not a period", hint="auto, all, or 09:00-11:00,14:00-16:00"
            )
        hours_from, minutes_from, hours_to, minutes_to = map(int, match.groups())
        start, end = hours_from * 60 + minutes_from, hours_to * 60 + minutes_to
        if max(minutes_from, minutes_to) > 59 or start >= MINUTES or end > MINUTES or start == end:
            raise InputError(f"--peak: {part.strip()!r} is not a period of a day", hint="e.g. 09:00-11:00")
        spans += [(start, end)] if start < end else [(start, MINUTES), (0, end)]
    return merged(spans)


def find_peaks(minute: NDArray[np.int64], load: NDArray[np.float64]) -> tuple[Span, ...]:
    """Busy spans of the day from the load by minute since 1970. Minutes without a value had no load."""
    if not len(minute):
        return WHOLE_DAY
    first, last = int(minute.min()), int(minute.max())
    if last - first + 1 < SHORTEST_HISTORY_MINUTES:
        return WHOLE_DAY
    seen = np.bincount(np.arange(first, last + 1) % MINUTES, minlength=MINUTES)
    total = np.bincount(minute % MINUTES, weights=load, minlength=MINUTES)
    observed = seen > 0
    by_minute = np.where(observed, total / np.maximum(seen, 1), 0.0)
    smooth = _smoothed(by_minute, observed)
    median, largest = float(np.median(smooth[observed])), float(smooth[observed].max())
    if largest <= 0 or largest < DISTINCT * median:
        return WHOLE_DAY
    threshold = median + BUSY * (largest - median)
    spans = [_fitted(span, by_minute >= threshold) for span in _runs(observed & (smooth >= threshold))]
    long = [(start, end) for start, end in spans if end - start >= SHORTEST_PEAK_MINUTES]
    return merged(long) or WHOLE_DAY


def periods(
    spans_by_domain: Mapping[str, Sequence[Span]], first_s: int, last_s: int, window_s: int
) -> Periods:
    """All windows within any domain's spans, from the first to the last second of the history."""
    spans = merged([span for spans in spans_by_domain.values() for span in spans])
    whole: list[tuple[int, int]] = []
    for day in range(first_s // 86400, last_s // 86400 + 1):
        for start, end in spans:
            begin = -(-max(day * 86400 + start * 60, first_s) // window_s) * window_s
            finish = min(day * 86400 + end * 60, last_s + 1) // window_s * window_s
            if begin < finish:
                whole.append((begin, finish))
    joined = merged(whole)
    return Periods(tuple(start for start, _ in joined), tuple(end for _, end in joined), window_s)


def clock(span: Span) -> str:
    """A span for people."""
    return "-".join(f"{minute // 60:02d}:{minute % 60:02d}" for minute in span)


def merged(spans: Iterable[Span]) -> tuple[Span, ...]:
    """The same minutes as sorted, disjoint spans."""
    result: list[Span] = []
    for start, end in sorted(spans):
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((start, end))
    return tuple(result)


def _smoothed(values: NDArray[np.float64], observed: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Average over a quarter of an hour around each minute, round the clock, over observed minutes only."""
    half = SMOOTHING_MINUTES // 2
    kernel = np.ones(2 * half + 1)
    total, count = (
        np.convolve(np.pad(each, half, mode="wrap"), kernel, mode="valid")
        for each in (values * observed, observed.astype(float))
    )
    return np.asarray(np.divide(total, count, out=np.zeros_like(total), where=count > 0))


def _fitted(span: Span, busy: NDArray[np.bool_]) -> Span:
    """The span with the blur of smoothing taken off: its ends moved to where the load itself changes."""
    start, end = span
    while start < end and not busy[start]:
        start += 1
    while end > start and not busy[end - 1]:
        end -= 1
    while start > 0 and busy[start - 1]:
        start -= 1
    while end < MINUTES and busy[end]:
        end += 1
    return start, end


def _runs(busy: NDArray[np.bool_]) -> list[Span]:
    edges = np.flatnonzero(np.diff(np.concatenate([[False], busy, [False]]).astype(np.int8)))
    return [(int(start), int(end)) for start, end in zip(edges[::2], edges[1::2], strict=True)]
