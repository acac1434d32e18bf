"""How useful a message is, whatever publishers and users come up with."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.kit.received import received

from mangrove.client.message import MessageIds
from mangrove.client.pending.reading import reading_of
from mangrove.client.usefulness.headers import usefulness_headers
from mangrove.client.usefulness.judge import Judge
from mangrove.client.usefulness.user_function import UtilityThread
from mangrove.errors import InputError
from mangrove.lake.vector_file import write_vectors
from mangrove.model.congestion.word_vectors import WordVectors
from mangrove.model.shared_names import KEYWORDS_HEADER, UTILITY_HEADER

INTERESTS = frozenset({"storm", "flood"})


@pytest.mark.parametrize(
    ("data", "headers", "utility"),
    [
        (b"", {KEYWORDS_HEADER: "Storm, FLOOD"}, 1.0),
        (b"storm flood", {KEYWORDS_HEADER: "sport"}, 0.0),  # what the header says counts, not the body
        (b"a storm!", {}, 0.25),  # 1/2 · 1/2
        (b"\xff\xfe", {UTILITY_HEADER: "0.7"}, 0.7),
        (b"\xff\xfe", {}, None),
        (b"", {}, None),
    ],
)
def test_keywords_come_before_what_the_publisher_claims(
    data: bytes, headers: dict[str, str], utility: float | None
) -> None:
    judge = Judge("s", INTERESTS)
    for message in (received("s", data, headers), received("s", data, headers, MessageIds())):
        for _ in range(2):
            assert judge.utility(message) == utility
    assert not judge.problems


@pytest.mark.parametrize(
    ("claim", "utility", "problems"),
    [
        ("0.25", 0.25, {}),
        ("NaN", None, {"unreadable utility header": 1}),
        ("1e999", None, {"unreadable utility header": 1}),
        ("-1", 0.0, {"utility header out of range": 1}),
        ("7", 1.0, {"utility header out of range": 1}),
        ("high", None, {"unreadable utility header": 1}),
        ("1_0", None, {"unreadable utility header": 1}),
        ("9" * 5000, None, {"unreadable utility header": 1}),
    ],
)
def test_claims_are_clamped_or_ignored(claim: str, utility: float | None, problems: dict[str, int]) -> None:
    judge = Judge("s", frozenset())
    assert judge.utility(received("s", b"storm", {UTILITY_HEADER: claim})) == utility
    assert judge.problems == problems


def test_a_megabyte_of_keywords_is_cut_counted_and_explained_once(caplog: pytest.LogCaptureFixture) -> None:
    judge = Judge("s", INTERESTS)
    message = received("s", b"", {KEYWORDS_HEADER: "storm," * 200_000})
    for _ in range(3):
        assert judge.utility(message) == 0.5
    assert judge.problems == {"keywords cut": 3}
    assert caplog.text.count("more keywords than are read") == 1


def test_what_publishers_say_is_checked() -> None:
    assert usefulness_headers({"a": "b"}, ["Flood", "storm "], 0.5) == {
        "a": "b",
        KEYWORDS_HEADER: "flood,storm",
        UTILITY_HEADER: "0.5",
    }
    for utility in (math.nan, math.inf, -0.1, 1.1):
        with pytest.raises(InputError):
            usefulness_headers(None, None, utility)
    with pytest.raises(InputError):
        usefulness_headers(None, ["a,b"], None)


def test_a_subscriber_with_word_vectors_values_other_words_for_the_same(tmp_path: Path) -> None:
    path = tmp_path / "vectors.npz"
    table = WordVectors(("flood", "inundation"), np.array([[1, 0], [0.8, 0.6]], np.float32), 0.7)
    write_vectors(path, table)
    message = received("s", b"", {KEYWORDS_HEADER: "Inundation"})
    plain = reading_of("s", UtilityThread(), keywords=["flood"]).judge
    assert plain.utility(message) == 0.0
    for semantic in (path, str(path), table):
        judge = reading_of("s", UtilityThread(), keywords=["Flood"], semantic=semantic).judge
        assert judge.opinionated
        assert judge.utility(message) == pytest.approx(0.64)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"semantic": "vectors.npz"}, "`semantic` compares keywords, and there are none"),
        ({"semantic": 7, "keywords": ["a"]}, "not int"),
        ({"semantic": "/nowhere/vectors.npz", "keywords": ["a"]}, "cannot read /nowhere/vectors.npz"),
    ],
)
def test_word_vectors_that_cannot_be_used_are_refused_at_once(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError) as refused:
        reading_of("s", UtilityThread(), **given)
    assert problem in refused.value.message
