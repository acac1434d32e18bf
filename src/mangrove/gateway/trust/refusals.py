"""Connections that came to nothing: counted by reason, told in the log and to the audit, never a flood.

Whoever knocks a thousand times a second is counted a thousand times; the log and the audit get the first few
of each reason, and then one line a second with how many more there were.
"""

from __future__ import annotations

import logging
from collections import Counter
from enum import StrEnum

from mangrove.host.audit.audit_log import AuditLog
from mangrove.model.audit.entry import AuditKind, Fact
from mangrove.overlay.protocol.frames import FrameError

log = logging.getLogger(__name__)

ONE_BY_ONE = 5
"""Of each reason, in each period."""
PERIOD_S = 1.0
MAX_ADDRESSES = 8


class Refusal(StrEnum):
    """Why a connection was refused, or ended before it served a link."""

    TOO_MANY = "too many connections that have not proven who they are"
    SLOW = "it did not prove who it is, or greet, in time"
    NO_TLS = "it speaks without TLS; links of this gateway are secured"
    TLS = "it speaks TLS; this gateway runs without keys"
    HANDSHAKE = "the TLS handshake failed"
    UNTRUSTED = "its certificate is not trusted"
    WITHDRAWN = "its certificate was revoked, or has expired, while it was connected"
    STRANGER = "its certificate is not of a neighbour's gateway"
    OTHER_DOMAIN = "its HELLO names another domain than its certificate"
    GREETING = "its greeting is not acceptable"
    EARLIER = "a gateway of its domain that started later is served"
    BUSY = "another connection takes the place of the link's at this moment"
    BROKEN = "the connection ended before it had greeted"


class Refusals:
    """Counts, and tells in measure. `flush` is called about once a second."""

    def __init__(self, audit: AuditLog | None = None, *, what: str = "connection") -> None:
        self._audit = audit or AuditLog()
        self._what = what
        self.counts: Counter[str] = Counter()
        self._told: Counter[str] = Counter()
        self._untold: Counter[str] = Counter()
        self._addresses: dict[str, list[str]] = {}

    @property
    def total(self) -> int:
        """All of them."""
        return self.counts.total()

    def note(self, reason: Refusal, who: str, detail: str = "") -> None:
        """A connection with `who` was refused."""
        self.counts[reason] += 1
        if self._told[reason] < ONE_BY_ONE:
            self._told[reason] += 1
            log.warning("refused the %s with %s: %s", self._what, who, detail or reason.value)
            self._write_down(reason, _without_port(who), detail, 1)
            return
        self._untold[reason] += 1
        names = self._addresses.setdefault(reason, [])
        name = _without_port(who)
        if name not in names and len(names) < MAX_ADDRESSES:
            names.append(name)

    def _write_down(self, reason: Refusal, who: str, detail: str, times: int) -> None:
        facts: dict[str, Fact] = {"what": self._what, "who": who, "reason": reason.value}
        if detail:
            facts["detail"] = detail
        self._audit.add(AuditKind.CONNECTION_REFUSED, facts, times)

    def flush(self) -> None:
        """A period ends: tell how many there were beyond those that were told one by one."""
        for reason, times in self._untold.items():
            names = ", ".join(self._addresses.get(reason, ()))
            log.warning("refused %d more %ss with %s: %s", times, self._what, names, reason)
            self._write_down(Refusal(reason), names, "", times)
        self._told.clear()
        self._untold.clear()
        self._addresses.clear()


def _without_port(who: str) -> str:
    return who.rpartition(":")[0] or who


class RefusedError(FrameError):
    """A connection is refused for a reason that is counted."""

    def __init__(self, reason: Refusal, detail: str = "") -> None:
        self.reason = reason
        self.detail = detail
        super().__init__(f"{reason.value}: {detail}" if detail else reason.value)
