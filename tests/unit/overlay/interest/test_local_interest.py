"""What this domain wants, also while its broker is away."""

from __future__ import annotations

import pytest
from tests.kit.engines import federation, want, with_links

from mangrove.model.topics import Contract, Scope, TopicRules
from mangrove.overlay.instructions import (
    SendFrame,
)
from mangrove.overlay.interest.local_interest import WITHDRAWN_PER_TURN, LocalInterest


def test_local_interest_survives_a_short_absence_of_the_broker() -> None:
    interest = LocalInterest(holdover_s=5)
    interest.change("x", "", True)
    interest.change("y", "group", True)
    assert interest.take_changes() == ({"x", "y group"}, set())
    interest.head_lost(now=100)
    interest.change("x", "", True)  # confirmed after the restart
    interest.expire(now=104)
    assert not interest.pending
    interest.expire(now=105)
    assert interest.take_changes() == (set(), {"y group"})


def test_local_interest_is_told_group_by_group() -> None:
    interest = LocalInterest()
    for group in ("", "g"):
        interest.change("x", group, True)
    interest.take_changes()
    interest.change("x", "", False)
    assert interest.take_changes() == (set(), {"x"})
    interest.change("x", "g", False)
    assert interest.take_changes() == (set(), {"x g"})


def test_domain_scoped_interest_is_not_advertised() -> None:
    rules = TopicRules((Contract(match="plant.>", scope=Scope.DOMAIN),))
    own = with_links(federation(("a", "b"), topics=rules), "a")
    assert want(own, "plant.x") == []
    (flooded,) = want(own, "other")
    assert isinstance(flooded, SendFrame)


def test_what_a_broker_leaves_behind_is_given_up_in_slices() -> None:
    interest = LocalInterest(holdover_s=5)
    count = 2 * WITHDRAWN_PER_TURN + 1
    for number in range(count):
        interest.change(f"x.{number}", "group" if number % 2 else "", True)
    while interest.pending:
        interest.take_changes()
    interest.head_lost(now=100)
    assert [interest.expire(now=105) for _ in range(2)] == [None, None]
    assert not interest.settled
    assert interest.timer() == 105, "the rest is due at once"
    assert interest.expire(now=105) == count
    assert interest.settled
    assert interest.timer() is None
    assert interest.groups_for("x.1") == ()
    gone: set[str] = set()
    while interest.pending:
        added, removed = interest.take_changes()
        assert not added
        gone |= removed
    assert len(gone) == count


def test_who_comes_back_while_others_are_given_up_is_told_again() -> None:
    interest = LocalInterest(holdover_s=5)
    count = WITHDRAWN_PER_TURN + 10
    for number in range(count):
        interest.change(f"x.{number}", "", True)
    while interest.pending:
        interest.take_changes()
    interest.head_lost(now=100)
    assert interest.expire(now=105) is None
    interest.change("x.0", "", True)
    interest.change(f"x.{count - 1}", "", True)
    assert interest.expire(now=105) == count - 1, "the first was still expected"
    assert interest.problems() == []
    added: set[str] = set()
    removed: set[str] = set()
    while interest.pending:
        more, less = interest.take_changes()
        added |= more
        removed |= less
    assert added == {f"x.{count - 1}"}, "the last was given up, but perhaps not told yet: both are safe"
    assert removed == {f"x.{number}" for number in range(1, count - 1)}


def test_where_another_broker_takes_the_heads_place_who_is_back_is_served_soon() -> None:
    interest = LocalInterest(holdover_s=5)
    for subject, group in (("back", ""), ("away", ""), ("jobs.x", "workers")):
        interest.change(subject, group, True)
    interest.head_lost(now=100)
    interest.head_moved(now=100.1)
    interest.change("back", "", True)
    assert interest.timer() == pytest.approx(100.6)
    assert not interest.serve_now(now=100.5)
    assert not interest.settled
    assert interest.serve_now(now=100.6)
    assert interest.settled
    assert not interest.serve_now(now=100.7), "told once"
    assert [interest.awaited(subject) for subject in ("back", "away", "jobs.x", "else")] == [
        False,
        True,
        True,
        False,
    ]
    interest.change("jobs.*", "others", True)
    assert not interest.awaited("jobs.x"), "somebody is there who wants it"
    assert interest.timer() == 105
    assert interest.expire(now=105) == 2
    assert not interest.awaited("away")
    assert interest.problems() == []


def test_a_broker_that_was_lost_again_is_waited_for_anew() -> None:
    interest = LocalInterest(holdover_s=5)
    interest.change("x", "", True)
    interest.head_lost(now=100)
    interest.head_moved(now=100)
    assert interest.serve_now(now=101)
    interest.head_lost(now=102)
    assert not interest.settled
    assert not interest.serve_now(now=103)
    assert interest.timer() == 107
