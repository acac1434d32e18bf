"""How a topic is mirrored, by the contracts that govern what falls under it."""

from __future__ import annotations

from functools import lru_cache

from mangrove.model.subjects import covers
from mangrove.model.topics import Contract, Mirror, TopicRules, overlaps

_STRICTNESS = (Mirror.NONE, Mirror.STANDBY, Mirror.BOTH)


class MirrorModes:
    """The mode of a subject is that of its contract; of a pattern, the strictest of what falls under it.

    So a subscriber of `>` hears at a mirror whatever a publisher may send there.
    """

    def __init__(self, rules: TopicRules) -> None:
        self._contracts = _that_matter(rules.contracts)
        self.any = any(contract.mirror for contract in self._contracts)
        """Whether a contract asks for a mirror at all."""
        self.of = lru_cache(maxsize=1 << 14)(self._of) if self.any else _none
        """The mode of a topic."""

    def _of(self, topic: str) -> Mirror:
        strictest = Mirror.NONE
        for contract in self._contracts:
            if overlaps(contract.match, topic):
                strictest = max(strictest, contract.mirror, key=_STRICTNESS.index)
                if covers(contract.match, topic):
                    break
        return strictest


def _none(topic: str) -> Mirror:
    return Mirror.NONE


def _that_matter(contracts: tuple[Contract, ...]) -> tuple[Contract, ...]:
    """Without those after the last that asks for a mirror: whatever they govern has none."""
    while contracts and not contracts[-1].mirror:
        contracts = contracts[:-1]
    return contracts
