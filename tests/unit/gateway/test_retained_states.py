"""What is known of retained messages: figures that follow each change, and bounds."""

from __future__ import annotations

from functools import reduce
from operator import xor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.gateway.retained_states import RetainedStates, State

SUBJECTS = ("x", "y", "home.z", "secret.z")
Put = tuple[str, str, int]
PUTS = st.lists(st.tuples(st.sampled_from(SUBJECTS), st.sampled_from("ab"), st.integers(0, 3)))


def counts(subject: str, to: str) -> bool:
    return not subject.startswith("home") and not (to == "c" and subject.startswith("secret"))


@given(PUTS, PUTS)
def test_figures_follow_each_change(before: list[Put], after: list[Put]) -> None:
    states = RetainedStates(counts)
    known: dict[str, State] = {}
    for version, (subject, origin, digest) in enumerate((*before, *after)):
        if version == len(before):
            for key in (("a", ""), ("b", "c")):
                states.figures(*key)
        known[subject] = State(origin, version, digest)
        states.put(subject, known[subject])
    for origin in "ab":
        for to in ("", "c"):
            those = [
                each.digest
                for subject, each in known.items()
                if each.origin == origin and each.digest and counts(subject, to)
            ]
            assert states.figures(origin, to) == (len(those), reduce(xor, those, 0))
        there = [subject for subject, each in known.items() if each.origin == origin and each.digest]
        assert states.there_from(origin) == there


def test_what_was_taken_back_is_remembered_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mangrove.gateway.retained_states.MAX_TAKEN_BACK", 2)
    states = RetainedStates(counts)
    states.put("kept", State("a", 1, 7))
    for number in range(5):
        states.put(f"x.{number}", State("a", 1, 9))
        states.put(f"x.{number}", State("b", 2, 0))
    assert len(states) == 3
    assert states.get("x.4") == State("b", 2, 0)
    assert states.get("x.0") is None
    assert states.figures("a") == (1, 7)


def test_there_is_room_for_so_many_messages_of_a_domain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mangrove.gateway.retained_states.MAX_OF_DOMAIN", 2)
    states = RetainedStates(counts)
    for subject in ("x", "y"):
        assert states.room_for("a")
        states.put(subject, State("a", 1, 7))
    assert not states.room_for("a")
    assert states.room_for("b")
    states.put("x", State("a", 2, 0))
    assert states.room_for("a")
