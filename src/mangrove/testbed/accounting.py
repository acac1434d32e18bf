"""What became of every message of a stream, as arithmetic on two lists of times: no sockets, no clock.

The publisher notes when it sent each message, the subscriber what arrived and when. Everything a measurement
reports follows from these, for the whole run or for the messages sent within one phase of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Record:
    """One topic's stream. Times in ns of one clock; `arrived` holds numbers, in the order of arrival.

    Message number n was sent at `sent_ns[n]`; `arrived[i]` arrived at `arrived_ns[i]`.
    """

    sent_ns: Times
    arrived: Times
    arrived_ns: Times

    def __post_init__(self) -> None:
        if len(self.arrived) != len(self.arrived_ns):
            raise ValueError("every arrival needs its time")
        if len(self.arrived) and not 0 <= self.arrived.min() <= self.arrived.max() < len(self.sent_ns):
            raise ValueError("a message arrived that was never sent")


@dataclass(frozen=True, slots=True)
class Span:
    """A phase of a run, in ns of the clock of the records; the end is not part of it."""

    start_ns: int
    end_ns: int


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The account of the messages sent in a span. Latencies are those of first arrivals; None: no arrival.

    `out_of_order` came, for the first time, after a message that was sent later than they were.
    `late` arrived after the limit; `in_time_ratio` is the share of all sent messages that arrived within it.
    `longest_gap_ms` is the longest silence at the subscriber, `longest_send_gap_ms` that of the publisher:
    when the two are close, the machine paused and not the path.
    """

    sent: int
    delivered: int
    lost: int
    duplicated: int
    out_of_order: int
    late: int
    in_time_ratio: float | None
    longest_gap_ms: float
    longest_send_gap_ms: float
    longest_latency_ms: float | None
    p50_ms: float | None
    p99_ms: float | None


def figures(record: Record, span: Span, limit_ms: float) -> Figures:
    """Account for the messages sent in `span`; those that took longer than `limit_ms` are late."""
    numbers, first = np.unique(record.arrived, return_index=True)
    copies = np.bincount(record.arrived, minlength=len(record.sent_ns))
    chosen = (record.sent_ns >= span.start_ns) & (record.sent_ns < span.end_ns)
    of_span = chosen[numbers]
    latency_ms = (record.arrived_ns[first] - record.sent_ns[numbers])[of_span] / 1e6
    sent, delivered = int(chosen.sum()), int(of_span.sum())
    late = int((latency_ms > limit_ms).sum())
    return Figures(
        sent=sent,
        delivered=delivered,
        lost=sent - delivered,
        duplicated=int(copies[chosen].sum()) - delivered,
        out_of_order=int((chosen[record.arrived] & _overtaken(record.arrived, first)).sum()),
        late=late,
        in_time_ratio=(delivered - late) / sent if sent else None,
        longest_gap_ms=_longest_silence_ms(record.sent_ns, record.arrived_ns[first], span),
        longest_send_gap_ms=_longest_silence_ms(record.sent_ns, record.sent_ns, span),
        longest_latency_ms=float(latency_ms.max()) if delivered else None,
        p50_ms=float(np.quantile(latency_ms, 0.50)) if delivered else None,
        p99_ms=float(np.quantile(latency_ms, 0.99)) if delivered else None,
    )


def _overtaken(arrived: Times, first: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Which arrivals are first ones of messages that a later message came before."""
    overtaken = np.zeros(len(arrived), dtype=np.bool_)
    overtaken[first] = (arrived < np.maximum.accumulate(arrived))[first]
    return overtaken


def _longest_silence_ms(sent_ns: Times, events_ns: Times, span: Span) -> float:
    """The longest time without an event, out of the silences that touch the span.

    A silence counts in full in the span that holds its middle and with its part in the others: one that
    begins a moment before a failure is not cut, and one that ends as the link returns is not charged to the
    return. A stream that never arrives, or stops arriving, is silent from its first or to its last sending.
    """
    if not len(sent_ns):
        return 0.0
    bounds = np.array([sent_ns[0], max(sent_ns[-1], events_ns.max(initial=sent_ns[-1]))])
    events = np.sort(np.concatenate([events_ns, bounds]))
    starts, ends = events[:-1], events[1:]
    middle = starts + (ends - starts) // 2
    whole = (middle >= span.start_ns) & (middle < span.end_ns)
    parts = np.minimum(ends, span.end_ns) - np.maximum(starts, span.start_ns)
    lengths = np.where(whole, ends - starts, parts)
    return max(0.0, float(lengths.max()) / 1e6)
