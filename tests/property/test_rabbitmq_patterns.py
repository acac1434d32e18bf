"""Patterns of the federation against binding keys: what each side matches, as the brokers define it."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from mangrove.broker.rabbitmq.exchange.patterns import (
    MAX_KEY_BYTES,
    is_exact,
    is_subject,
    key_of,
    patterns_of,
)
from mangrove.broker.rabbitmq.hosting.topic_permissions import topic_permission
from mangrove.broker.security import Rights, Subjects
from mangrove.model.subjects import matches, subject_problem

WORDS = st.sampled_from(["a", "b", "c", "é", "a-b"])
SUBJECTS = st.lists(WORDS, min_size=1, max_size=6).map(".".join)
KEYS = st.lists(st.one_of(WORDS, st.sampled_from(["*", "#"])), min_size=1, max_size=6).map(".".join)
PATTERNS = st.builds(
    lambda words, rest: ".".join([*words, *rest]),
    st.lists(st.one_of(WORDS, st.sampled_from(["*", "#"])), min_size=1, max_size=5),
    st.sampled_from([[], [">"]]),
)


def bound(key: str, subject: str) -> bool:
    """Whether a topic exchange routes a subject by a binding key: `*` is one word, `#` any number."""

    def walk(key_words: list[str], words: list[str]) -> bool:
        if not key_words:
            return not words
        first, *rest = key_words
        if first == "#":
            return walk(rest, words) or (bool(words) and walk(key_words, words[1:]))
        return bool(words) and first in ("*", words[0]) and walk(rest, words[1:])

    return walk(key.split(".") if key else [], subject.split("."))


@given(KEYS, SUBJECTS)
@settings(max_examples=500)
def test_all_that_a_binding_matches_is_asked_for(key: str, subject: str) -> None:
    asked = any(matches(pattern, subject) for pattern in patterns_of(key))
    assert asked or not bound(key, subject)


@given(KEYS, SUBJECTS)
@settings(max_examples=500)
def test_nothing_else_is_asked_for_where_nats_can_say_it(key: str, subject: str) -> None:
    if is_exact(key):
        assert any(matches(each, subject) for each in patterns_of(key)) == bound(key, subject)


@given(PATTERNS, SUBJECTS)
@settings(max_examples=500)
def test_a_pattern_is_bound_exactly(pattern: str, subject: str) -> None:
    if "#" not in pattern.split("."):  # which is a word like others in NATS, and asked for as any word
        assert bound(key_of(pattern), subject) == matches(pattern, subject)
    assert bound(key_of(pattern), subject) or not matches(pattern, subject)


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="."), max_size=60), min_size=1))
@settings(max_examples=300)
def test_any_key_is_translated_to_what_can_be_subscribed_to(words: list[str]) -> None:
    for pattern in patterns_of(".".join(words)):
        assert not subject_problem(pattern, wildcards=True)


@given(st.lists(st.sampled_from(["a" * 40, "é" * 30, "*", "b"]), min_size=1, max_size=12), SUBJECTS)
def test_a_key_is_never_too_long(words: list[str], rest: str) -> None:
    pattern = ".".join([*words, ">"])
    key = key_of(pattern)
    assert len(key.encode()) <= MAX_KEY_BYTES
    subject = ".".join(["x" if word == "*" else word for word in words]) + "." + rest
    assert is_subject(subject)
    assert bound(key, subject)


@given(st.lists(PATTERNS, max_size=3), st.lists(PATTERNS, max_size=2), st.booleans(), KEYS, SUBJECTS)
@settings(max_examples=500)
def test_permissions_let_nobody_bind_what_he_may_not_hear(
    allow: list[str], deny: list[str], anything: bool, key: str, subject: str
) -> None:
    subjects = Subjects(None if anything else tuple(allow), tuple(deny))
    entry = topic_permission("anna", Rights(publish=subjects, subscribe=subjects))
    allowed = anything or any(matches(each, subject) for each in allow)
    may = allowed and not any(matches(each, subject) for each in deny)
    assert bool(re.search(str(entry["write"]), subject)) == may
    if re.search(str(entry["read"]), key) and bound(key, subject):
        assert may, f"{key} would hear {subject}"


@given(
    st.lists(WORDS, min_size=1, max_size=4),
    st.data(),
    st.lists(st.sampled_from(["*", "#"]), max_size=3),
)
@settings(max_examples=500)
def test_nobody_comes_to_what_is_denied_by_other_words_for_it(
    words: list[str], data: st.DataObject, rest: list[str]
) -> None:
    """`a.b.#` is `a.b`, too, for AMQP, and so is `a/b/#` for the MQTT plugin."""

    def one_of(*choices: str) -> str:
        return data.draw(st.sampled_from(choices))

    subject = ".".join(words)
    denied = ".".join(one_of(word, "*") for word in words)
    key = ".".join([*(one_of(word, "*", "#") for word in words), *rest])
    rights = Rights(publish=Subjects(), subscribe=Subjects(None, (denied,)))
    if bound(key, subject):
        assert not re.search(str(topic_permission("anna", rights)["read"]), key), f"{key} hears {subject}"
