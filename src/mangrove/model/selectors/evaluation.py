"""Selectors as functions of headers. Three values, as in SQL: a test of a header that is not there, or is no
number where one is needed, is neither true nor false (None), and nor is its negation."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping

from mangrove.model.selectors.conditions import (
    AllOf,
    AnyOf,
    Between,
    Comparison,
    Condition,
    Like,
    Missing,
    Not,
    OneOf,
    Value,
)
from mangrove.model.selectors.words import number_in

Headers = Mapping[str, str]
Test = Callable[[Headers], bool | None]

_COMPARE: dict[str, Callable[[Value, Value], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def test_of(condition: Condition) -> Test:
    """The function that a condition is."""
    match condition:
        case AllOf(terms):
            return _all_of([test_of(term) for term in terms])
        case AnyOf(terms):
            return _any_of([test_of(term) for term in terms])
        case Not(term):
            return _not(test_of(term))
        case Missing(name):
            return lambda headers: name not in headers
        case Comparison(name, sign, value):
            compare = _COMPARE[sign]
            return _of_value(name, value, lambda found: compare(found, value))
        case Between(name, low, high):
            return _of_value(name, low, lambda found: low <= found <= high)
        case OneOf(name, values):
            wanted = frozenset(values)
            return _of_value(name, values[0], lambda found: found in wanted)
        case Like(name, form, escape):
            return _of_value(name, form, has_form(form, escape))


def _of_value(name: str, like: Value, holds: Callable[..., bool]) -> Test:
    """A test of a header's value, read as the value that it is compared with is."""

    def of_text(headers: Headers) -> bool | None:
        found = headers.get(name)
        return None if found is None else holds(found)

    def of_number(headers: Headers) -> bool | None:
        found = headers.get(name)
        number = None if found is None else number_in(found)
        return None if number is None else holds(number)

    return of_text if isinstance(like, str) else of_number


def _not(test: Test) -> Test:
    def negated(headers: Headers) -> bool | None:
        found = test(headers)
        return None if found is None else not found

    return negated


def _all_of(tests: list[Test]) -> Test:
    def conjunction(headers: Headers) -> bool | None:
        known = True
        for test in tests:
            found = test(headers)
            if found is False:
                return False
            known = known and found is not None
        return True if known else None

    return conjunction


def _any_of(tests: list[Test]) -> Test:
    def disjunction(headers: Headers) -> bool | None:
        known = True
        for test in tests:
            found = test(headers)
            if found:
                return True
            known = known and found is not None
        return False if known else None

    return disjunction


def has_form(form: str, escape: str = "") -> Callable[[str], bool]:
    """Whether a text has a form of LIKE.

    The pieces between `%` are looked for one after the other, each as far to the left as can be, so that the
    cost is at most the product of both lengths, whatever the form.
    """
    pieces = [re.compile(piece, re.DOTALL) for piece in _pieces(form, escape)]
    first, last = pieces[0], pieces[-1]
    if len(pieces) == 1:
        return lambda text: first.fullmatch(text) is not None
    length = _length(last.pattern)

    def found(text: str) -> bool:
        begin = first.match(text)
        if begin is None:
            return False
        at = begin.end()
        for piece in pieces[1:-1]:
            inner = piece.search(text, at)
            if inner is None:
                return False
            at = inner.end()
        end = len(text) - length
        return end >= at and last.match(text, end) is not None

    return found


def _pieces(form: str, escape: str) -> list[str]:
    """What stands between the `%` of a form, as regular expressions of one character each."""
    pieces: list[list[str]] = [[]]
    characters = iter(form)
    for character in characters:
        if escape and character == escape:
            pieces[-1].append(re.escape(next(characters, "")))
        elif character == "%":
            pieces.append([])
        else:
            pieces[-1].append("." if character == "_" else re.escape(character))
    return ["".join(piece) for piece in pieces]


def _length(piece: str) -> int:
    """How many characters a piece stands for."""
    return len(re.sub(r"\\(.)", r"\1", piece, flags=re.DOTALL))
