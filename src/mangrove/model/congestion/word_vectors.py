"""How useful a message is when its author uses other words than the subscriber (ePEER's future work).

Equation 8 is the part of the interests that is met times the part of the message that meets them, and a word
meets an interest if it is the same. Here it also meets one in part if it is similar enough: by the cosine of
their vectors, which `mangrove pipeline semantics` learns from the federation's own messages. Without vectors
for any of the words the result is that of equation 8 exactly; it is never lower.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from mangrove.errors import InputError
from mangrove.model.congestion.keywords import MAX_KEYWORD_CHARACTERS

MAX_WORDS = 20_000
MAX_DIMENSIONS = 256
MAX_REMEMBERED = 4_096
"""Words of messages of which a subscription remembers how they meet its interests."""

Floats = NDArray[np.float32]


class WordVectors:
    """Vectors of length 1, one for each word; two with a cosine below `least_similarity` are strangers."""

    def __init__(self, words: Sequence[str], vectors: Floats, least_similarity: float) -> None:
        """Takes vectors of any length but 0; InputError if they do not fit."""
        rows = np.asarray(vectors, dtype=np.float32)
        if rows.ndim != 2 or len(rows) != len(words) or not 1 <= rows.shape[1] <= MAX_DIMENSIONS:
            raise InputError(
                f"{len(words)} words with vectors of shape {rows.shape}",
                hint=f"one vector of 1 to {MAX_DIMENSIONS} numbers for each word",
            )
        if len(words) > MAX_WORDS:
            raise InputError(f"{len(words):,} words with vectors", hint=f"at most {MAX_WORDS:,}")
        if not 0.0 < least_similarity <= 1.0:
            raise InputError(f"a least similarity of {least_similarity:g}", hint="above 0, up to 1")
        if any(not word or len(word) > MAX_KEYWORD_CHARACTERS for word in words):
            raise InputError(
                "a word of no length, or too long", hint=f"1 to {MAX_KEYWORD_CHARACTERS} characters"
            )
        length = np.sqrt((rows.astype(np.float64) ** 2).sum(axis=1, keepdims=True))
        if not np.isfinite(length).all() or not (length > 0).all():
            raise InputError("a vector without length or direction", hint="leave its word out")
        self.words = tuple(words)
        self.vectors: Floats = (rows / length).astype(np.float32)
        self.vectors.flags.writeable = False
        self.least_similarity = float(least_similarity)
        self._place = {word: place for place, word in enumerate(self.words)}
        if len(self._place) != len(self.words):
            raise InputError("a word with two vectors", hint="one vector for each word")

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self._place

    def similarities(self, word: str, others: Sequence[str]) -> NDArray[np.float64]:
        """How far a word means what each of the others means: 1 for itself, 0 for strangers."""
        found = np.array([1.0 if word == other else 0.0 for other in others])
        own = self._place.get(word)
        if own is None:
            return found
        known = [number for number, other in enumerate(others) if other in self._place]
        if known:
            places = [self._place[others[number]] for number in known]
            cosine = self.vectors[places].astype(np.float64) @ self.vectors[own].astype(np.float64)
            alike = np.where(cosine >= self.least_similarity, np.minimum(cosine, 1.0), 0.0)
            found[known] = np.maximum(found[known], alike)
        return found

    def nearest(self, word: str, most: int) -> list[tuple[str, float]]:
        """The words most similar to one, strangers too, with their cosines."""
        place = self._place.get(word)
        if place is None:
            return []
        cosine = self.vectors @ self.vectors[place]
        order = [each for each in np.argsort(-cosine, kind="stable").tolist() if each != place][:most]
        return [(self.words[each], float(cosine[each])) for each in order]


class SemanticUtility:
    """Utility of keywords for one set of interests: a soft equation 8. Remembers how words meet them."""

    def __init__(self, vectors: WordVectors, interests: Iterable[str]) -> None:
        self._vectors = vectors
        self._interests = tuple(sorted(interests))
        self._met: dict[str, NDArray[np.float64]] = {}

    def __call__(self, keywords: Iterable[str]) -> float:
        """From 0 to 1; 0 if there is nothing to match."""
        rows = [self._met_by(word) for word in sorted(keywords)]
        if not rows or not self._interests:
            return 0.0
        matrix = np.stack(rows)
        return float(matrix.max(axis=0).mean() * matrix.max(axis=1).mean())

    def _met_by(self, word: str) -> NDArray[np.float64]:
        found = self._met.get(word)
        if found is None:
            found = self._vectors.similarities(word, self._interests)
            if len(self._met) >= MAX_REMEMBERED:
                self._met.clear()
            self._met[word] = found
        return found
