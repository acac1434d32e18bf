"""Subjects and topic contracts."""

from __future__ import annotations

import pytest

from mangrove.broker.message_heads import header_problem
from mangrove.model.subjects import covers, group_problem, is_internal, matches, subject_problem
from mangrove.model.topics import BEST_EFFORT, Contract, Scope, TopicRules, overlaps


@pytest.mark.parametrize(
    ("pattern", "subject", "expected"),
    [
        ("a.b", "a.b", True),
        ("a.b", "a.b.c", False),
        ("a.*", "a.b", True),
        ("a.*", "a", False),
        ("a.*", "a.b.c", False),
        ("a.>", "a.b.c", True),
        ("a.>", "a", False),
        (">", "a", True),
        ("*.b", "a.b", True),
        ("*.*", "a.b.c", False),
    ],
)
def test_matching(pattern: str, subject: str, expected: bool) -> None:
    assert matches(pattern, subject) is expected


@pytest.mark.parametrize(
    ("wide", "narrow", "expected"),
    [
        ("a.>", "a.*", True),
        ("a.*", "a.>", False),
        ("a.*", "a.*", True),
        (">", "a.>", True),
        ("a.>", ">", False),
        ("a.*.c", "a.b.c", True),
        ("a.b", "a.*", False),
    ],
)
def test_covering(wide: str, narrow: str, expected: bool) -> None:
    assert covers(wide, narrow) is expected


@pytest.mark.parametrize("text", ["", "a..b", ".a", "a.", "a b", "a.\tb", "a.>.b", "x" * 2000, "a.\x00"])
def test_invalid_subjects_are_told_why(text: str) -> None:
    assert subject_problem(text, wildcards=True)


def test_wildcards_are_invalid_for_publishing() -> None:
    assert subject_problem("a.*", wildcards=True) == ""
    assert "wildcard" in subject_problem("a.*", wildcards=False)
    assert subject_problem("a*b", wildcards=False) == ""  # a star inside a token is a plain character


def test_machinery_is_internal() -> None:
    assert is_internal("$JS.API.INFO")
    assert is_internal("_INBOX.abc")
    assert not is_internal("alert.x")


def test_first_matching_contract_wins() -> None:
    rules = TopicRules((Contract(match="a.b", paths=2), Contract(match="a.>", paths=3)))
    assert rules.contract_of("a.b").paths == 2
    assert rules.contract_of("a.c").paths == 3
    assert rules.contract_of("z") is BEST_EFFORT
    assert rules.index_of("z") == 2


def test_what_stays_home() -> None:
    rules = TopicRules((Contract(match="plant.public.>"), Contract(match="plant.>", scope=Scope.DOMAIN)))
    assert rules.stays_home("plant.boiler")
    assert not rules.stays_home("plant.public.notice")
    assert not rules.stays_home("plant.>")  # part of it is federated by the earlier rule
    assert not rules.stays_home(">")
    assert not rules.stays_home("other")


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("a.*", "*.b", True),
        ("a.>", "a.b.c", True),
        ("a.b", "a.c", False),
        ("a", "a.b", False),
        (">", "x", True),
    ],
)
def test_overlapping_patterns(first: str, second: str, expected: bool) -> None:
    assert overlaps(first, second) is overlaps(second, first) is expected


def test_half_a_character_is_refused_by_a_word() -> None:
    """As a terminal that does not speak UTF-8 makes of a letter."""
    assert "control character" in subject_problem("plant.\udcfcber", wildcards=False)
    assert "control character" in group_problem("\udcfcber")
    assert header_problem("place", "\udcfcber") == "its value has half a character in it"
    assert not header_problem("place", "über 🌊")
