"""Literal topics in order, found by pattern."""

from __future__ import annotations

from collections.abc import Iterator

from sortedcontainers import SortedList

from mangrove.model.subjects import covers


class TopicIndex:
    """A pattern is answered from the topics that share what comes before its first wildcard."""

    def __init__(self) -> None:
        self._topics: SortedList[str] = SortedList()

    def __len__(self) -> int:
        return len(self._topics)

    def __contains__(self, topic: str) -> bool:
        return topic in self._topics

    def __iter__(self) -> Iterator[str]:
        return iter(self._topics)

    def add(self, topic: str) -> None:
        """Insert a topic that is not there."""
        self._topics.add(topic)

    def remove(self, topic: str) -> None:
        """Take out a topic that is there."""
        self._topics.remove(topic)

    def under(self, pattern: str, after: str = "") -> Iterator[str]:
        """The topics under a pattern, in order, those after a given one."""
        tokens = pattern.split(".")
        fixed = 0
        while fixed < len(tokens) and tokens[fixed] not in ("*", ">"):
            fixed += 1
        if fixed == len(tokens):
            if pattern > after and pattern in self._topics:
                yield pattern
            return
        prefix = "".join(f"{token}." for token in tokens[:fixed])
        first, including = (prefix, True) if prefix > after else (after, False)
        for topic in self._topics.irange(first, None, inclusive=(including, True)):
            if not topic.startswith(prefix):
                return
            if covers(pattern, topic):
                yield topic
