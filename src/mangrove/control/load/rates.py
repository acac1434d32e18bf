"""From counters that only grow to rates, over the time that really passed between two samples."""

from __future__ import annotations

from typing import NamedTuple

from mangrove.control.load.plausibility import amount_problem, rate_problem
from mangrove.model.agents.load import BrokerSample

SHORTEST_PERIODS = 0.1
"""Samples closer than this part of a period are left out: their difference is mostly jitter."""
LONGEST_PERIODS = 5.0
"""After a longer gap a rate would be the mean of a time that nobody watched, or of a clock that jumped."""


class Rates(NamedTuple):
    """What passes a broker in a second."""

    messages_in: float
    messages_out: float
    bytes_in: float
    bytes_out: float


class Taken(NamedTuple):
    """What became of a sample."""

    rates: Rates | None
    refused: str = ""
    """Why there are no rates, unless it is the first sample."""
    begins: bool = False
    """Whether counting begins with it: nothing of before may be mixed with what follows."""


class RateMeter:
    """Differences the samples of one broker. Whatever cannot be right gives no rate and a reason."""

    def __init__(self, period_s: float) -> None:
        self._shortest_s = SHORTEST_PERIODS * period_s
        self._longest_s = LONGEST_PERIODS * period_s
        self._base: BrokerSample | None = None
        self._base_at = 0.0

    def take(self, sample: BrokerSample, now: float) -> Taken:
        """The rates since the last sample, or none and why."""
        if problem := sample_problem(sample):
            return Taken(None, problem)
        if sample.taken_at is not None:
            now = min(now, sample.taken_at)  # an agent that had no time may be told late
        base, elapsed_s = self._base, now - self._base_at
        if base is None:
            return self._begin(sample, now, "")
        if sample.started != base.started:
            return self._begin(sample, now, "restarted")
        if elapsed_s < 0:
            return self._begin(sample, now, "clock went back")
        if elapsed_s < self._shortest_s:
            return Taken(None, "too soon")
        if elapsed_s > self._longest_s:
            return self._begin(sample, now, "gap")
        rates = Rates(
            (sample.messages_in - base.messages_in) / elapsed_s,
            (sample.messages_out - base.messages_out) / elapsed_s,
            (sample.bytes_in - base.bytes_in) / elapsed_s,
            (sample.bytes_out - base.bytes_out) / elapsed_s,
        )
        if min(rates) < 0:
            return self._begin(sample, now, "counter fell")
        if rate_problem(rates.messages_in, rates.bytes_in) or rate_problem(
            rates.messages_out, rates.bytes_out
        ):
            # The old base stays: a single wild value is passed over, a lasting one ends as a gap.
            return Taken(None, "impossible")
        self._base, self._base_at = sample, now
        return Taken(rates)

    def forget(self) -> None:
        """The broker was away: the next sample is a first one."""
        self._base = None

    def _begin(self, sample: BrokerSample, now: float, reason: str) -> Taken:
        self._base, self._base_at = sample, now
        return Taken(None, reason, True)


def sample_problem(sample: BrokerSample) -> str:
    """Why a sample cannot be right whatever came before it, or nothing."""
    figures = (
        sample.messages_in,
        sample.messages_out,
        sample.bytes_in,
        sample.bytes_out,
        sample.connections,
        sample.subscriptions,
        sample.pending_bytes,
        sample.cpu_percent,
        sample.memory_bytes,
        sample.slow_consumers,
        sample.processing_ms or 0.0,
        sample.taken_at or 0.0,
    )
    return next((problem for figure in figures if (problem := amount_problem(figure))), "")
