"""From which contract to which other subjects may pass when one set of contracts takes the place of another.

Contracts are compared by what they match: one that only says something else governs the same subjects as
before. A new one takes subjects from those that are tried after it, one that is gone leaves its own to those.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from mangrove.model.subjects import covers
from mangrove.model.topics import BEST_EFFORT, Contract, TopicRules, overlaps


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
    for match in (match for match in new if match not in old):
        later = _after(new, match)
        for source in old.values():
            persists = source.contract.match in new
            if _overlap(source, match) and (source.contract.match in later or not persists):
                yield source, new[match]
        if not any(covers(each, match) for each in old):
            yield Governing(before.unmatched, BEST_EFFORT), new[match]
    for match in (match for match in old if match not in new):
        later = _after(old, match)
        for target in new.values():
            if _overlap(target, match) and target.contract.match in later:
                yield old[match], target
        yield old[match], Governing(after.unmatched, BEST_EFFORT)


def _by_match(rules: TopicRules) -> dict[str, Governing]:
    """The first of each pattern: another of the same never governs anything."""
    found: dict[str, Governing] = {}
    for topic_class, contract in rules.numbered():
        found.setdefault(contract.match, Governing(topic_class, contract))
    return found


def _after(order: dict[str, Governing], match: str) -> set[str]:
    matches = list(order)
    return set(matches[matches.index(match) + 1 :])


def _overlap(other: Governing, match: str) -> bool:
    return overlaps(other.contract.match, match)


def _any_order(
    before: TopicRules, after: TopicRules, old: dict[str, Governing], new: dict[str, Governing]
) -> Iterator[tuple[Governing, Governing]]:
    sources, targets = list(old.values()), list(new.values())
    if old.keys() - new.keys():
        targets.append(Governing(after.unmatched, BEST_EFFORT))
    if new.keys() - old.keys():
        sources.append(Governing(before.unmatched, BEST_EFFORT))
    for source in sources:
        for target in targets:
            if source != target and _overlap(source, target.contract.match):
                yield source, target
