"""A soft equation 8: other words for the same count too, and nothing is worth less than by keywords."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mangrove.errors import InputError
from mangrove.model.congestion.keywords import keyword_utility
from mangrove.model.congestion.word_vectors import SemanticUtility, WordVectors

KNOWN = tuple("abcdefgh")
WORDS = st.frozensets(st.sampled_from((*KNOWN, "x", "y", "z")), max_size=6)


def vectors(seed: int, least: float = 0.3) -> WordVectors:
    rows = np.random.default_rng(seed).normal(size=(len(KNOWN), 3)).astype(np.float32)
    return WordVectors(KNOWN, rows, least)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 50), interests=WORDS, keywords=WORDS)
def test_it_lies_between_equation_8_and_1_and_does_not_care_who_asks(
    seed: int, interests: frozenset[str], keywords: frozenset[str]
) -> None:
    table = vectors(seed)
    utility = SemanticUtility(table, interests)
    found = utility(keywords)
    assert keyword_utility(interests, keywords) - 1e-9 <= found <= 1.0
    assert utility(keywords) == found, "remembered words count as they did"
    assert SemanticUtility(table, keywords)(interests) == pytest.approx(found)


@settings(max_examples=40, deadline=None)
@given(interests=WORDS, keywords=WORDS)
def test_without_vectors_it_is_equation_8(interests: frozenset[str], keywords: frozenset[str]) -> None:
    stranger = WordVectors(("nobody says this",), np.ones((1, 3), np.float32), 0.5)
    found = SemanticUtility(stranger, interests)(keywords)
    assert found == pytest.approx(keyword_utility(interests, keywords))


def test_similar_words_meet_an_interest_in_part_and_strangers_do_not() -> None:
    table = WordVectors(
        ("flood", "inundation", "market"), np.array([[2, 0], [0.8, 0.6], [0, 3]], np.float32), 0.7
    )
    utility = SemanticUtility(table, {"flood"})
    assert utility({"inundation"}) == pytest.approx(0.64)
    assert utility({"market"}) == 0.0
    assert utility({"flood"}) == 1.0
    assert utility({"inundation", "market"}) == pytest.approx(0.8 * 0.4)
    assert utility(()) == 0.0
    assert [word for word, _ in table.nearest("flood", 2)] == ["inundation", "market"]


@pytest.mark.parametrize(
    ("words", "rows", "least", "problem"),
    [
        (["a", "b"], [[1.0]], 0.5, "2 words with vectors of shape (1, 1)"),
        (["a", "a"], [[1.0], [2.0]], 0.5, "a word with two vectors"),
        (["a"], [[0.0, 0.0]], 0.5, "a vector without length or direction"),
        (["a"], [[float("nan"), 0.0]], 0.5, "a vector without length or direction"),
        (["a"], [[1.0]], 0.0, "a least similarity of 0"),
        (["a" * 65], [[1.0]], 0.5, "a word of no length, or too long"),
        (["a"], [[1.0] * 257], 0.5, "1 words with vectors of shape (1, 257)"),
    ],
)
def test_tables_that_do_not_fit_are_refused(
    words: list[str], rows: list[list[float]], least: float, problem: str
) -> None:
    with pytest.raises(InputError) as refused:
        WordVectors(words, np.array(rows, np.float32), least)
    assert refused.value.message == problem
