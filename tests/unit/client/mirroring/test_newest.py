"""What publishers tell of their last messages is read with care, and waited for."""

from __future__ import annotations

import pytest

from mangrove.client.mirroring.mirroring import unmirrored
from mangrove.client.mirroring.newest import BEHIND_S, MAX_AWAITED, MAX_SUBJECTS, Awaited, decode, encode
from mangrove.model.congestion.terms import TopicTerms
from mangrove.model.mirrors.modes import told_modes
from mangrove.model.topics import Mirror

FIRST = b"abcdefghijkl.00000000001"
SECOND = b"abcdefghijkl.00000000002"


def test_only_what_makes_sense_is_taken() -> None:
    assert list(decode(encode({"t": FIRST.decode(), "u": "short"}))) == [("t", FIRST)]
    many = {f"t{number}": FIRST.decode() for number in range(MAX_SUBJECTS + 5)}
    assert len(list(decode(encode(many)))) == MAX_SUBJECTS
    with pytest.raises(ValueError, match="Expected"):
        decode(b"\xff nonsense")


def test_the_first_that_does_not_come_is_waited_for() -> None:
    awaited = Awaited()
    awaited.wait_for("t", FIRST, 0.0)
    awaited.wait_for("t", SECOND, 0.2)
    assert awaited.waiting() == [("t", FIRST)]
    assert not awaited.overdue(BEHIND_S - 0.01)
    assert awaited.overdue(BEHIND_S)
    awaited.came("t", FIRST)
    assert not awaited.overdue(9.0)


def test_no_more_is_waited_for_than_there_is_room_for() -> None:
    awaited = Awaited()
    for number in range(MAX_AWAITED + 10):
        awaited.wait_for(f"t{number}", FIRST, 0.0)
    assert len(awaited.waiting()) == MAX_AWAITED


def test_topics_that_should_have_a_mirror_and_have_none_are_told_of() -> None:
    modes = told_modes([TopicTerms(match="alert.>", mirror="both")])
    (state,) = unmirrored(modes, ["alert.a", "other"]).values()
    assert (state.mode, state.mirrors) == (Mirror.BOTH, ())
    assert "no agent" in state.problem
