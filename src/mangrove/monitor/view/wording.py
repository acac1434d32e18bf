"""How states are graded and names are shown: whatever a name holds, it is a short line of text."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from enum import StrEnum

MAX_NAME = 80
MAX_SENTENCE = 300
_DIGEST = 10


class Grade(StrEnum):
    """How a thing is, the worst last. Pages show it by colour, by a sign and in words."""

    GOOD = "good"
    UNKNOWN = "unknown"
    DOUBT = "doubt"
    BAD = "bad"


_RANK = {grade: rank for rank, grade in enumerate(Grade)}


def worst(grades: Iterable[Grade]) -> Grade:
    """The worst of several; nothing at all is good."""
    return max(grades, key=_RANK.__getitem__, default=Grade.GOOD)


def name_key(name: str) -> str:
    """A name as pages show it and ask by it: the name itself, or its beginning and a digest if it is long.

    Different names have different keys; control characters do not get through.
    """
    if len(name) <= MAX_NAME and name.isprintable():
        return name
    digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=_DIGEST // 2).hexdigest()
    return f"{_printable(name[: MAX_NAME - _DIGEST - 1])}…{digest}"


def sentence(text: str, limit: int = MAX_SENTENCE) -> str:
    """A text as one printable line of bounded length."""
    return _printable(text) if len(text) <= limit else f"{_printable(text[: limit - 1])}…"


def _printable(text: str) -> str:
    return "".join(each if each.isprintable() else "�" for each in text)
