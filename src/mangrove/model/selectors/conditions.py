"""What a selector says, as a tree, and the one text in which each tree is written."""

from __future__ import annotations

import re

import msgspec

Value = int | float | str
"""A number, or text."""

PLAIN_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$.-]*", re.ASCII)
"""Names of headers that need no quotes."""
KEYWORDS = frozenset(
    ("AND", "BETWEEN", "ESCAPE", "FALSE", "IN", "IS", "LIKE", "NOT", "NULL", "OR", "TRUE"),
)


class Comparison(msgspec.Struct, frozen=True):
    """A header is compared with a value: `=`, `<>`, `<`, `<=`, `>` or `>=`."""

    name: str
    sign: str
    value: Value


class Between(msgspec.Struct, frozen=True):
    """A header is neither below one value nor above another of the same kind."""

    name: str
    low: Value
    high: Value


class OneOf(msgspec.Struct, frozen=True):
    """A header equals one of some values."""

    name: str
    values: tuple[Value, ...]


class Like(msgspec.Struct, frozen=True):
    """A header is text of a form, in which `%` stands for any text and `_` for one character."""

    name: str
    form: str
    escape: str = ""
    """A character after which those two stand for themselves."""


class Missing(msgspec.Struct, frozen=True):
    """A message has no such header."""

    name: str


class Not(msgspec.Struct, frozen=True):
    """A condition does not hold."""

    term: Condition


class AllOf(msgspec.Struct, frozen=True):
    """Several conditions hold."""

    terms: tuple[Condition, ...]


class AnyOf(msgspec.Struct, frozen=True):
    """One of several conditions holds."""

    terms: tuple[Condition, ...]


Condition = Comparison | Between | OneOf | Like | Missing | Not | AllOf | AnyOf


def text_of(condition: Condition) -> str:
    """The text of a tree; parsed, it is the same tree again."""
    match condition:
        case AnyOf(terms):
            return " OR ".join(map(text_of, terms))
        case AllOf(terms):
            return " AND ".join(_within(term, AnyOf) for term in terms)
        case Not(Missing(name)):
            return f"{_name(name)} IS NOT NULL"
        case Not(term):
            return f"NOT {_within(term, AnyOf, AllOf)}"
        case Comparison(name, sign, value):
            return f"{_name(name)} {sign} {_value(value)}"
        case Between(name, low, high):
            return f"{_name(name)} BETWEEN {_value(low)} AND {_value(high)}"
        case OneOf(name, values):
            return f"{_name(name)} IN ({', '.join(map(_value, values))})"
        case Like(name, form, escape):
            return f"{_name(name)} LIKE {_value(form)}" + (f" ESCAPE {_value(escape)}" if escape else "")
        case Missing(name):
            return f"{_name(name)} IS NULL"


def _within(term: Condition, *weaker: type[Condition]) -> str:
    text = text_of(term)
    return f"({text})" if isinstance(term, weaker) else text


def _name(name: str) -> str:
    plain = PLAIN_NAME.fullmatch(name) and name.upper() not in KEYWORDS
    return name if plain else f'"{name}"'


def _value(value: Value) -> str:
    return "'{}'".format(value.replace("'", "''")) if isinstance(value, str) else repr(value)
