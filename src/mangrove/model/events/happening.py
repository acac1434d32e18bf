"""What all kinds of happenings have in common: a tone and a sentence for `mangrove story`."""

from __future__ import annotations

from enum import Enum
from typing import ClassVar

import msgspec


class Tone(Enum):
    """How a happening should be read."""

    GOOD = "good"
    BAD = "bad"
    DOUBTFUL = "doubtful"
    NEUTRAL = "neutral"


class Happening(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened. Subclasses are the kinds; the name of the class is the name of the kind."""

    tone: ClassVar[Tone] = Tone.NEUTRAL

    def sentence(self) -> str:
        """One line about it, in plain text. Kinds say it better."""
        return f"{type(self).__name__} {msgspec.to_builtins(self)}"


Kinds = dict[str, type[Happening]]
"""The kinds of a room by their names."""


def kinds_by_name(*kinds: type[Happening]) -> Kinds:
    """Kinds of happenings, as events of them are read."""
    return {kind.__name__: kind for kind in kinds}
