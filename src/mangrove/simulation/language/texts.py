"""Texts in the language: what a federation's publishers write when nobody agrees on words.

An author mostly uses one of the two words of each concept. Near a word stand the companions of its concept,
whichever word is used: that is all from which it can be learnt that two words mean the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from mangrove.simulation.language.lexicon import FILLERS, THEMES, Concept

HABIT = 0.9
"""How often authors use the word that is theirs."""
MENTIONS = (3, 6)
COMPANIONS = (2, 3)
FILLER_SHARE = 0.2


class Text(NamedTuple):
    """One message."""

    theme: str
    words: tuple[str, ...]


def texts(count: int, seed: int) -> Iterator[Text]:
    """So many texts, on themes in turn."""
    rng = np.random.default_rng([seed, 2013])
    names = list(THEMES)
    for number in range(count):
        theme = names[number % len(names)]
        yield Text(theme, _text(THEMES[theme], rng))


def _text(concepts: tuple[Concept, ...], rng: np.random.Generator) -> tuple[str, ...]:
    mentions = int(rng.integers(*MENTIONS, endpoint=True))
    author = int(rng.integers(2))
    words: list[str] = []
    for place in rng.permutation(len(concepts))[:mentions]:
        concept = concepts[place]
        near = [concept.companions[each] for each in rng.permutation(len(concept.companions))]
        near = near[: int(rng.integers(*COMPANIONS, endpoint=True))]
        before = int(rng.integers(len(near) + 1))
        own = concept.words[author if rng.random() < HABIT else 1 - author]
        for word in (*near[:before], own, *near[before:]):
            if rng.random() < FILLER_SHARE:
                words.append(FILLERS[rng.integers(len(FILLERS))])
            words.append(word)
    return tuple(words)
