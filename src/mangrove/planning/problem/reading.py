"""Reading plain data field by field, noting every mistake instead of stopping at the first."""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Mapping

import numpy as np

from mangrove.errors import Mistakes
from mangrove.planning.problem.arrays import FloatArray

# A matrix full of NaN is one mistake to a person, not a million.
MAX_MISTAKES_PER_FIELD = 5
UNWRITABLE = "has half of a character in it, which cannot be written: give it whole letters"


class Reader:
    """Typed access to a document; `mistakes` collects what was wrong."""

    def __init__(self, document: Mapping[str, object], source: str) -> None:
        self.document = document
        self.mistakes = Mistakes(source)
        self.note = self.mistakes.note

    def names(self, field: str) -> tuple[str, ...]:
        """A list of unique, non-empty names."""
        value = self.document.get(field)
        if value is None:
            self.note(field, "missing", "a list of names")
            return ()
        if not isinstance(value, list) or not value:
            self.note(field, f"{_shown(value)} is not a list of names", "one name or more")
            return ()
        seen: set[str] = set()
        for index, name in enumerate(value):
            if not isinstance(name, str) or not name:
                self.note(f"{field}[{index}]", f"{_shown(name)} is not a name")
            elif not writable(name):
                self.note(f"{field}[{index}]", f"{name!r} {UNWRITABLE}")
            elif name in seen:
                self.note(f"{field}[{index}]", f"{name!r} occurs twice")
            else:
                seen.add(name)
        return tuple(str(name) for name in value)

    def numbers(
        self, field: str, length: int, of: str, *, least: float = 0.0, above: bool = False
    ) -> FloatArray | None:
        """A list of `length` numbers, one for each of `of`; None when it is absent or wrong."""
        value = self.document.get(field)
        if value is None:
            return None
        if not isinstance(value, list):
            self.note(field, f"{_shown(value)} is not a list of numbers")
            return None
        right = True
        if length and len(value) != length:
            self.note(field, f"{len(value)} values for {length} {of}", f"one for each of {of}")
            right = False
        wrong = [
            (index, each)
            for index, each in enumerate(value)
            if number(each, least=least, above=above) is None
        ]
        for index, each in wrong[:MAX_MISTAKES_PER_FIELD]:
            self.note(f"{field}[{index}]", f"{_shown(each)}", _range(least, above))
        if len(wrong) > MAX_MISTAKES_PER_FIELD:
            self.note(field, f"and {len(wrong) - MAX_MISTAKES_PER_FIELD} more values like these")
        return np.array(value, dtype=np.float64) if right and not wrong else None

    def square(self, field: str, length: int) -> FloatArray | None:
        """A square matrix of finite numbers with non-negative diagonal."""
        value = self.document.get(field)
        if value is None:
            self.note(field, "missing", f"a matrix of {length} rows of {length} numbers")
            return None
        if not isinstance(value, list) or not all(isinstance(row, list) for row in value):
            self.note(field, f"{_shown(value)} is not a matrix", "a list of rows")
            return None
        before = len(self.mistakes)
        if length and len(value) != length:
            self.note(field, f"{len(value)} rows for {length} items", "one row for each item")
        wrong = 0
        for i, row in enumerate(value):
            if length and len(row) != length:
                self.note(f"{field}[{i}]", f"{len(row)} values for {length} items", "one for each item")
            for j, each in enumerate(row):
                if number(each) is None or (i == j and each < 0):
                    wrong += 1
                    if wrong <= MAX_MISTAKES_PER_FIELD:
                        allowed = "a variance of zero or more" if i == j else "a finite number"
                        self.note(f"{field}[{i}][{j}]", _shown(each), allowed)
        if wrong > MAX_MISTAKES_PER_FIELD:
            self.note(field, f"and {wrong - MAX_MISTAKES_PER_FIELD} more values like these")
        return np.array(value, dtype=np.float64) if len(self.mistakes) == before else None

    def unknown(self, path: str, given: Mapping[str, object], known: Collection[str]) -> None:
        """Fields nobody reads: a misspelt constraint must not pass for an absent one."""
        for name in given:
            if name not in known:
                self.note(f"{path}.{name}", "unknown field", ", ".join(sorted(known)))


def writable(text: str) -> bool:
    """Whether an answer can have it: JSON may name halves of characters, which no UTF-8 writes."""
    return text.encode("utf-8", "ignore").decode() == text


def number(value: object, *, least: float = -math.inf, above: bool = False) -> float | None:
    """The value as a finite number in range, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not abs(value) <= sys.float_info.max:
        return None
    if value < least or (above and value == least):
        return None
    return float(value)


def _range(least: float, above: bool) -> str:
    if least == -math.inf:
        return "a finite number"
    return f"a number above {least:g}" if above else f"a number of {least:g} or more"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
