"""A selector that can be asked."""

from __future__ import annotations

from collections.abc import Mapping

from mangrove.model.selectors.conditions import text_of
from mangrove.model.selectors.evaluation import test_of
from mangrove.model.selectors.parsing import parse


class Selector:
    """A condition on headers. Those with equal texts are equal."""

    __slots__ = ("_test", "text")

    def __init__(self, text: str) -> None:
        """SelectorError if it cannot be read."""
        condition = parse(text)
        self.text = text_of(condition)
        """In the one form in which it is always written."""
        self._test = test_of(condition)

    def wants(self, headers: Mapping[str, str]) -> bool:
        """Whether the condition is known to hold."""
        return self._test(headers) is True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Selector) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Selector({self.text!r})"
