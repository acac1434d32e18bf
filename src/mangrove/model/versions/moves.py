"""From which contract to which other subjects may pass when one set of contracts takes the place of another.

Contracts are compared by what they match: one that only says something else governs the same subjects as
before. A new one takes subjects from those that are tried after it, one that is gone leaves its own to those.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from mangrove.model.access.pattern_index import PatternIndex
from mangrove.model.topics import BEST_EFFORT, Contract, TopicRules


class Governing(NamedTuple):
    """A contract with its class."""

    topic_class: int
    contract: Contract


def moves(before: TopicRules, after: TopicRules) -> Iterator[tuple[Governing, Governing]]:
    """Pairs of contracts, before and after: no subject passes between any others."""
    old, new = _by_match(before), _by_match(after)
    stay = [match for match in old if match in new]
    if stay != [match for match in new if match in old]:
        yield from _any_order(before, after, old, new)
        return
    for match in stay:
        if old[match] != new[match]:
            yield old[match], new[match]
    made = [match for match in new if match not in old]
    gone = [match for match in old if match not in new]
    place_before, place_after = _places(old), _places(new)
    sources = _index(old.values() if made else ())
    for match in made:
        for source in sources.overlapping(match):
            # One that is gone, or is tried after the new one by now.
            if place_after.get(source.contract.match, len(new)) > place_after[match]:
                yield source, new[match]
        if not any(True for _ in sources.covering(match)):
            yield Governing(before.unmatched, BEST_EFFORT), new[match]
    targets = _index(new.values() if gone else ())
    for match in gone:
        for target in targets.overlapping(match):
            if place_before.get(target.contract.match, -1) > place_before[match]:
                yield old[match], target
        yield old[match], Governing(after.unmatched, BEST_EFFORT)


def _by_match(rules: TopicRules) -> dict[str, Governing]:
    """The first of each pattern: another of the same never governs anything."""
    found: dict[str, Governing] = {}
    for topic_class, contract in rules.numbered():
        found.setdefault(contract.match, Governing(topic_class, contract))
    return found


def _places(order: dict[str, Governing]) -> dict[str, int]:
    return {match: place for place, match in enumerate(order)}


def _index(governing: Iterable[Governing]) -> PatternIndex[Governing]:
    """So that a few thousand contracts need not be compared with each other."""
    index: PatternIndex[Governing] = PatternIndex()
    for each in governing:
        index.add(each.contract.match, each)
    return index


def _any_order(
    before: TopicRules, after: TopicRules, old: dict[str, Governing], new: dict[str, Governing]
) -> Iterator[tuple[Governing, Governing]]:
    sources, targets = list(old.values()), list(new.values())
    if old.keys() - new.keys():
        targets.append(Governing(after.unmatched, BEST_EFFORT))
    if new.keys() - old.keys():
        sources.append(Governing(before.unmatched, BEST_EFFORT))
    at = _index(targets)
    for source in sources:
        for target in at.overlapping(source.contract.match):
            if source != target:
                yield source, target
