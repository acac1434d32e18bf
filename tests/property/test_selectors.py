"""Selectors: what they select, against a plain reading of SQL's rules, and the one text of each."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from mangrove.model.selectors.conditions import (
    AllOf,
    AnyOf,
    Between,
    Comparison,
    Condition,
    Like,
    Missing,
    Not,
    OneOf,
    Value,
    text_of,
)
from mangrove.model.selectors.evaluation import test_of as function_of
from mangrove.model.selectors.group_names import selecting_group, selector_in, told_group
from mangrove.model.selectors.parsing import parse
from mangrove.model.selectors.selector import Selector
from mangrove.model.selectors.words import SelectorError
from mangrove.model.subjects import group_problem

NAMES = st.sampled_from(["severity", "region", "X-Zone", "or", "a.b", "9"])
NUMBERS = st.integers(-5, 5) | st.floats(-5, 5, allow_nan=False).map(lambda number: round(number, 2))
TEXTS = st.text("ab%_'!é ", max_size=4)
HEADERS = st.dictionaries(NAMES, TEXTS | NUMBERS.map(str) | st.sampled_from(["", "1e9", "0x1", "١"]))


def forms() -> st.SearchStrategy[Condition]:
    signs = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
    pair = st.tuples(NUMBERS, NUMBERS) | st.tuples(TEXTS, TEXTS)
    several = st.lists(NUMBERS, min_size=1, max_size=3) | st.lists(TEXTS, min_size=1, max_size=3)
    return st.one_of(
        st.builds(Comparison, NAMES, signs, NUMBERS | TEXTS),
        st.builds(lambda name, two: Between(name, *two), NAMES, pair),
        st.builds(lambda name, values: OneOf(name, tuple(values)), NAMES, several),
        st.builds(Like, NAMES, st.text("ab%_é", max_size=6)),
        st.builds(
            Like,
            NAMES,
            st.lists(st.sampled_from(["!%", "!_", "!!", "a", "%", "_"])).map("".join),
            st.just("!"),
        ),
        st.builds(Missing, NAMES),
    )


def conditions() -> st.SearchStrategy[Condition]:
    def more(inner: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
        terms = st.lists(inner, min_size=2, max_size=3)
        return st.one_of(
            st.builds(Not, inner),
            st.builds(lambda each: AllOf(_flat(each, AllOf)), terms),
            st.builds(lambda each: AnyOf(_flat(each, AnyOf)), terms),
        )

    return st.recursive(forms(), more, max_leaves=6)


def _flat(terms: list[Condition], kind: type[AllOf] | type[AnyOf]) -> tuple[Condition, ...]:
    return tuple(inner for term in terms for inner in (term.terms if isinstance(term, kind) else (term,)))


# -- a reading of the rules that shares nothing with the code ------------------------------------------------

TRUE, FALSE, UNKNOWN = 2, 0, 1


def judged(condition: Condition, headers: Mapping[str, str]) -> int:
    """Kleene's logic in numbers: AND is the least, OR the greatest, NOT the distance from true."""
    match condition:
        case AllOf(terms):
            return min(judged(term, headers) for term in terms)
        case AnyOf(terms):
            return max(judged(term, headers) for term in terms)
        case Not(term):
            return TRUE - judged(term, headers)
        case Missing(name):
            return FALSE if name in headers else TRUE
        case Between(name, low, high):
            return min(compared(name, ">=", low, headers), compared(name, "<=", high, headers))
        case OneOf(name, values):
            return max(compared(name, "=", value, headers) for value in values)
        case Comparison(name, sign, value):
            return compared(name, sign, value, headers)
        case Like(name, form, escape):
            if name not in headers:
                return UNKNOWN
            return TRUE if has_form(headers[name], signs_of(form, escape)) else FALSE


def compared(name: str, sign: str, value: Value, headers: Mapping[str, str]) -> int:
    found: Value | None = headers.get(name)
    if not isinstance(value, str) and isinstance(found, str):
        try:
            found = float(found) if found.isascii() and found.strip() == found and "_" not in found else None
        except ValueError:
            found = None
    if found is None:
        return UNKNOWN
    order = (found > value) - (found < value)  # type: ignore[operator]
    return (
        TRUE
        if order in {"=": [0], "<>": [-1, 1], "<": [-1], "<=": [-1, 0], ">": [1], ">=": [0, 1]}[sign]
        else FALSE
    )


def signs_of(form: str, escape: str) -> list[str]:
    signs, rest = [], list(form)
    while rest:
        first = rest.pop(0)
        signs.append(
            "=" + rest.pop(0) if escape and first == escape else first if first in "%_" else "=" + first
        )
    return signs


def has_form(text: str, signs: list[str]) -> bool:
    if not signs:
        return not text
    first, *rest = signs
    if first == "%":
        return any(has_form(text[start:], rest) for start in range(len(text) + 1))
    return bool(text) and (first == "_" or first == "=" + text[0]) and has_form(text[1:], rest)


@given(conditions(), HEADERS)
def test_selects_what_the_rules_say(condition: Condition, headers: dict[str, str]) -> None:
    expected = {TRUE: True, FALSE: False, UNKNOWN: None}[judged(condition, headers)]
    assert function_of(condition)(headers) is expected
    assert Selector(text_of(condition)).wants(headers) is (expected is True)


@given(conditions())
def test_every_condition_has_one_text(condition: Condition) -> None:
    text = text_of(condition)
    assert parse(text) == condition
    assert Selector(text).text == text


@given(st.text("ab='()<>,% \"0AND ORNT.-", max_size=40) | st.text(max_size=40))
def test_any_text_is_read_or_refused_in_one_place(text: str) -> None:
    refused: SelectorError | None = None
    try:
        selector = Selector(text)
    except SelectorError as error:
        refused = error
    if refused is None:
        assert Selector(selector.text) == selector
    else:
        assert 0 <= refused.position <= len(text)
        assert f"at character {refused.position + 1}: " in refused.message
        assert refused.hint


@given(conditions())
def test_a_group_name_gives_the_selector_back(condition: Condition) -> None:
    selector = Selector(text_of(condition))
    group = selecting_group("a_-tag", selector)
    if group:
        assert not group_problem(group)
        assert selector_in(group) == selector
        told = told_group("denver", group)
        assert told == selecting_group("denver", selector)
        assert selector_in(told) == selector
