"""The book of what was refused at the border of the domain, by rule."""

from __future__ import annotations

import logging

import msgspec

from mangrove.host.audit.audit_log import AuditLog
from mangrove.model.access.evaluation import Decision
from mangrove.model.access.refusals import AccessRefusal, Crossing
from mangrove.model.audit.entry import AuditKind

log = logging.getLogger(__name__)

MAX_ROWS = 1000
OTHERS = "(others)"
"""What is refused beyond that many combinations of a rule and a domain is counted under this name."""


class _Row(msgspec.Struct):
    count: int
    example: str


class BorderBook:
    """Counts in bounded memory. Of each rule and domain the first refusal is logged, then the tenth, …"""

    def __init__(self, audit: AuditLog | None = None) -> None:
        self._audit = audit or AuditLog()
        self._rows: dict[tuple[str, Crossing, str], _Row] = {}

    @property
    def total(self) -> int:
        """Messages that were refused; one that two domains may not have counts twice."""
        return sum(row.count for row in self._rows.values())

    def refuse(self, crossing: Crossing, other: str, subject: str, decision: Decision, count: int) -> None:
        """Some messages on a subject may not pass to, or from, another domain."""
        key = (decision.place, crossing, other)
        row = self._rows.get(key)
        if row is None:
            if len(self._rows) >= MAX_ROWS:
                key = (OTHERS, crossing, OTHERS)
            row = self._rows.setdefault(key, _Row(0, subject))
        before, row.count = row.count, row.count + count
        rule, _, domain = key
        if len(str(row.count)) > len(str(before)) or not before:
            log.warning("%s may not %s: %s; %d so far", subject, crossing.phrase(domain), rule, row.count)
        facts = {"rule": rule, "crossing": crossing.value, "domain": domain, "such_as": row.example}
        self._audit.add(AuditKind.ACCESS_REFUSED, {**facts}, count)

    def figures(self) -> tuple[AccessRefusal, ...]:
        """What was refused, the most first."""
        rows = sorted(self._rows.items(), key=lambda item: -item[1].count)
        return tuple(
            AccessRefusal(rule=rule, crossing=crossing, domain=domain, count=row.count, example=row.example)
            for (rule, crossing, domain), row in rows
        )
