"""How useful a message is to a subscriber by what it is about: recall times precision of keywords.

Both sides are bounded, since both come from outside: a publisher that lists a megabyte of keywords is read as
far as the limits go, and whoever asks is told that the rest was left out.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from mangrove.errors import InputError

MAX_KEYWORDS = 256
MAX_KEYWORD_CHARACTERS = 64
MAX_HEADER_CHARACTERS = MAX_KEYWORDS * (MAX_KEYWORD_CHARACTERS + 2)
"""So much of a header is read."""
MAX_TEXT_BYTES = 4096
"""So much of a text is read for its words."""

_WORD = re.compile(r"\w+")
_UTF_8 = codecs.getincrementaldecoder("utf-8")


class Keywords(NamedTuple):
    """What a message is about."""

    words: frozenset[str]
    cut: bool = False
    """Whether more was said than is read."""


NO_KEYWORDS = Keywords(frozenset())


def keyword_utility(interests: frozenset[str], keywords: frozenset[str]) -> float:
    """Equation 8: the part of the interests that is met, times the part of the message that meets them.

    Both sets hold normalised words. With either empty there is nothing to match: 0.
    """
    if not interests or not keywords:
        return 0.0
    matched = len(interests & keywords)
    return matched * matched / (len(interests) * len(keywords))


def normalised(word: str) -> str:
    """A keyword as it is compared: without regard to case, and to spaces around it."""
    return word.strip().casefold()


def checked_keywords(words: Iterable[str]) -> frozenset[str]:
    """Keywords that a user gives, normalised; InputError if they are not words that a header can carry."""
    if isinstance(words, str):
        raise InputError(f"keywords are a list of words, not the text {words[:80]!r}")
    result = set()
    for word in words:
        if not isinstance(word, str):
            raise InputError(f"a keyword is a text, not {type(word).__name__}")
        kept = normalised(word)
        if not kept or "," in kept or not kept.isprintable() or len(kept) > MAX_KEYWORD_CHARACTERS:
            raise InputError(
                f"{word[:80]!r} cannot be a keyword",
                hint=f"use words of 1 to {MAX_KEYWORD_CHARACTERS} printable characters without commas",
            )
        result.add(kept)
        if len(result) > MAX_KEYWORDS:
            raise InputError(f"more than {MAX_KEYWORDS} keywords")
    return frozenset(result)


def keywords_of_header(value: str) -> Keywords:
    """The keywords that a header lists, separated by commas, up to the limits."""
    cut = len(value) > MAX_HEADER_CHARACTERS
    if cut:
        value = value[:MAX_HEADER_CHARACTERS].rpartition(",")[0]  # the last may be half a word
    words: set[str] = set()
    for word in map(normalised, value.split(",")):
        if len(word) > MAX_KEYWORD_CHARACTERS or (len(words) >= MAX_KEYWORDS and word not in words):
            cut = True
        elif word:
            words.add(word)
    return Keywords(frozenset(words), cut)


def words_in_order(data: bytes, *, cut: bool = False) -> Iterator[str]:
    """The words of a text in UTF-8, as they are compared; none if it is not text.

    If it was `cut`, its last character may be incomplete.
    """
    try:
        text = _UTF_8().decode(data, final=not cut)
    except UnicodeDecodeError:
        return
    if "\0" not in text:
        yield from (found[0] for found in _WORD.finditer(text.casefold()))


def keywords_of_text(data: bytes) -> Keywords:
    """The words of a text in UTF-8, up to the limits; none if it is not text."""
    cut = len(data) > MAX_TEXT_BYTES
    words: set[str] = set()
    for word in words_in_order(data[:MAX_TEXT_BYTES], cut=cut):
        if len(word) > MAX_KEYWORD_CHARACTERS:
            cut = True
            continue
        words.add(word)
        if len(words) > MAX_KEYWORDS:
            words.discard(word)
            cut = True
            break
    return Keywords(frozenset(words), cut)
