"""What messages are about and what subscribers want to know, as sets of words (ePEER §5.3.1.2).

A topic has words of its own, and each subscriber is interested in some of them. A good publisher speaks of
the topic's words alone, a medium one of some and of others besides, a bad one of others alone. Each
publisher has a few kinds of messages, said equally often: utilities are exact means over those, so that an
experiment need not look at single messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from mangrove.model.congestion.keywords import keyword_utility


class Quality(StrEnum):
    """What a publisher is worth to its subscribers: all, a part, or nothing of what it says is of use."""

    GOOD = "good"
    MEDIUM = "medium"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """How many words there are."""

    topic_words: int = 12
    interests: tuple[int, int] = (7, 9)
    """Of a subscriber, out of the topic's words."""
    message_words: tuple[int, int] = (6, 9)
    kinds: int = 4
    """Different messages of one publisher."""
    medium_share: float = 0.7
    """Of a medium publisher's words, those that are the topic's."""


def drawn_utilities(
    publishers: NDArray[np.int64],
    subscribers: NDArray[np.int64],
    quality: Sequence[Quality],
    vocabulary: Vocabulary,
    rng: np.random.Generator,
) -> tuple[NDArray[np.float64], ...]:
    """By topic: how useful each publisher's messages are to each subscriber, in the mean (equations 1, 8)."""
    found: list[NDArray[np.float64]] = []
    ordered = iter(quality)
    for speaking, listening in zip(publishers.tolist(), subscribers.tolist(), strict=True):
        interests = [_some(vocabulary.topic_words, vocabulary.interests, rng) for _ in range(listening)]
        said = [
            [drawn_message(next_quality, vocabulary, rng) for _ in range(vocabulary.kinds)]
            for next_quality in (next(ordered) for _ in range(speaking))
        ]
        found.append(
            np.array(
                [
                    [sum(keyword_utility(wanted, each) for each in kinds) / len(kinds) for kinds in said]
                    for wanted in interests
                ]
            )
        )
    return tuple(found)


def drawn_message(quality: Quality, vocabulary: Vocabulary, rng: np.random.Generator) -> frozenset[str]:
    """The keywords of one kind of message."""
    low, high = vocabulary.message_words
    count = int(rng.integers(low, high, endpoint=True))
    share = {Quality.GOOD: 1.0, Quality.MEDIUM: vocabulary.medium_share, Quality.BAD: 0.0}[quality]
    own = min(round(share * count), vocabulary.topic_words)
    of_topic = frozenset(f"word{each}" for each in rng.permutation(vocabulary.topic_words)[:own])
    return of_topic | {f"other{each}" for each in range(count - own)}


def _some(words: int, count: tuple[int, int], rng: np.random.Generator) -> frozenset[str]:
    chosen = int(rng.integers(*count, endpoint=True))
    return frozenset(f"word{each}" for each in rng.permutation(words)[:chosen])
