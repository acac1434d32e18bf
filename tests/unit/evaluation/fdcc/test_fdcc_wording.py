"""Congestion control when publishers use other words than subscribers: what messages are worth, and seem."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mangrove.errors import InputError
from mangrove.evaluation.fdcc.setting import Setting
from mangrove.evaluation.fdcc.trial import run_trial
from mangrove.evaluation.fdcc.wording import CONCEPTS, Comparison, wording
from mangrove.evaluation.fdcc.wording_study import (
    SHARES,
    setting_name,
    summarise_wording,
    wording_settings,
)
from mangrove.evaluation.fdcc.workload import Workload, draw_workload
from mangrove.evaluation.trials.experiment import to_text
from mangrove.model.congestion.word_vectors import WordVectors
from mangrove.simulation.language.texts import texts


def perfect_table() -> WordVectors:
    """Both words of a concept have the same vector, and all others are at right angles."""
    words = [word for concept in CONCEPTS for word in concept.words]
    return WordVectors(words, np.repeat(np.eye(len(CONCEPTS), dtype=np.float32), 2, axis=0), 0.5)


def drawn(comparison: Comparison, share: float, seed: int = 3) -> Workload:
    ranges = replace(Setting().ranges, wording=wording(comparison, share, perfect_table()))
    return draw_workload(seed, ranges)


def test_worth_does_not_depend_on_words_and_what_is_seen_does() -> None:
    truth = drawn(Comparison.MEANING, 1.0)
    worth = np.concatenate([each.ravel() for each in truth.utilities])
    for share in (0.0, 0.5, 1.0):
        by_words, by_vectors = (drawn(each, share) for each in (Comparison.KEYWORDS, Comparison.SEMANTIC))
        for one in (by_words, by_vectors):
            assert np.concatenate([each.ravel() for each in one.utilities]) == pytest.approx(worth)
        seen = np.concatenate([each.ravel() for each in by_words.taken_for])
        assert (seen <= worth + 1e-12).all()
        expected = {0.0: (1.0, 1.0), 0.5: (0.1, 0.5), 1.0: (0.0, 0.0)}[share]
        assert expected[0] <= seen.sum() / worth.sum() + 1e-12 <= expected[1] + 2e-12
        vectors = np.concatenate([each.ravel() for each in by_vectors.taken_for])
        assert vectors == pytest.approx(worth), "a perfect table sees what there is"


def test_control_by_a_perfect_table_is_control_by_meaning_and_by_keywords_it_is_worse() -> None:
    settings = wording_settings(Setting(), perfect_table())
    assert len(settings) == 1 + 2 * len(SHARES)
    assert len({to_text(each) for each in settings.values()}) == len(settings)
    meaning, by_vectors, by_words = (
        run_trial(drawn(comparison, 1.0), Setting()).arms["fdcc"]
        for comparison in (Comparison.MEANING, Comparison.SEMANTIC, Comparison.KEYWORDS)
    )
    assert by_vectors.utility_s == pytest.approx(meaning.utility_s, rel=1e-6)
    assert by_words.utility_s < 0.9 * meaning.utility_s


def test_a_summary_has_every_comparison_and_says_where_vectors_do_not_help() -> None:
    trials = {seed: run_trial(drawn(Comparison.MEANING, 1.0, seed), Setting()) for seed in (1, 2)}
    same = {
        setting_name(comparison, share): [trials[1 + number % 2] for number in range(10)]
        for comparison in Comparison
        for share in SHARES
    }
    result = summarise_wording(tuple(range(10)), same)
    assert len(result.compared) == len(Comparison) * len(SHARES)
    assert {one.of_meaning.mean for one in result.compared} == {1.0}
    assert len(result.missed()) == len(SHARES), "equal trials: vectors do not help"


def test_a_table_of_another_language_is_refused() -> None:
    with pytest.raises(InputError, match="vectors for 1 of the 240 words"):
        wording(Comparison.SEMANTIC, 1.0, WordVectors(("flood",), np.ones((1, 2), np.float32), 0.5))


def test_texts_are_the_same_for_a_seed_and_use_both_words() -> None:
    first = list(texts(200, 5))
    assert first == list(texts(200, 5))
    assert first != list(texts(200, 6))
    said = {word for text in first for word in text.words}
    assert sum(word in said for concept in CONCEPTS for word in concept.words) > 200
