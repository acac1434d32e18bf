"""A set of (pattern, value) pairs, asked for all values whose pattern matches a literal subject."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

V = TypeVar("V", bound=Hashable)


class _Node(Generic[V]):
    __slots__ = ("children", "values")

    def __init__(self) -> None:
        self.children: dict[str, _Node[V]] = {}
        self.values: set[V] = set()


class SubjectTrie(Generic[V]):
    """Patterns by token; matching follows the literal token, `*` and `>` at each level."""

    def __init__(self) -> None:
        self._root: _Node[V] = _Node()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, pattern: str, value: V) -> bool:
        """Insert a pair; False if it was there."""
        node = self._root
        for token in pattern.split("."):
            node = node.children.setdefault(token, _Node())
        if value in node.values:
            return False
        node.values.add(value)
        self._size += 1
        return True

    def remove(self, pattern: str, value: V) -> bool:
        """Take a pair out and prune what became empty; False if it was not there."""
        trail: list[tuple[_Node[V], str]] = []
        node = self._root
        for token in pattern.split("."):
            following = node.children.get(token)
            if following is None:
                return False
            trail.append((node, token))
            node = following
        if value not in node.values:
            return False
        node.values.remove(value)
        self._size -= 1
        for parent, token in reversed(trail):
            child = parent.children[token]
            if child.values or child.children:
                break
            del parent.children[token]
        return True

    def match(self, subject: str) -> set[V]:
        """All values whose pattern matches the literal `subject`."""
        found: set[V] = set()
        for node in self._matching(subject.split(".")):
            found |= node.values
        return found

    def _matching(self, tokens: list[str]) -> Iterator[_Node[V]]:
        level = [self._root]
        for token in tokens:
            following: list[_Node[V]] = []
            for node in level:
                rest = node.children.get(">")
                if rest is not None:
                    yield rest
                following += [child for key in (token, "*") if (child := node.children.get(key)) is not None]
            if not following:
                return
            level = following
        yield from level
