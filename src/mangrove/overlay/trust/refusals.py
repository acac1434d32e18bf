"""What was refused, who brought it and in whose name: counted, told in the story, and bounded in its cost.

An honest gateway passes on only what it has checked, so who brings something forged has made it, or has been
careless. Its link is not closed for that: the link carries others' messages too, and nobody must be able to
cut two honest gateways apart. But the neighbour is named, and what it brings is no longer looked into
once it has brought too much that was wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import Enum

import msgspec

from mangrove.model.events.event_log import EventLog
from mangrove.overlay.events.happenings import StatementRefused

BURST = 40
PER_S = 20.0
"""So many signatures of a neighbour may turn out wrong: at once, and in a second. Each costs 0.1 ms."""
TOLD_AGAIN_S = 5.0
"""How often the story tells of the same thing."""
NOBODY = "nobody known"
MAX_DETAIL = 160


class Refusal(Enum):
    """Why something was not believed."""

    UNSIGNED = "it is not signed"
    FORGED = "its origin has not signed it"
    OLD = "it was signed too long ago, or by a clock that is wrong"
    IMPOSSIBLE = "its origin cannot say this"
    OTHER_CONTENT = "its origin has signed something else"
    OWN_NAME = "it speaks in the name of this domain"
    LATER_LIFE = "a later life of this domain has said it: another gateway, or a clock that was set back"
    MISPLACED = "its origin's way does not lead through who brought it"
    TOO_MANY = "who brought it has brought too much that was wrong"


class _Told(msgspec.Struct):
    at: float
    count: int = 0
    """Since then."""


class _Credit(msgspec.Struct):
    left: float
    at: float


class Refusals:
    """Counts what was refused, by neighbour and reason."""

    def __init__(self, members: Iterable[str], log: EventLog) -> None:
        self._members = frozenset(members)
        self._log = log
        self._told: dict[tuple[str, str, str, Refusal], _Told] = {}
        self._untold = False
        self._credits: dict[str, _Credit] = {}
        self.counts: Counter[str] = Counter()
        self.by_peer: Counter[str] = Counter()
        """How much each neighbour has brought that was refused."""

    def adopt(self, members: Iterable[str]) -> None:
        """Other domains are members."""
        self._members = frozenset(members)

    def note(self, peer: str, origin: str, what: str, why: Refusal, now: float, detail: str = "") -> None:
        """Something in the name of `origin` that a neighbour brought was refused."""
        origin = origin if origin in self._members else NOBODY
        self.by_peer[peer] += 1
        self.counts[f"{what} from {peer} in the name of {origin}: {why.value}"] += 1
        told = self._told.get((peer, origin, what, why))
        if told is not None and now < told.at + TOLD_AGAIN_S:
            told.count += 1
            self._untold = True
            return
        count = 1 if told is None else told.count + 1
        self._told[peer, origin, what, why] = _Told(now)
        reason = f"{why.value} ({detail[:MAX_DETAIL]})" if detail else why.value
        refused = StatementRefused(peer=peer, origin=origin, what=what, reason=reason, count=count)
        self._log.note(refused, now)

    def tell(self, now: float, *, last: bool = False) -> None:
        """Tell how often things were refused that have not come again since; all of them, at the `last`."""
        if not self._untold:
            return
        self._untold = False
        for (peer, origin, what, why), told in self._told.items():
            if told.count and (last or now >= told.at + TOLD_AGAIN_S):
                self._log.note(
                    StatementRefused(peer=peer, origin=origin, what=what, reason=why.value, count=told.count),
                    now,
                )
                told.at, told.count = now, 0
            self._untold = self._untold or bool(told.count)

    def charge(self, peer: str, now: float) -> None:
        """A neighbour has brought a signature that is wrong."""
        credit = self._credit(peer, now)
        credit.left -= 1

    def trusted(self, peer: str, now: float) -> bool:
        """Whether what a neighbour brings is worth the cost of looking into it."""
        return peer not in self._credits or self._credit(peer, now).left >= 1

    def _credit(self, peer: str, now: float) -> _Credit:
        credit = self._credits.setdefault(peer, _Credit(BURST, now))
        credit.left = min(BURST, credit.left + PER_S * max(0.0, now - credit.at))
        credit.at = now
        return credit
