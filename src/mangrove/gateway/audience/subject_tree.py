"""Literal subjects by token, asked for all that fall under a pattern."""

from __future__ import annotations


class _Node:
    __slots__ = ("children", "ends")

    def __init__(self) -> None:
        self.children: dict[str, _Node] = {}
        self.ends = False
        """Whether a subject ends here."""


class SubjectTree:
    """A set of literal subjects."""

    def __init__(self) -> None:
        self._root = _Node()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, subject: str) -> None:
        """Insert a subject; once more is no error."""
        node = self._root
        for token in subject.split("."):
            following = node.children.get(token)
            if following is None:
                following = node.children[token] = _Node()
            node = following
        self._size += not node.ends
        node.ends = True

    def remove(self, subject: str) -> None:
        """Take a subject out that is there, and prune what became empty."""
        trail = [self._root]
        tokens = subject.split(".")
        for token in tokens:
            trail.append(trail[-1].children[token])
        trail[-1].ends = False
        self._size -= 1
        for parent, token in zip(reversed(trail[:-1]), reversed(tokens), strict=True):
            child = parent.children[token]
            if child.ends or child.children:
                break
            del parent.children[token]

    def under(self, pattern: str, most: int) -> tuple[list[str], int] | None:
        """All subjects under a pattern, and what it took to find them; None if it took too much.

        What counts are the branches of each `*`, which may all lead nowhere.
        """
        found: list[str] = []
        level = [("", self._root)]
        looked = 0
        for token in pattern.split("."):
            if token == ">":
                while level:
                    level = _branches(level)
                    found += [name[:-1] for name, node in level if node.ends]
                return found, looked
            if token == "*":
                level = _branches(level)
                looked += len(level)
                if looked > most:
                    return None
            else:
                level = [
                    (f"{name}{token}.", child)
                    for name, node in level
                    if (child := node.children.get(token)) is not None
                ]
        return [name[:-1] for name, node in level if node.ends], looked


def _branches(level: list[tuple[str, _Node]]) -> list[tuple[str, _Node]]:
    return [(f"{name}{key}.", child) for name, node in level for key, child in node.children.items()]
