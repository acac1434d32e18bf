"""Which of many notes become entries: an attacker must not fill a disk, nor push out what others did.

The first of its kind and facts is written at once. What repeats it within a window is counted, and written
as one entry when the window ends. Each kind has a budget of its own; beyond it facts are left out, and only
how often it happened is written. Pure: time is an argument.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from mangrove.model.audit.entry import AuditKind, Fact, clean_facts

WINDOW_S = 60.0
OTHERS = "others"
"""The fact of an entry that stands for notes whose facts were left out."""

BY_STRANGERS = frozenset(
    {
        AuditKind.CONNECTION_REFUSED,
        AuditKind.MESSAGE_REFUSED,
        AuditKind.ACCESS_REFUSED,
        AuditKind.CLIENT_CONNECTED,
        AuditKind.CLIENT_REFUSED,
        AuditKind.SUBJECT_REFUSED,
        AuditKind.OPERATION_REFUSED,
        AuditKind.REGISTRATION_REFUSED,
        AuditKind.LINK_OPENED,
        AuditKind.LINK_CLOSED,
        AuditKind.LINK_RENEWED,
        AuditKind.LOG_SKIPPED,
    }
)
"""Kinds that somebody without a key, or with one of another domain, can cause as often as he likes."""
STRANGERS_BURST, STRANGERS_S = 20, 30.0
"""So many different ones at once, and then one in so many seconds."""
OWN_BURST, OWN_S = 1_000, 1.0


class Noted(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be written."""

    kind: AuditKind
    facts: dict[str, Fact]
    times: int = 1
    since: float | None = None


Key = tuple[AuditKind, tuple[tuple[str, Fact], ...]]


class _Repeated(msgspec.Struct):
    facts: dict[str, Fact]
    due: float
    times: int = 0
    since: float = 0.0


class _Budget:
    """Entries of one kind."""

    def __init__(self, kind: AuditKind, now: float) -> None:
        stranger = kind in BY_STRANGERS
        self._burst, self._every_s = (STRANGERS_BURST, STRANGERS_S) if stranger else (OWN_BURST, OWN_S)
        self._left = float(self._burst)
        self._at = now

    def take(self, now: float) -> bool:
        saved = max(0.0, now - self._at) / self._every_s
        self._left = min(float(self._burst), self._left + saved)
        self._at = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True


class Gathering:
    """Notes of one process. What it holds is bounded by the budgets."""

    def __init__(self) -> None:
        self.counts: Counter[AuditKind] = Counter()
        """All notes, whether they became entries of their own or not."""
        self._budgets: dict[AuditKind, _Budget] = {}
        self._repeated: dict[Key, _Repeated] = {}

    def note(self, kind: AuditKind, facts: dict[str, Fact], now: float, times: int = 1) -> Noted | None:
        """Something happened, so many times; what is to be written at once, if anything."""
        self.counts[kind] += times
        facts = clean_facts(facts)
        key: Key = (kind, tuple(sorted(facts.items())))
        known = self._repeated.get(key)
        if known is None:
            if self._budgets.setdefault(kind, _Budget(kind, now)).take(now):
                self._repeated[key] = _Repeated(facts, now + WINDOW_S)
                return Noted(kind=kind, facts=facts, times=times)
            others: dict[str, Fact] = {OTHERS: True}
            known = self._repeated.setdefault(
                (kind, tuple(others.items())), _Repeated(others, now + WINDOW_S)
            )
        if not known.times:
            known.since = now
        known.times += times
        return None

    def due(self, now: float) -> list[Noted]:
        """What repeated itself until a window ended."""
        return self._end([key for key, each in self._repeated.items() if each.due <= now])

    def rest(self) -> list[Noted]:
        """All that was counted and not written yet: the process ends."""
        return self._end(list(self._repeated))

    def __len__(self) -> int:
        return len(self._repeated)

    def _end(self, keys: list[Key]) -> list[Noted]:
        ended = [(key[0], self._repeated.pop(key)) for key in keys]
        return [
            Noted(kind=kind, facts=each.facts, times=each.times, since=each.since)
            for kind, each in ended
            if each.times
        ]
