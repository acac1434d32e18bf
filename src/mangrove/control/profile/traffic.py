"""What each client carries for each of its wishes, period by period, as it reports it."""

from __future__ import annotations

from mangrove.control.load.plausibility import rate_problem
from mangrove.control.load.smoothing import smoothed
from mangrove.model.agents.registration import REPORT_S, Report, Traffic, Wish

MAX_SPAN_S = 60.0
MIN_SPAN_S = 0.01


class Stream:
    """The traffic of one wish: the rates of the last periods, and the period of the newest of them."""

    __slots__ = ("broker", "client", "period", "rates", "wish")

    def __init__(self, client: ClientTraffic, wish: Wish, broker: str) -> None:
        self.client = client
        self.wish = wish
        self.broker = broker
        self.rates: tuple[tuple[float, float], ...] = ()
        """Messages and bytes in a second, the oldest first; at most a window of them."""
        self.period = client.period

    def record(self, messages_s: float, bytes_s: float, period: int, periods: int, window: int) -> None:
        """The rates of the `periods` that end with `period`; nothing was carried in those left out before."""
        silent = min(period - periods - self.period, window) if self.rates else 0
        rates = self.rates + ((0.0, 0.0),) * silent + ((messages_s, bytes_s),) * min(periods, window)
        self.rates = rates[-window:]
        self.period = period

    def smoothed(self, window: int) -> tuple[float, float]:
        """Messages and bytes in a second; periods in which the client told nothing of it were silent."""
        if not self.rates:
            return 0.0, 0.0
        silent = self.client.period - self.period
        if silent >= window:
            return 0.0, 0.0
        rates = (self.rates + ((0.0, 0.0),) * silent)[-window:]
        return smoothed([rate[0] for rate in rates], window), smoothed([rate[1] for rate in rates], window)


class ClientTraffic:
    """One client's wishes, and how many periods it has reported."""

    __slots__ = ("name", "period", "published", "sequence", "streams")

    def __init__(self, name: str) -> None:
        self.name = name
        self.period = 0
        self.sequence = -1
        self.streams: dict[str, Stream] = {}
        """By the client's own key."""
        self.published: dict[str, Stream] = {}
        """Those of publishers, by subject."""

    def take(self, report: Report, window: int) -> int:
        """Record a plausible report; how many of its keys and subjects are not registered."""
        periods = max(1, round(report.span_s / REPORT_S))
        self.period += periods
        self.sequence = report.sequence
        unknown = 0
        for streams, told in ((self.streams, report.received), (self.published, report.published)):
            for key, traffic in told.items():
                stream = streams.get(key)
                if stream is None:
                    unknown += 1
                    continue
                messages_s, bytes_s = traffic.messages / report.span_s, traffic.size_bytes / report.span_s
                stream.record(messages_s, bytes_s, self.period, periods, window)
        return unknown


def report_problem(report: Report) -> str:
    """Why a report cannot be right, or nothing."""
    if not MIN_SPAN_S <= report.span_s <= MAX_SPAN_S:
        return "impossible span"
    for told in (report.received, report.published):
        if told and (problem := _sum_problem(told, report.span_s)):
            return problem
    return ""


def _sum_problem(told: dict[str, Traffic], span_s: float) -> str:
    """Each figure on its own, and all that one client carries together."""
    messages = size_bytes = 0
    for traffic in told.values():
        if traffic.messages < 0 or traffic.size_bytes < 0:
            return "negative"
        if traffic.size_bytes and not traffic.messages:
            return "impossible"
        messages += traffic.messages
        size_bytes += traffic.size_bytes
    return rate_problem(messages / span_s, size_bytes / span_s)
