"""Equations 2 and 3 by hand, votes that lie, and votes that grow old."""

from __future__ import annotations

import math

import pytest

from mangrove.control.congestion import opinions as module
from mangrove.control.congestion.opinions import (
    FORGET_S,
    NEUTRAL,
    VALID_S,
    Opinions,
    freshness,
)
from mangrove.model.agents.usefulness import MAX_VOTES, TopicOpinion, Vote
from mangrove.model.congestion.parameters import Congestion


def opinions(max_weight: float = 10.0) -> Opinions:
    return Opinions(Congestion(max_weight=max_weight))


def test_equation_2_by_hand() -> None:
    """(2 · 0.9 + 1 · 0.3 + 1 · 0.0) / (2 + 1 + 1) = 0.525."""
    votes = opinions()
    votes.heard("one", 2.0, "a", {"p": Vote(10, 0.9)}, 0.0)
    votes.heard("two", 1.0, "a", {"p": Vote(1, 0.3)}, 0.0)
    votes.heard("three", 1.0, "a", {"p": Vote(7, 0.0)}, 0.0)
    assert votes.utility("a", "p", 0.0) == pytest.approx(0.525)
    assert votes.utility("a", "p", VALID_S) == pytest.approx(0.525)


def test_equation_3_by_hand() -> None:
    """(0.525 + 0.1) / 2 = 0.3125; a third publisher of whom nobody spoke is as the mean of the others."""
    votes = opinions()
    votes.heard("one", 2.0, "a", {"p": Vote(10, 0.9), "q": Vote(5, 0.1)}, 0.0)
    votes.heard("two", 1.0, "a", {"p": Vote(1, 0.3)}, 0.0)
    votes.heard("three", 1.0, "a", {"p": Vote(7, 0.0)}, 0.0)
    assert votes.topic_utility("a", ["p", "q"], 0.0) == pytest.approx(0.3125)
    assert votes.utility("a", "new", 0.0) == pytest.approx(0.3125)
    assert votes.topic_utility("a", ["p", "q", "new"], 0.0) == pytest.approx(0.3125)


def test_without_votes_everybody_is_neutral() -> None:
    votes = opinions()
    assert votes.utility("a", "p", 0.0) == votes.topic_utility("a", ["p"], 0.0) == NEUTRAL
    assert votes.topic_utility("a", [], 0.0) == NEUTRAL


def test_a_later_vote_replaces_an_earlier_one() -> None:
    votes = opinions()
    votes.heard("one", 1.0, "a", {"p": Vote(100, 0.0)}, 0.0)
    votes.heard("one", 1.0, "a", {"p": Vote(1, 1.0)}, 1.0)
    assert votes.utility("a", "p", 1.0) == 1.0
    assert len(votes) == 1


def test_two_subscriptions_of_a_client_are_one_vote_by_messages() -> None:
    """(3 · 1.0 + 1 · 0.2) / 4 = 0.8, and it weighs as much as another client's 0.4: (0.8 + 0.4) / 2."""
    votes = opinions()
    votes.heard("one", 1.0, "a", {"p": Vote(3, 1.0)}, 0.0)
    votes.heard("one", 1.0, "a", {"p": Vote(1, 0.2)}, 0.0)
    votes.heard("two", 1.0, "a", {"p": Vote(1, 0.4)}, 0.0)
    assert votes.utility("a", "p", 0.0) == pytest.approx(0.6)


def test_an_old_opinion_goes_over_to_that_of_the_others() -> None:
    """Halfway through its decay: 0.5 · 0.0 + 0.5 · 0.8 = 0.4; alone, 0.5 · 0.0 + 0.5 · 0.5 = 0.25."""
    votes = opinions()
    votes.heard("one", 1.0, "a", {"stopped": Vote(3, 0.0)}, 0.0)
    votes.heard("one", 1.0, "b", {"stopped": Vote(3, 0.0)}, 0.0)
    votes.heard("one", 1.0, "a", {"other": Vote(3, 0.8)}, 20.0)
    assert freshness(20.0) == pytest.approx(0.5)
    assert votes.utility("a", "stopped", 20.0) == pytest.approx(0.4)
    assert votes.utility("b", "stopped", 20.0) == pytest.approx(0.25)
    assert votes.utility("b", "stopped", FORGET_S) == NEUTRAL


def test_old_votes_count_less_beside_fresh_ones() -> None:
    """(1 · 1.0 + 0.5 · 0.1) / 1.5 = 0.7: the mean of the topic plays no part while anybody's is fresh."""
    votes = opinions()
    votes.heard("one", 1.0, "a", {"p": Vote(3, 0.1)}, 0.0)
    votes.heard("two", 1.0, "a", {"p": Vote(3, 1.0), "q": Vote(1, 0.0)}, 20.0)
    assert votes.utility("a", "p", 20.0) == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("weight", "counts"),
    [(1e9, 10.0), (math.inf, 10.0), (-3.0, 0.1), (0.0, 0.1), (-math.inf, 0.1), (math.nan, 1.0)],
)
def test_weights_beyond_the_limit_are_clamped_and_counted(weight: float, counts: float) -> None:
    votes = opinions()
    votes.heard("liar", weight, "a", {"p": Vote(1, 1.0)}, 0.0)
    votes.heard("other", 1.0, "a", {"p": Vote(1, 0.0)}, 0.0)
    assert votes.utility("a", "p", 0.0) == pytest.approx(counts / (counts + 1.0))
    assert votes.refused == {"weight beyond the limit": 1}


@pytest.mark.parametrize("utility", [math.nan, math.inf, -math.inf])
def test_votes_that_are_no_numbers_are_refused(utility: float) -> None:
    votes = opinions()
    votes.heard("one", 1.0, "a", {"p": Vote(1, utility)}, 0.0)
    assert votes.utility("a", "p", 0.0) == NEUTRAL
    assert votes.refused == {"utility is no number": 1}
    assert not len(votes)


def test_votes_beyond_the_scale_are_clamped_and_votes_on_nothing_refused() -> None:
    votes = opinions()
    votes.heard("one", 1.0, "a", {"p": Vote(1, 7.0), "q": Vote(1, -7.0), "r": Vote(0, 1.0)}, 0.0)
    assert [votes.utility("a", origin, 0.0) for origin in "pqr"] == [1.0, 0.0, 0.5]
    assert votes.refused == {"utility beyond 0 to 1": 2, "vote on no message": 1}


def test_votes_on_messages_never_sent_are_refused() -> None:
    votes = Opinions(Congestion(), known=lambda topic, origin: (topic, origin) == ("a", "p"))
    votes.heard("one", 1.0, "a", {"p": Vote(1, 1.0), "ghost": Vote(1, 0.0)}, 0.0)
    votes.told(TopicOpinion("a", "here", "there", 3, {"p": (1.0, 1.0), "ghost": (3.0, 0.0)}), 0.0)
    assert votes.utility("a", "p", 0.0) == votes.utility("a", "ghost", 0.0) == 1.0
    assert len(votes) == 3, "two votes on p, and that the other domain has spoken"
    assert votes.refused == {"vote on a stranger": 2}


def test_votes_are_bounded_by_client_and_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    votes = opinions()
    votes.heard("flood", 1.0, "a", {str(number): Vote(1, 0.5) for number in range(MAX_VOTES + 10)}, 0.0)
    assert len(votes) == MAX_VOTES
    assert votes.refused == {"too many votes of one client": 10}
    monkeypatch.setattr(module, "MAX_KEPT", MAX_VOTES + 1)
    votes.heard("two", 1.0, "b", {"p": Vote(1, 1.0), "q": Vote(1, 1.0)}, 0.0)
    votes.told(TopicOpinion("b", "here", "there", 3, {"p": (1.0, 1.0)}), 0.0)
    assert votes.refused["too many votes"] == 2
    votes.heard("two", 1.0, "b", {"q": Vote(1, 1.0)}, FORGET_S)
    assert len(votes) == 1, "what is forgotten makes room"
    votes.heard("flood", 1.0, "b", {"p": Vote(1, 1.0)}, FORGET_S)
    assert len(votes) == 2, "also for the client that had too many"
    assert votes.utility("b", "q", FORGET_S) == 1.0


def test_what_other_domains_told_is_forgotten_where_nobody_votes() -> None:
    votes = opinions()
    for second in range(200):
        votes.told(TopicOpinion(f"t.{second}", "here", "there", 3, {"p": (1.0, 0.9)}), float(second))
    assert len(votes) <= 2 * (FORGET_S + module.SWEEP_S)
    assert votes.utility("t.199", "p", 199.0) == 0.9


def test_what_other_domains_tell_leaves_room_for_votes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_KEPT", 100)
    votes = opinions()
    for number in range(100):
        votes.told(TopicOpinion(f"t.{number}", "here", "there", 3, {}), 0.0)
    assert len(votes) == votes.refused["too many votes"] == 50
    votes.heard("one", 1.0, "a", {str(number): Vote(1, 0.1) for number in range(60)}, 0.0)
    assert votes.utility("a", "49", 0.0) == 0.1
    assert len(votes) == 100
    votes.told(TopicOpinion("t.0", "here", "there", 4, {}), 0.0)
    assert votes.remote_subscribers("t.0", 0.0) == 4, "what is known may change"


def test_other_domains_count_as_many_subscribers_as_spoke_there() -> None:
    """(1 · 0.2 + 3 · 0.6) / 4 = 0.5; what a domain tells later replaces what it told."""
    votes = opinions()
    votes.heard("one", 1.0, "a", {"p": Vote(1, 0.2)}, 0.0)
    votes.told(TopicOpinion("a", "here", "there", 3, {"p": (3.0, 1.0)}), 0.0)
    votes.told(TopicOpinion("a", "here", "there", 3, {"p": (3.0, 0.6)}), 0.0)
    assert votes.utility("a", "p", 0.0) == pytest.approx(0.5)
    assert votes.remote_subscribers("a", 0.0) == 3
    assert votes.remote_subscribers("a", FORGET_S) == votes.remote_subscribers("b", 0.0) == 0
    assert len(votes) == 3


def test_what_other_domains_tell_is_checked_as_well() -> None:
    votes = opinions(max_weight=2.0)
    votes.told(
        TopicOpinion("a", "here", "there", 3, {"p": (1e9, 5.0), "q": (math.nan, 0.1), "r": (-1.0, 0.1)}), 0.0
    )
    votes.told(TopicOpinion("a", "here", "elsewhere", 2, {"p": (2.0, 0.0)}), 0.0)
    assert votes.utility("a", "p", 0.0) == pytest.approx(6.0 / 8.0), "three subscribers weigh at most 2 each"
    assert votes.refused == {"told too much": 1, "told what is no number": 2}


def test_what_is_told_to_others_is_the_sum_of_fresh_votes() -> None:
    votes = opinions()
    votes.heard("old", 1.0, "a", {"p": Vote(1, 0.0)}, 0.0)
    votes.heard("one", 3.0, "a", {"p": Vote(1, 0.0), "q": Vote(1, 1.0)}, VALID_S + 1)
    votes.heard("two", 1.0, "a", {"p": Vote(1, 1.0)}, VALID_S + 1)
    votes.told(TopicOpinion("a", "there", "elsewhere", 9, {"p": (9.0, 1.0)}), VALID_S + 1)
    told = votes.opinion("a", "there", "here", 2, VALID_S + 1, origins={"p"})
    assert told == TopicOpinion("a", "there", "here", 2, {"p": (4.0, 0.25)})
    assert votes.opinion("b", "there", "here", 2, 0.0).votes == {}


def test_who_leaves_takes_its_votes_along() -> None:
    votes = opinions()
    votes.heard("one", 1.0, "a", {"p": Vote(1, 0.0)}, 0.0)
    votes.heard("two", 1.0, "a", {"p": Vote(1, 1.0)}, 0.0)
    votes.ended("one", "a")
    assert votes.utility("a", "p", 0.0) == 1.0
    votes.ended("two", "a")
    votes.ended("two", "never heard of")
    assert votes.utility("a", "p", 0.0) == NEUTRAL
    assert not len(votes)
