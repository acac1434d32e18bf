"""How a topic is mirrored, by the contracts that govern what falls under it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from mangrove.model.congestion.terms import TopicTerms
from mangrove.model.subjects import covers
from mangrove.model.topics import Mirror, TopicRules, overlaps

_STRICTNESS = (Mirror.NONE, Mirror.STANDBY, Mirror.BOTH)


class MirrorModes:
    """The mode of a subject is that of its contract; of a pattern, the strictest of what falls under it.

    So a subscriber of `>` hears at a mirror whatever a publisher may send there.
    """

    def __init__(self, modes: Iterable[tuple[str, Mirror]]) -> None:
        """Patterns with their modes, of which the first that matches a subject counts."""
        self._modes = list(modes)
        while self._modes and not self._modes[-1][1]:  # whatever these govern has none
            self._modes.pop()
        self.of = lru_cache(maxsize=1 << 14)(self._of) if self._modes else _none
        """The mode of a topic."""

    def __bool__(self) -> bool:
        return bool(self._modes)

    def _of(self, topic: str) -> Mirror:
        strictest = Mirror.NONE
        for match, mode in self._modes:
            if overlaps(match, topic):
                strictest = max(strictest, mode, key=_STRICTNESS.index)
                if covers(match, topic):
                    break
        return strictest


def contracted_modes(rules: TopicRules) -> MirrorModes:
    """What the contracts of a federation say."""
    return MirrorModes((contract.match, contract.mirror) for contract in rules.contracts)


def told_modes(terms: Iterable[TopicTerms]) -> MirrorModes:
    """What clients were told of them; a word that is not known is none."""
    known = {mode.value: mode for mode in Mirror}
    return MirrorModes((each.match, known.get(each.mirror, Mirror.NONE)) for each in terms)


def _none(topic: str) -> Mirror:
    return Mirror.NONE
