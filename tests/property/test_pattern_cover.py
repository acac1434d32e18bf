"""The widest of many patterns: as by comparing each with all others, at a fraction of the steps."""

from __future__ import annotations

from itertools import combinations, product

from hypothesis import given
from hypothesis import strategies as st

from mangrove.model.patterns.cover import PatternCover
from mangrove.model.subjects import covers

TOKENS = st.sampled_from(["a", "b", "*"])


@st.composite
def patterns(draw: st.DrawFn) -> str:
    tokens = draw(st.lists(TOKENS, min_size=0, max_size=4))
    if not tokens or draw(st.booleans()):
        tokens.append(draw(st.sampled_from(["a", "*", ">"])))
    return ".".join(tokens)


def by_comparing_all(distinct: set[str]) -> set[str]:
    return {one for one in distinct if not any(other != one and covers(other, one) for other in distinct)}


@given(st.dictionaries(patterns(), st.integers(0, 9), max_size=30))
def test_the_widest_are_those_that_comparing_all_finds(weights: dict[str, int]) -> None:
    cover = PatternCover(weights)
    assert cover.weights.keys() == by_comparing_all(set(weights))
    assert sum(cover.weights.values()) == sum(weights.values())
    assert all(cover.weights[pattern] >= weights[pattern] for pattern in cover.weights)


def test_nested_wildcards_are_covered_by_the_widest() -> None:
    nested = [".".join(tokens) for tokens in product(["a", "*"], repeat=10)]
    cover = PatternCover(dict.fromkeys(nested, 1))
    assert cover.weights == {".".join(["*"] * 10): 1024}
    assert PatternCover(dict.fromkeys([*nested, "*.>"], 1)).weights == {"*.>": 1025}


def test_a_hundred_thousand_subjects_take_a_few_steps_each() -> None:
    subjects = [f"plant.line{n % 500:03}.sensor{n:06}.value" for n in range(100_000)]
    wide = ["plant.line007.>", "plant.*.sensor000001.*", "*.line008.*.value", "other.*"]
    weights = dict.fromkeys([*subjects, *wide], 1)
    cover = PatternCover(weights)
    hidden = {subject for subject in subjects if any(covers(pattern, subject) for pattern in wide)}
    assert cover.weights.keys() == set(weights) - hidden
    assert cover.visited <= 6 * len(weights)


def test_many_wildcards_of_which_none_covers_another_stay_far_from_comparing_all() -> None:
    """The worst kind: equally many `*` at all places."""
    size = 14
    worst = [
        ".".join("*" if place in stars else "a" for place in range(size))
        for stars in map(set, combinations(range(size), size // 2))
    ]
    cover = PatternCover(dict.fromkeys(worst, 1))
    assert len(cover.weights) == len(worst)
    assert cover.visited < len(worst) ** 2 / 10
