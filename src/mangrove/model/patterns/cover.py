"""Which of many patterns no other one covers, without comparing each with all others."""

from __future__ import annotations

from collections.abc import Mapping

_COVERED_BY = {"*": ("*",), ">": ()}
"""Tokens of a pattern that cover a wildcard (besides `>`, which ends a pattern)."""


class _Node:
    __slots__ = ("children", "pattern")

    def __init__(self) -> None:
        self.children: dict[str, _Node] = {}
        self.pattern: str | None = None


class PatternCover:
    """Patterns of which none covers another, each with the weight of all that it covers.

    Made from all patterns at once, the widest first: a pattern that is covered never has to be taken back,
    and only patterns with wildcards, which alone can cover others, are kept in a tree by token. So a literal
    subject costs a walk down that tree: at most two branches at each token (itself and `*`).
    """

    def __init__(self, weights: Mapping[str, int]) -> None:
        self.weights: dict[str, int] = {}
        self.visited = 0
        """Nodes of the tree looked at: the work that was done."""
        self._root = _Node()
        # Whoever covers a pattern has no more literal tokens than it; with as many, only `>` can cover, and
        # the shorter of two that end in `>`. So in this order nothing is covered by what comes later.
        for _, pattern, tokens in sorted(map(_by_width, filter(has_wildcard, weights))):
            if not self._add(pattern, tokens, weights[pattern]):
                self._insert(pattern, tokens)
        covering = bool(self.weights)
        for pattern, weight in weights.items():
            if not has_wildcard(pattern):
                if covering:
                    self._add(pattern, pattern.split("."), weight)
                else:
                    self.weights[pattern] = weight

    def _add(self, pattern: str, tokens: list[str], weight: int) -> bool:
        """Book a pattern under the one that covers it, else under itself; whether one covers it."""
        cover = self._cover(tokens)
        if cover is None:
            self.weights[pattern] = weight
            return False
        self.weights[cover] += weight
        return True

    def _insert(self, pattern: str, tokens: list[str]) -> None:
        node = self._root
        for token in tokens:
            node = node.children.setdefault(token, _Node())
        node.pattern = pattern

    def _cover(self, tokens: list[str]) -> str | None:
        """A pattern of the tree that covers these tokens."""
        level = [self._root]
        for token in tokens:
            following: list[_Node] = []
            for node in level:
                self.visited += 1
                rest = node.children.get(">")
                if rest is not None and rest.pattern is not None:
                    return rest.pattern
                for key in _COVERED_BY.get(token, (token, "*")):
                    child = node.children.get(key)
                    if child is not None:
                        following.append(child)
            if not following:
                return None
            level = following
        self.visited += len(level)
        return next((node.pattern for node in level if node.pattern is not None), None)


def has_wildcard(pattern: str) -> bool:
    """Whether a pattern may match more than one subject. (A false alarm, as for `a.b*`, only costs time.)"""
    return "*" in pattern or ">" in pattern


def _by_width(pattern: str) -> tuple[tuple[int, bool, int], str, list[str]]:
    tokens = pattern.split(".")
    literal = sum(token not in _COVERED_BY for token in tokens)
    return (literal, tokens[-1] != ">", len(tokens)), pattern, tokens
