"""Selectors: the language as people write it, and what is told of mistakes."""

from __future__ import annotations

import pytest

from mangrove.model.selectors.evaluation import has_form
from mangrove.model.selectors.group_names import MAX_ENCODED_BYTES, PREFIX, selecting_group, selector_in
from mangrove.model.selectors.parsing import MAX_CHARACTERS, MAX_DEPTH
from mangrove.model.selectors.selector import Selector
from mangrove.model.selectors.words import SelectorError


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("severity>=3", "severity >= 3"),
        ("3 <= severity", "severity >= 3"),
        ("severity == 3 and region != 'north'", "severity = 3 AND region <> 'north'"),
        ("(a = 1 or (b = 2)) AND c = .5", "(a = 1 OR b = 2) AND c = 0.5"),
        ("not (a is null)", "a IS NOT NULL"),
        ("zone not in ('x', 'it''s')", "NOT zone IN ('x', 'it''s')"),
        ("\"and\" like 'a!%%' escape '!'", "\"and\" LIKE 'a!%%' ESCAPE '!'"),
        ("X-Level between -1 and 2e3", "X-Level BETWEEN -1 AND 2000.0"),
        ("a = 1 AND (b = 2 AND c = 3)", "a = 1 AND b = 2 AND c = 3"),
    ],
)
def test_is_written_in_one_form(text: str, written: str) -> None:
    assert Selector(text).text == written


@pytest.mark.parametrize(
    ("text", "headers", "wanted"),
    [
        ("severity >= 3", {"severity": "3"}, True),
        ("severity >= 3", {"severity": "3.5"}, True),
        ("severity >= 3", {"severity": "10"}, True),
        ("severity >= 3", {"severity": "high"}, False),
        ("severity >= 3", {}, False),
        ("NOT severity >= 3", {}, False),
        ("severity < 3 OR severity IS NULL", {}, True),
        ("version = '3'", {"version": "3"}, True),
        ("version = '3'", {"version": "3.0"}, False),
        ("number = 9007199254740993", {"number": "9007199254740992"}, False),
        ("Severity = 3", {"severity": "3"}, False),
        ("at > '2026-01-31'", {"at": "2026-02-01"}, True),
    ],
)
def test_selects(text: str, headers: dict[str, str], wanted: bool) -> None:
    assert Selector(text).wants(headers) is wanted


@pytest.mark.parametrize(
    ("text", "position", "problem", "hint"),
    [
        ("", 0, "the name of a header is expected, not the end", "severity >= 3"),
        ("severity >> 3", 10, "a number, or text in quotes is expected, not '>'", "severity >= 3"),
        ("region = north", 9, "a number, or text in quotes is expected, not 'north'", "'north'"),
        ("(a = 1", 6, ") is expected, not the end", ""),
        ("a = 1 b", 6, "AND, OR or the end is expected, not 'b'", ""),
        ("urgent = true", 9, "there is no value true", "'true'"),
        ("a = 1 & b = 2", 6, "'&' means nothing here", "AND"),
        ("a = 'x", 4, "this text has no end", "'"),
        ("a IN (1, 'x')", 9, "a number is expected, not \"'x'\"", ""),
        ("a BETWEEN 1 OR 2", 12, "AND is expected, not 'OR'", ""),
        ("a LIKE 'x' ESCAPE '%'", 18, "ESCAPE takes one character, other than % and _", ""),
        ("a LIKE '!x' ESCAPE '!'", 7, "after '!' only %, _ or '!' may follow", ""),
        ("1 = 1", 4, "the name of a header is expected, not '1'", ""),
        ("a = 1e999", 4, "this number is too long or too large", ""),
        ('"a b" = 1', 0, "no header can have this name", "this"),
        (
            "NOT " * (MAX_DEPTH + 1) + "a = 1",
            4 * MAX_DEPTH,
            f"it is nested deeper than {MAX_DEPTH} levels",
            "",
        ),
        ("a LIKE 'x\udc80%'", 9, "no header can have half a character in it", ""),
        ("a" * (MAX_CHARACTERS + 1), MAX_CHARACTERS, f"it is longer than {MAX_CHARACTERS} characters", ""),
    ],
)
def test_a_mistake_is_told_with_its_place(text: str, position: int, problem: str, hint: str) -> None:
    with pytest.raises(SelectorError) as raised:
        Selector(text)
    assert (raised.value.position, raised.value.problem) == (position, problem)
    assert hint in raised.value.hint
    assert len(raised.value.message) < 400


def test_a_form_costs_no_more_than_both_lengths_together() -> None:
    """By backtracking this would take longer than anybody waits."""
    assert not has_form("%a" * 200 + "b")("a" * 20_000)


def test_long_selectors_have_no_group_name() -> None:
    long = Selector("region = '" + "x" * MAX_ENCODED_BYTES + "'")
    assert selecting_group("tag", long) == ""


@pytest.mark.parametrize(
    "group",
    [
        "workers",
        f"{PREFIX}tag",
        f"{PREFIX}tag.",
        f"{PREFIX}tag.severity",
        f"{PREFIX}tag.severity>=3",  # not in the one form
        f"{PREFIX}tag.%FF",
        f"{PREFIX}tag.{'(' * 200}",
    ],
)
def test_other_queue_groups_stand_for_no_selector(group: str) -> None:
    assert selector_in(group) is None
