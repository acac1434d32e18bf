"""A selector's text, taken apart into words, each with its place."""

from __future__ import annotations

import math
import re
from enum import Enum
from functools import lru_cache

import msgspec

from mangrove.errors import InputError
from mangrove.model.selectors.conditions import KEYWORDS, PLAIN_NAME, Value

MAX_DIGITS = 40
_BLANK = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)
_SIGN = re.compile(r"<>|<=|>=|==|!=|[=<>(),]")
_TEXT = re.compile(r"'((?:[^']|'')*)'")
_QUOTED_NAME = re.compile(r'"([^"]*)"')
_HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+", re.ASCII)
_HALF = re.compile("[\ud800-\udfff]")
"""Of UTF-16; bytes of a command line that are not UTF-8 become such, too."""
_SAME = {"==": "=", "!=": "<>"}


class SelectorError(InputError):
    """A selector that cannot be read: what is wrong, at which character, and what would be right."""

    def __init__(self, text: str, position: int, problem: str, hint: str = "") -> None:
        """`position` counts from 0; people are told it from 1."""
        shown = text if len(text) <= 200 else f"{text[:200]}…"
        super().__init__(
            f"the selector {shown!r}, at character {position + 1}: {problem}",
            hint=hint
            or "write conditions on headers, such as: severity >= 3 AND region IN ('north', 'east')",
        )
        self.text = text
        self.position = position
        self.problem = problem


class Kind(Enum):
    """What a word is."""

    NAME = "the name of a header"
    VALUE = "a value"
    KEYWORD = "a keyword"
    SIGN = "a sign"
    END = "the end"


class Word(msgspec.Struct, frozen=True):
    """A word, and where it begins."""

    kind: Kind
    text: str
    position: int
    value: Value = ""
    """Of a name or a value."""

    def __str__(self) -> str:
        return "the end" if self.kind is Kind.END else self.text


def words_of(text: str) -> list[Word]:
    """All words, the end included; SelectorError at the first that is none."""
    words: list[Word] = []
    position = _blank_end(text, 0)
    while position < len(text):
        word, end = _word_at(text, position)
        words.append(word)
        position = _blank_end(text, end)
    words.append(Word(Kind.END, "", len(text)))
    return words


@lru_cache(maxsize=1 << 12)
def number_in(text: str) -> int | float | None:
    """The number that a text is, if it is one; whole numbers are exact."""
    if len(text) > MAX_DIGITS:
        return None
    found = _NUMBER.fullmatch(text)
    if found is None:
        return None
    return float(text) if found[2] or found[3] or "." in text else int(text)


def _blank_end(text: str, position: int) -> int:
    found = _BLANK.match(text, position)
    return position if found is None else found.end()


def _word_at(text: str, position: int) -> tuple[Word, int]:
    first = text[position]
    if first == "'":
        found = _TEXT.match(text, position)
        if found is None:
            raise SelectorError(text, position, "this text has no end", "end it with another '")
        if (half := _HALF.search(found[0])) is not None:
            raise SelectorError(text, position + half.start(), "no header can have half a character in it")
        return Word(Kind.VALUE, found[0], position, found[1].replace("''", "'")), found.end()
    if first == '"':
        found = _QUOTED_NAME.match(text, position)
        if found is None or not _HEADER_NAME.fullmatch(found[1]):
            raise SelectorError(
                text,
                position,
                "no header can have this name",
                """text is quoted like 'this', and names of headers, if need be, like "this\"""",
            )
        return Word(Kind.NAME, found[0], position, found[1]), found.end()
    found = _SIGN.match(text, position)
    if found is not None:
        return Word(Kind.SIGN, _SAME.get(found[0], found[0]), position), found.end()
    found = _NUMBER.match(text, position)
    if found is not None:
        number = number_in(found[0])
        if number is None or math.isinf(number):
            raise SelectorError(text, position, "this number is too long or too large")
        return Word(Kind.VALUE, found[0], position, number), found.end()
    found = PLAIN_NAME.match(text, position)
    if found is None:
        raise SelectorError(text, position, f"{first!r} means nothing here", _meant(first))
    keyword = found[0].upper()
    if keyword in ("TRUE", "FALSE"):
        raise SelectorError(
            text, position, f"there is no value {found[0]}", f"headers are text: write '{found[0].lower()}'"
        )
    if keyword in KEYWORDS:
        return Word(Kind.KEYWORD, keyword, position), found.end()
    return Word(Kind.NAME, found[0], position, found[0]), found.end()


def _meant(sign: str) -> str:
    return {"&": "write AND", "|": "write OR", "!": "write NOT, or <> between two"}.get(sign, "")
