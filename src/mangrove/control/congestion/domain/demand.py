"""What clients say and would say, by subject, from their reports: published, and withheld by limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from mangrove.control.load.plausibility import rate_problem
from mangrove.control.profile.traffic import MAX_SPAN_S, MIN_SPAN_S
from mangrove.model.agents.registration import Report, Traffic

NEW = 0.7
"""How much the last report counts; the rest is what was known before."""
MIN_MSG_S = 0.05
"""Who offers less, and reports nothing more, offers nothing."""


class Offering(NamedTuple):
    """Messages and bytes in a second of one client on one subject."""

    said_msg_s: float = 0.0
    said_bytes_s: float = 0.0
    withheld_msg_s: float = 0.0
    withheld_bytes_s: float = 0.0

    @property
    def msg_s(self) -> float:
        """Offered in all."""
        return self.said_msg_s + self.withheld_msg_s

    @property
    def bytes_s(self) -> float:
        """Offered in all."""
        return self.said_bytes_s + self.withheld_bytes_s

    @property
    def size_bytes(self) -> float:
        """Of a message, on average."""
        return self.bytes_s / self.msg_s if self.msg_s > 0.0 else 0.0


SILENT = Offering()


class Demand:
    """The offerings of all clients of a domain."""

    def __init__(self) -> None:
        self.refused: Counter[str] = Counter()
        self._clients: dict[str, dict[str, Offering]] = {}

    def report(self, report: Report) -> None:
        """Take a client's report in; what it does not name was silent."""
        before = self._clients.get(report.client)
        if not report.published and not report.withheld and not before:
            return
        if not MIN_SPAN_S <= report.span_s <= MAX_SPAN_S or not _plausible(report):
            self.refused["impossible demand"] += 1
            return
        offered: dict[str, Offering] = {}
        for subject in {*report.published, *report.withheld, *(before or ())}:
            found = _offering(report.published.get(subject), report.withheld.get(subject), report.span_s)
            known = None if before is None else before.get(subject)
            mixed = found if known is None else _mixed(known, found)
            if mixed.msg_s >= MIN_MSG_S:
                offered[subject] = mixed
        if offered:
            self._clients[report.client] = offered
        elif before is not None:
            del self._clients[report.client]

    def left(self, client: str) -> None:
        """A client is gone."""
        self._clients.pop(client, None)

    def of(self, client: str) -> Mapping[str, Offering]:
        """What a client offers, by subject."""
        return self._clients.get(client, {})

    def __iter__(self) -> Iterator[tuple[str, str, Offering]]:
        """Every client and subject with what is offered."""
        for client, offered in self._clients.items():
            for subject, offering in offered.items():
                yield client, subject, offering


def _plausible(report: Report) -> bool:
    messages = size_bytes = 0
    for told in (report.published, report.withheld):
        for traffic in told.values():
            if traffic.messages < 0 or traffic.size_bytes < 0:
                return False
            messages += traffic.messages
            size_bytes += traffic.size_bytes
    return not rate_problem(messages / report.span_s, size_bytes / report.span_s)


def _offering(said: Traffic | None, withheld: Traffic | None, span_s: float) -> Offering:
    return Offering(
        0.0 if said is None else said.messages / span_s,
        0.0 if said is None else said.size_bytes / span_s,
        0.0 if withheld is None else withheld.messages / span_s,
        0.0 if withheld is None else withheld.size_bytes / span_s,
    )


def _mixed(before: Offering, now: Offering) -> Offering:
    return Offering(*(NEW * new + (1.0 - NEW) * old for old, new in zip(before, now, strict=True)))
