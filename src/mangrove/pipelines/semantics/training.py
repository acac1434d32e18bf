"""Word vectors by Spark's Word2Vec (skip-gram with hierarchical softmax), and the table made of them.

Vectors as they are learnt share a direction, that of all words together; it is taken out, so that words with
nothing in common have a cosine near 0. How similar two words must be to count as related is not chosen but
read off the data: only one pair in two hundred is as similar as that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mangrove.model.congestion.word_vectors import WordVectors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RELATED_SHARE = 0.005
"""Of all pairs of words, those that count as related."""
SAMPLED_PAIRS = 200_000
SHORTEST = 1e-6
MIN_SIMILARITY = 0.3
"""Below this cosine nothing is related, however few words there are."""


@dataclass(frozen=True, slots=True)
class Training:
    """How vectors are learnt."""

    dimensions: int = 32
    window: int = 5
    """Words to each side that count as near."""
    passes: int = 10
    """Over all texts."""
    partitions: int = 1
    """Parts that learn side by side and are averaged after each pass; their number changes the result."""
    seed: int = 1


def learnt(sentences: DataFrame, training: Training) -> dict[str, NDArray[np.float64]]:
    """A vector for each word; `sentences` has the words of each text in `words`, in one partition."""
    from pyspark.ml.feature import Word2Vec
    from pyspark.ml.functions import vector_to_array
    from pyspark.sql import functions as f

    model = Word2Vec(
        vectorSize=training.dimensions,
        windowSize=training.window,
        maxIter=training.passes,
        numPartitions=training.partitions,
        seed=training.seed,
        minCount=1,
        inputCol="words",
        outputCol="vector",
    ).fit(sentences)
    vectors = model.getVectors()
    found = vectors.select("word", vector_to_array(f.col("vector")).alias("vector")).toArrow()
    rows = zip(found.column("word").to_pylist(), found.column("vector").to_pylist(), strict=True)
    return {word: np.array(vector) for word, vector in rows}


def table_of(vectors: dict[str, NDArray[np.float64]], order: list[str], seed: int) -> WordVectors:
    """The table of the words in `order`, those without a direction of their own apart."""
    words = [word for word in order if word in vectors]
    rows = np.array([vectors[word] for word in words])
    rows = rows - rows.mean(axis=0)
    length = np.sqrt((rows**2).sum(axis=1))
    kept = np.flatnonzero(length > SHORTEST)
    unit = rows[kept] / length[kept, None]
    return WordVectors([words[each] for each in kept], unit.astype(np.float32), _least_similarity(unit, seed))


def _least_similarity(unit: NDArray[np.float64], seed: int) -> float:
    """What only `RELATED_SHARE` of all pairs reach; of very many pairs, of a sample."""
    count = len(unit)
    if count * (count - 1) // 2 <= SAMPLED_PAIRS:
        one, other = np.triu_indices(count, 1)
    else:
        rng = np.random.default_rng([seed, count])
        one = rng.integers(count, size=SAMPLED_PAIRS)
        other = (one + rng.integers(1, count, size=SAMPLED_PAIRS)) % count
    cosine = (unit[one] * unit[other]).sum(axis=1)
    return float(np.clip(np.quantile(cosine, 1.0 - RELATED_SHARE), MIN_SIMILARITY, 1.0))
