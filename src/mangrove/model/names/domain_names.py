"""What subjects and patterns are called on the other side of a domain's gateway.

A subject under a mapping has its other name. One that is under none keeps its name, unless that name is taken
on the other side: then it has none there, and stays where it is. So two subjects never get one name. Inboxes
and all else that is internal keeps its name always; behind the prefix of second copies the rest is renamed.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from mangrove.model.names.mapping import Direction, NameMapping
from mangrove.model.shared_names import MIRROR_AGAIN, MIRROR_NEWEST, MIRROR_PREFIX
from mangrove.model.subjects import covers, is_internal
from mangrove.model.topics import overlaps

MAX_KNOWN = 1 << 16


class _Space(NamedTuple):
    """One mapping as seen from one side: what it is called there and beyond, and whether messages pass."""

    near: tuple[str, ...]
    far: tuple[str, ...]
    whole: bool
    passes: bool


class _Side:
    """Translation in one direction."""

    def __init__(self, spaces: Iterable[_Space], taken: Iterable[str]) -> None:
        """`taken` are names that mean something else on the far side."""
        self._spaces = list(spaces)
        self._near = [".".join((*each.near, ">") if each.whole else each.near) for each in self._spaces]
        self._taken = list(taken)
        self.name = lru_cache(maxsize=MAX_KNOWN)(self._name)
        self.patterns = lru_cache(maxsize=MAX_KNOWN)(self._patterns)

    def _name(self, subject: str) -> str | None:
        if is_internal(subject):
            topic = _topic_of_copy(subject)
            if topic is None:
                return subject
            other = self._name(topic)
            return None if other is None else MIRROR_PREFIX + other
        tokens = tuple(subject.split("."))
        for space in self._spaces:
            size = len(space.near)
            if tokens[:size] == space.near and (len(tokens) > size if space.whole else len(tokens) == size):
                return ".".join(space.far + tokens[size:]) if space.passes else None
        return None if any(covers(each, subject) for each in self._taken) else subject

    def _patterns(self, pattern: str) -> tuple[str, ...]:
        if is_internal(pattern):
            topic = _topic_of_copy(pattern)
            if topic is None:
                return (pattern,)
            return tuple(MIRROR_PREFIX + each for each in self._patterns(topic))
        found = dict.fromkeys(
            ".".join(other)
            for space in self._spaces
            if space.passes and (other := _within(tuple(pattern.split(".")), space)) is not None
        )
        if not any(covers(each, pattern) for each in (*self._near, *self._taken)):
            found[pattern] = None
        return tuple(found)


class DomainNames:
    """The names of one domain. Its mappings were found to be without problems."""

    def __init__(self, mappings: Iterable[NameMapping]) -> None:
        self.mappings = tuple(mappings)
        tokens = [(_tokens(each.local), _tokens(each.federation), each) for each in self.mappings]
        local = [each.local for each in self.mappings]
        federation = [each.federation for each in self.mappings]

        def outward(barred: Direction | None) -> _Side:
            spaces = (_Space(n, f, m.whole_space, m.direction is not barred) for n, f, m in tokens)
            return _Side(spaces, federation)

        def inward(barred: Direction | None) -> _Side:
            spaces = (_Space(f, n, m.whole_space, m.direction is not barred) for n, f, m in tokens)
            return _Side(spaces, local)

        self._leaving, self._wanted_elsewhere = outward(Direction.IN), inward(Direction.IN)
        self._entering, self._wanted_here = inward(Direction.OUT), outward(Direction.OUT)
        self._there, self._here = outward(None), inward(None)

    def leaving(self, subject: str) -> str | None:
        """What a local subject is called in the federation; None if it does not leave the domain."""
        return self._leaving.name(subject)

    def entering(self, subject: str) -> str | None:
        """What a subject of the federation is called here; None if it does not enter."""
        return self._entering.name(subject)

    def name_there(self, subject: str) -> str | None:
        """What a local subject is called in the federation, whichever way messages pass; None if nothing."""
        return self._there.name(subject)

    def wanted_here(self, pattern: str) -> tuple[str, ...]:
        """Of what is subscribed to here, what is to be asked of other domains.

        All that enters and falls under the local pattern falls under one of these. A wildcard that reaches
        over part of a renamed space cannot leave that part out: more may come, and finds nobody.
        """
        return self._wanted_here.patterns(pattern)

    def wanted_elsewhere(self, pattern: str) -> tuple[str, ...]:
        """Of what is wanted elsewhere, what is to be subscribed to here; wide as above."""
        return self._wanted_elsewhere.patterns(pattern)

    def called_here(self, pattern: str) -> tuple[str, ...]:
        """What a subject or pattern of the federation is called here, whichever way messages pass."""
        return self._here.patterns(pattern)

    def called_there(self, pattern: str) -> tuple[str, ...]:
        """What a local subject or pattern is called in the federation, whichever way messages pass."""
        return self._there.patterns(pattern)

    def allowed_here(self, pattern: str) -> tuple[str, ...]:
        """Local patterns under which nothing falls that does not fall under a pattern of the federation.

        A wildcard that reaches over part of a local space, which is called otherwise there, is left out: it
        would allow what is not meant.
        """
        return tuple(
            each
            for each in self.called_here(pattern)
            if each != pattern
            or all(
                covers(pattern, mapping.federation)
                for mapping in self.mappings
                if overlaps(pattern, mapping.local)
            )
        )

    def mapping_of(self, subject: str, *, local: bool) -> NameMapping | None:
        """The mapping that a subject falls under, by its local name or the federation's."""
        for each in self.mappings:
            if covers(each.local if local else each.federation, subject):
                return each
        return None


def _tokens(name: str) -> tuple[str, ...]:
    return tuple(name.removesuffix(".>").split("."))


def _within(pattern: tuple[str, ...], space: _Space) -> tuple[str, ...] | None:
    """The part of a pattern that lies in a space, by its far name; None if there is none."""
    for position, token in enumerate(space.near):
        if position == len(pattern):
            return None
        if pattern[position] == ">":
            return (*space.far, ">") if space.whole else space.far
        if pattern[position] not in ("*", token):
            return None
    rest = pattern[len(space.near) :]
    if not space.whole:
        return None if rest else space.far
    return space.far + rest if rest else None


def _topic_of_copy(subject: str) -> str | None:
    """What stands behind the prefix of second copies, if it is a topic."""
    if not subject.startswith(MIRROR_PREFIX) or subject in (MIRROR_AGAIN, MIRROR_NEWEST):
        return None
    inner = subject[len(MIRROR_PREFIX) :]
    return None if is_internal(inner) else inner
