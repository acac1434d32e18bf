"""What this domain wants, also while its broker is away."""

from __future__ import annotations

from tests.kit.engines import federation, want, with_links

from mangrove.model.topics import Contract, Scope, TopicRules
from mangrove.overlay.instructions import (
    SendFrame,
)
from mangrove.overlay.interest.local_interest import LocalInterest


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
