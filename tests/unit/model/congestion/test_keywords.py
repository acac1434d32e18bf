"""Equation 8, and the limits of what is read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.errors import InputError
from mangrove.model.congestion.keywords import (
    MAX_KEYWORD_CHARACTERS,
    MAX_KEYWORDS,
    checked_keywords,
    keyword_utility,
    keywords_of_header,
    keywords_of_text,
)

WORDS = st.frozensets(st.sampled_from("abcdefgh"))


@pytest.mark.parametrize(
    ("interests", "keywords", "utility"),
    [
        ("tsunami wave", "tsunami wave", 1.0),  # 2/2 · 2/2
        ("tsunami wave", "tsunami", 0.5),  # 1/2 · 1/1
        ("tsunami", "tsunami wave", 0.5),  # 1/1 · 1/2
        ("tsunami wave", "tsunami warning coast", 1 / 6),  # 1/2 · 1/3
        ("a b c d", "a b c x y", 9 / 20),  # 3/4 · 3/5
        ("tsunami", "football", 0.0),
        ("", "tsunami", 0.0),
        ("tsunami", "", 0.0),
        ("", "", 0.0),
    ],
)
def test_equation_8(interests: str, keywords: str, utility: float) -> None:
    found = keyword_utility(frozenset(interests.split()), frozenset(keywords.split()))
    assert found == pytest.approx(utility)


@given(WORDS, WORDS)
def test_it_is_symmetric_and_one_only_for_equal_sets(one: frozenset[str], two: frozenset[str]) -> None:
    utility = keyword_utility(one, two)
    assert utility == keyword_utility(two, one)
    assert 0.0 <= utility <= 1.0
    assert (utility == 1.0) == (one == two != frozenset())
    assert (utility == 0.0) == (not one & two)


def test_words_of_a_header_are_compared_without_case_and_spaces() -> None:
    found = keywords_of_header(" Storm , FLUT,flut,, storm surge ")
    assert found == (frozenset({"storm", "flut", "storm surge"}), False)
    assert keywords_of_header("STRASSE").words == keywords_of_header("straße").words


def test_a_megabyte_of_keywords_is_cut() -> None:
    found = keywords_of_header(",".join(f"word{number}" for number in range(120_000)))
    assert found.cut
    assert len(found.words) == MAX_KEYWORDS
    assert "word0" in found.words

    assert keywords_of_header("x" * (1 << 20)) == (frozenset(), True)
    assert keywords_of_header("x" * (MAX_KEYWORD_CHARACTERS + 1) + ",wave") == (frozenset({"wave"}), True)


def test_repeated_words_do_not_exceed_the_limit() -> None:
    words = [f"w{number}" for number in range(MAX_KEYWORDS)]
    assert keywords_of_header(",".join([*words, *words[:10]])) == (frozenset(words), False)


def test_words_of_a_text() -> None:
    assert keywords_of_text(b"Welle: 3 m, WELLE!") == (frozenset({"welle", "3", "m"}), False)
    assert keywords_of_text(b"\xff\xfe\x00") == (frozenset(), False)
    assert keywords_of_text(b"wave\0wave") == (frozenset(), False)
    assert keywords_of_text(b"") == (frozenset(), False)


def test_a_text_is_read_up_to_a_limit_though_that_is_in_the_middle_of_a_letter() -> None:
    found = keywords_of_text(b"flut " + "ß".encode() * 5000)
    assert found == (frozenset({"flut"}), True)
    many = keywords_of_text(" ".join(f"w{number}" for number in range(1000)).encode())
    assert many.cut
    assert len(many.words) == MAX_KEYWORDS


@given(st.binary(max_size=6000))
def test_no_body_is_too_strange(data: bytes) -> None:
    found = keywords_of_text(data)
    assert len(found.words) <= MAX_KEYWORDS
    assert all(0 < len(word) <= MAX_KEYWORD_CHARACTERS for word in found.words)


@given(st.text(max_size=2000))
def test_no_header_is_too_strange(value: str) -> None:
    found = keywords_of_header(value)
    assert len(found.words) <= MAX_KEYWORDS
    assert all(0 < len(word) <= MAX_KEYWORD_CHARACTERS for word in found.words)


def test_what_a_user_gives_is_checked() -> None:
    assert checked_keywords(["Storm ", "storm", "Flut"]) == {"storm", "flut"}
    assert checked_keywords([]) == frozenset()
    for wrong in ("storm", [""], ["a,b"], ["a\nb"], ["x" * 65], [3], [f"w{number}" for number in range(300)]):
        with pytest.raises(InputError):
            checked_keywords(wrong)  # type: ignore[arg-type]
