"""What faults did to a stream, over all repetitions: arithmetic on accounts, nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from statistics import median

import msgspec
import numpy as np

from mangrove.testbed.accounting import Figures, Record, Span, figures

PAUSE_MS = 20.0
"""A repetition in which the publisher itself paused for longer says nothing of brokers, and is left out."""
UNDER_WAY_NS = 100_000_000
"""The account of a fault begins so long before it: what was under way when it happened is part of it."""
LATE_MS = 100.0


class Fault(StrEnum):
    """What happens to a broker, or to the host that it is on."""

    KILL = "SIGKILL"
    FREEZE = "SIGSTOP"
    CUT_OFF = "black hole"


class Repetition(msgspec.Struct, frozen=True, kw_only=True):
    """One fault, and what became of each stream."""

    fault: Fault
    victim: str
    """Which part failed: `head`, `primary` or `mirror`."""
    figures: dict[str, Figures]
    paused_ms: float
    """The longest pause of our publisher: of that stream of it which paused least, as streams do not wait for
    each other; one alone that cannot be sent is what the fault did."""
    waited_ms: float
    """How long of it, at most, it was ready to run and had no processor."""


class Total(msgspec.Struct, frozen=True, kw_only=True):
    """All repetitions of a fault that count, for one stream."""

    repetitions: int
    sent: int
    lost: int
    duplicated: int
    out_of_order: int
    median_gap_ms: float
    longest_gap_ms: float


def account(
    sent: Mapping[str, bytes], arrived: Mapping[str, tuple[bytes, bytes]], span: Span
) -> dict[str, Figures]:
    """What became of what was sent in a span, by stream, from what both ends noted."""
    return {
        subject: figures(Record(_times(times), *map(_times, arrived[subject])), span, LATE_MS)
        for subject, times in sent.items()
    }


def counting(repetitions: Iterable[Repetition]) -> list[Repetition]:
    """Those in which our publisher did not pause by itself."""
    return [each for each in repetitions if each.paused_ms <= PAUSE_MS]


def totals(repetitions: Iterable[Repetition]) -> dict[str, Total]:
    """Of repetitions of one fault, by stream."""
    rows: dict[str, list[Figures]] = {}
    for repetition in repetitions:
        for stream, each in repetition.figures.items():
            rows.setdefault(stream, []).append(each)
    return {
        stream: Total(
            repetitions=len(row),
            sent=sum(each.sent for each in row),
            lost=sum(each.lost for each in row),
            duplicated=sum(each.duplicated for each in row),
            out_of_order=sum(each.out_of_order for each in row),
            median_gap_ms=median(each.longest_gap_ms for each in row),
            longest_gap_ms=max(each.longest_gap_ms for each in row),
        )
        for stream, row in rows.items()
    }


def _times(data: bytes) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.frombuffer(data, dtype=np.int64)
