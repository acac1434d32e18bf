"""Patterns by token, asked which of them cover another pattern, or have a subject in common with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

V = TypeVar("V")


class _Node(Generic[V]):
    __slots__ = ("children", "values")

    def __init__(self) -> None:
        self.children: dict[str, _Node[V]] = {}
        self.values: list[V] = []


class PatternIndex(Generic[V]):
    """Values by pattern. A question costs a walk down the tokens, not a comparison with every pattern."""

    def __init__(self) -> None:
        self._root: _Node[V] = _Node()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, pattern: str, value: V) -> None:
        """Enter a value; several may stand under one pattern."""
        node = self._root
        for token in pattern.split("."):
            node = node.children.setdefault(token, _Node())
        node.values.append(value)
        self._size += 1

    def covering(self, pattern: str) -> Iterator[V]:
        """Values under patterns that cover a pattern wholly; a literal subject is a pattern too."""
        return self._found(pattern, partly=False)

    def overlapping(self, pattern: str) -> Iterator[V]:
        """Values under patterns that have a subject in common with a pattern."""
        return self._found(pattern, partly=True)

    def _found(self, pattern: str, *, partly: bool) -> Iterator[V]:
        level = [self._root]
        for token in pattern.split("."):
            following: list[_Node[V]] = []
            for node in level:
                children = node.children
                if (rest := children.get(">")) is not None:
                    yield from rest.values
                if token == ">" or (partly and token == "*"):
                    following += [child for name, child in children.items() if partly and name != ">"]
                else:
                    named = (children.get(name) for name in dict.fromkeys((token, "*")))
                    following += [child for child in named if child is not None]
            if token == ">":
                for node in following:
                    yield from _all_under(node)
                return
            level = following
        for node in level:
            yield from node.values


def _all_under(node: _Node[V]) -> Iterator[V]:
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield from node.values
        waiting += node.children.values()
