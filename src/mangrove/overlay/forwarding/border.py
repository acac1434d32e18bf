"""The border of a domain: what may leave it, what may enter it, and what need not be told of interest.

Both ends judge by their own rules (`model.access`), so a gateway that lets out what it should not is stopped
by the next domain's. A subject is judged once for a set of flows, and the answer kept: nothing is asked for
each message.
"""

from __future__ import annotations

from typing import NamedTuple

from mangrove.model.access.evaluation import AccessJudge, Decision
from mangrove.model.access.rules import AccessRules, Action

MAX_KEPT = 1 << 14


class Passage(NamedTuple):
    """Where a subject may go, as bits, and why not elsewhere."""

    allowed: int
    refused: dict[int, Decision]


class Border:
    """Judges for one domain. Where there are no rules, there is no border (`border_of`)."""

    def __init__(self, domain: str, order: tuple[str, ...], rules: AccessRules) -> None:
        self._domain = domain
        self._rules = rules
        self._judge = AccessJudge(rules)
        self._passages: dict[str, Passage] = {}
        self._classes: dict[tuple[int, ...], int] = {}
        self.adopt(order)

    def adopt(self, order: tuple[str, ...]) -> None:
        """These are the domains from now on."""
        self._others = {1 << position: name for position, name in enumerate(order) if name != self._domain}
        self._passages.clear()
        self._classes.clear()
        self._class_of = {name: self._class(name, self._rules) for name in order if name != self._domain}

    def leaving(self, subject: str) -> Passage:
        """The domains to which messages on a literal subject may go from here."""
        found = self._passages.get(subject)
        if found is None:
            if len(self._passages) >= MAX_KEPT:
                self._passages.clear()
            decisions = {
                bit: self._judge.crossing(self._domain, name, subject) for bit, name in self._others.items()
            }
            found = self._passages[subject] = Passage(
                sum(bit for bit, decision in decisions.items() if decision),
                {bit: decision for bit, decision in decisions.items() if not decision},
            )
        return found

    def entering(self, origin: str, subject: str) -> Decision:
        """Whether messages on a literal subject may come in from another domain."""
        return self._judge.crossing(origin, self._domain, subject)

    def leaving_for(self, destination: str, subject: str) -> Decision:
        """Whether messages on a literal subject may go to one domain."""
        return self._judge.crossing(self._domain, destination, subject)

    def hears(self, pattern: str) -> bool:
        """Whether anything under a pattern may come in at all: else nobody need know that it is wanted."""
        return self._judge.may_hear(self._domain, pattern)

    def tells(self, destination: str, pattern: str) -> bool:
        """Whether anything under a pattern may go to a domain: else it does not matter that it wants it."""
        return self._judge.may_tell(self._domain, destination, pattern)

    @property
    def classes(self) -> int:
        """How many kinds of origins there are."""
        return len(self._classes)

    def class_of(self, origin: str) -> int:
        """Origins of one class are judged alike, whatever the subject; -1 for who is no other domain."""
        return self._class_of.get(origin, -1)

    def _class(self, origin: str, rules: AccessRules) -> int:
        named = tuple(
            number
            for number, rule in enumerate(rules.rules)
            if origin in rule.origins or (Action.PUBLISH in rule.actions and origin in rule.who.domain)
        )
        return self._classes.setdefault(named, len(self._classes))


def border_of(domain: str, order: tuple[str, ...], rules: AccessRules) -> Border | None:
    """The border of a domain; None where nothing is ever refused."""
    return Border(domain, order, rules) if rules else None
