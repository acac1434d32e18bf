"""The experiment when nobody agrees on words: what messages are worth, and what subscribers take them for.

Subscribers ask for things by one word, publishers mostly use another. What a message is worth goes by its
meaning (equation 8 on concepts); a subscriber that compares words sees less in it. Congestion control acts on
what subscribers say, and is measured by what messages are worth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mangrove.errors import InputError
from mangrove.evaluation.fdcc.keywords import Quality, Vocabulary
from mangrove.model.congestion.keywords import keyword_utility
from mangrove.model.congestion.word_vectors import SemanticUtility, WordVectors
from mangrove.simulation.language.lexicon import THEMES

Floats = NDArray[np.float64]
CONCEPTS = tuple(concept for theme in THEMES.values() for concept in theme)
THEME_SIZE = len(CONCEPTS) // len(THEMES)


class Comparison(StrEnum):
    """How subscribers find out what a message is worth to them."""

    MEANING = "meaning"
    """They know."""
    KEYWORDS = "keywords"
    """The same word, or nothing (equation 8)."""
    SEMANTIC = "semantic"
    """By word vectors."""


@dataclass(frozen=True, slots=True)
class Wording:
    """How subscribers compare words, and how often publishers use the other one. Holds the vectors that the
    language needs, so that a trial gives the same wherever it is played."""

    comparison: Comparison = Comparison.MEANING
    other_words: float = 1.0
    """Share of the words of messages that are not the subscribers'."""
    words: tuple[str, ...] = ()
    vectors: tuple[tuple[float, ...], ...] = ()
    least_similarity: float = 1.0


def wording(comparison: Comparison, other_words: float, table: WordVectors) -> Wording:
    """With what a table knows of the language; InputError if it is a table of another one."""
    places = {word: place for place, word in enumerate(table.words)}
    spoken = [word for concept in CONCEPTS for word in concept.words]
    known = [word for word in spoken if word in places]
    if len(known) < len(spoken) // 2:
        raise InputError(
            f"the table has vectors for {len(known)} of the {len(spoken)} words of the experiment's language",
            hint="learn from its texts: `mangrove pipeline synthetic --texts 10000`, then `semantics`",
        )
    rows = tuple(tuple(map(float, table.vectors[places[word]])) for word in known)
    return Wording(comparison, other_words, tuple(known), rows, table.least_similarity)


class _Message(NamedTuple):
    concepts: tuple[int, ...]
    habit: tuple[float, ...]
    """From 0 to 1, for each: below the share of other words, the other word is used."""

    def words(self, other_words: float) -> frozenset[str]:
        """As it is written."""
        return frozenset(
            CONCEPTS[each].published if habit < other_words else CONCEPTS[each].asked_for
            for each, habit in zip(self.concepts, self.habit, strict=True)
        )


def drawn_wordings(
    publishers: NDArray[np.int64],
    subscribers: NDArray[np.int64],
    quality: Sequence[Quality],
    vocabulary: Vocabulary,
    wording: Wording,
    rng: np.random.Generator,
) -> tuple[tuple[Floats, ...], tuple[Floats, ...]]:
    """By topic, subscribers × publishers: what messages are worth, and what they are taken for.

    The first does not depend on the words that are used, nor on how they are compared.
    """
    semantic = wording.comparison is Comparison.SEMANTIC
    table = _table(wording) if semantic else None
    worth: list[Floats] = []
    taken_for: list[Floats] = []
    ordered = iter(quality)
    for topic, (speaking, listening) in enumerate(
        zip(publishers.tolist(), subscribers.tolist(), strict=True)
    ):
        theme = topic % len(THEMES)
        interests = [_some(theme, vocabulary.interests, rng) for _ in range(listening)]
        said = [
            [_message(kind, theme, vocabulary, rng) for _ in range(vocabulary.kinds)]
            for kind in (next(ordered) for _ in range(speaking))
        ]
        worth.append(np.array([_by_meaning(wanted, said) for wanted in interests]))
        if wording.comparison is Comparison.MEANING:
            taken_for.append(worth[-1])
        else:
            taken_for.append(np.array([_by_words(wanted, said, wording, table) for wanted in interests]))
    return tuple(worth), tuple(taken_for)


def _table(wording: Wording) -> WordVectors:
    return WordVectors(wording.words, np.array(wording.vectors, dtype=np.float32), wording.least_similarity)


def _by_meaning(wanted: frozenset[int], said: list[list[_Message]]) -> list[float]:
    """Equation 8 on concepts: the mean over the kinds of messages of each publisher."""
    names = frozenset(map(str, wanted))
    return [
        sum(keyword_utility(names, frozenset(map(str, each.concepts))) for each in kinds) / len(kinds)
        for kinds in said
    ]


def _by_words(
    wanted: frozenset[int], said: list[list[_Message]], wording: Wording, table: WordVectors | None
) -> list[float]:
    interests = frozenset(CONCEPTS[each].asked_for for each in wanted)
    utility: Callable[[frozenset[str]], float] = (
        partial(keyword_utility, interests) if table is None else SemanticUtility(table, interests)
    )
    return [sum(utility(each.words(wording.other_words)) for each in kinds) / len(kinds) for kinds in said]


def _some(theme: int, count: tuple[int, int], rng: np.random.Generator) -> frozenset[int]:
    chosen = int(rng.integers(*count, endpoint=True))
    return frozenset((theme * THEME_SIZE + rng.permutation(THEME_SIZE)[:chosen]).tolist())


def _message(quality: Quality, theme: int, vocabulary: Vocabulary, rng: np.random.Generator) -> _Message:
    """Concepts of the topic's theme, of others, or of both, as good, bad and medium publishers say them."""
    count = int(rng.integers(*vocabulary.message_words, endpoint=True))
    share = {Quality.GOOD: 1.0, Quality.MEDIUM: vocabulary.medium_share, Quality.BAD: 0.0}[quality]
    own = round(share * count)
    begin = theme * THEME_SIZE
    inside = begin + rng.permutation(THEME_SIZE)[:own]
    elsewhere = rng.permutation(len(CONCEPTS) - THEME_SIZE)[: count - own]
    outside = np.where(elsewhere < begin, elsewhere, elsewhere + THEME_SIZE)
    chosen = (*inside.tolist(), *outside.tolist())
    return _Message(chosen, tuple(rng.random(count).tolist()))
