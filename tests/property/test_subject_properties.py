"""Patterns: the trie, covering and overlapping agree with plain matching."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mangrove.model.patterns.trie import SubjectTrie
from mangrove.model.subjects import covers, matches, patterns_over
from mangrove.model.topics import Contract, Scope, TopicRules, overlaps

TOKENS = st.sampled_from(["a", "b", "c"])
SUBJECTS = st.lists(TOKENS, min_size=1, max_size=4).map(".".join)


@st.composite
def patterns(draw: st.DrawFn) -> str:
    tokens = draw(st.lists(TOKENS | st.just("*"), min_size=0, max_size=3))
    if not tokens or draw(st.booleans()):
        tokens.append(draw(st.sampled_from(["a", "*", ">"])))
    return ".".join(tokens)


@given(st.lists(st.tuples(patterns(), st.integers(0, 3), st.booleans()), max_size=20), SUBJECTS)
def test_the_trie_finds_what_matching_says(changes: list[tuple[str, int, bool]], subject: str) -> None:
    trie: SubjectTrie[int] = SubjectTrie()
    model: set[tuple[str, int]] = set()
    for pattern, value, present in changes:
        if present:
            assert trie.add(pattern, value) == ((pattern, value) not in model)
            model.add((pattern, value))
        else:
            assert trie.remove(pattern, value) == ((pattern, value) in model)
            model.discard((pattern, value))
        assert len(trie) == len(model)
    assert trie.match(subject) == {value for pattern, value in model if matches(pattern, subject)}


@given(patterns(), patterns(), SUBJECTS)
def test_covering_and_overlapping(wide: str, narrow: str, subject: str) -> None:
    if covers(wide, narrow) and matches(narrow, subject):
        assert matches(wide, subject)
    if matches(wide, subject) and matches(narrow, subject):
        assert overlaps(wide, narrow)


@given(st.lists(st.tuples(patterns(), st.sampled_from(Scope)), max_size=4), patterns(), SUBJECTS)
def test_what_stays_home_is_never_federated(
    rules: list[tuple[str, Scope]], pattern: str, subject: str
) -> None:
    topics = TopicRules(tuple(Contract(match=match, scope=scope) for match, scope in rules))
    if topics.stays_home(pattern) and matches(pattern, subject):
        assert topics.contract_of(subject).scope is Scope.DOMAIN


@given(patterns(), SUBJECTS)
def test_all_patterns_over_a_subject_are_enumerated_once(pattern: str, subject: str) -> None:
    over = list(patterns_over(subject))
    assert len(set(over)) == len(over)
    assert all(each is not None and covers(each, subject) for each in over)
    assert (pattern in over) == (covers(pattern, subject) and pattern != subject)


def test_a_subject_with_very_many_tokens_is_not_enumerated() -> None:
    assert list(patterns_over(".".join("x" * 400)))[-1] is None
    assert None not in patterns_over("a.b.c.d.e.f.g.h")
