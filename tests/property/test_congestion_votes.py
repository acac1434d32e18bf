"""Whatever subscribers say, and whenever: utilities stay utilities, ranks rest, and shares add up."""

from __future__ import annotations

import math
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from mangrove.control.congestion.importance import steady_ranks
from mangrove.control.congestion.opinions import FORGET_S, NEUTRAL, Opinions
from mangrove.control.congestion.shares import FLOOR, fair_shares
from mangrove.model.agents.usefulness import TopicOpinion, Vote
from mangrove.model.congestion.parameters import Congestion

ANYTHING = st.floats(allow_nan=True, allow_infinity=True) | st.floats(0.0, 1.0)
NAMES = st.sampled_from(("p", "q", "r"))
TOPICS = st.sampled_from(("a", "b"))
CLIENTS = st.sampled_from(("one", "two", "three"))

Act = Callable[[Opinions, float], None]


def heard(client: str, weight: float, topic: str, votes: dict[str, Vote]) -> Act:
    return lambda opinions, now: opinions.heard(client, weight, topic, votes, now)


def told(opinion: TopicOpinion) -> Act:
    return lambda opinions, now: opinions.told(opinion, now)


def ended(client: str, topic: str) -> Act:
    return lambda opinions, now: opinions.ended(client, topic)


VOTES = st.dictionaries(NAMES, st.builds(Vote, st.integers(-1, 10**9), ANYTHING), max_size=3)
TOLD = st.dictionaries(NAMES, st.tuples(ANYTHING, ANYTHING), max_size=3)
ACTS = st.one_of(
    st.builds(heard, CLIENTS, ANYTHING, TOPICS, VOTES),
    st.builds(told, st.builds(TopicOpinion, TOPICS, st.just("here"), CLIENTS, st.integers(-5, 10**6), TOLD)),
    st.builds(ended, CLIENTS, TOPICS),
)


@settings(max_examples=200, deadline=None)
@given(acts=st.lists(st.tuples(st.floats(0.0, 20.0), ACTS), max_size=30))
def test_utilities_stay_between_0_and_1(acts: list[tuple[float, Act]]) -> None:
    opinions = Opinions(Congestion(max_weight=3.0))
    now = 0.0
    for pause_s, act in acts:
        now += pause_s
        act(opinions, now)
        for topic in "ab":
            for origin in ("p", "q", "r", "new"):
                assert 0.0 <= opinions.utility(topic, origin, now) <= 1.0
            assert 0.0 <= opinions.topic_utility(topic, ("p", "q"), now) <= 1.0
            assert 0.0 <= opinions.topic_utility(topic, (), now) <= 1.0
            for weight, utility in opinions.opinion(topic, "there", "here", 3, now).votes.values():
                assert 0.0 < weight <= 9.0
                assert 0.0 <= utility <= 1.0
    later = now + FORGET_S + 1.0
    opinions.sweep(later)
    assert len(opinions) == 0, "whatever was taken in is let go in the same number"
    assert opinions.utility("a", "p", later) == NEUTRAL


@settings(max_examples=100, deadline=None)
@given(
    liar=st.dictionaries(NAMES, st.builds(Vote, st.integers(1, 10**9), ANYTHING), max_size=3),
    weight=ANYTHING,
    honest=st.integers(1, 30),
    utility=st.floats(0.0, 1.0),
)
def test_a_liar_counts_for_no_more_than_its_weight(
    liar: dict[str, Vote], weight: float, honest: int, utility: float
) -> None:
    opinions = Opinions(Congestion(max_weight=2.0))
    for number in range(honest):
        opinions.heard(f"c{number}", 1.0, "a", {"p": Vote(1, utility)}, 0.0)
    for _ in range(3):
        opinions.heard("liar", weight, "a", liar, 0.0)
    assert abs(opinions.utility("a", "p", 0.0) - utility) <= 2.0 / (honest + 2.0) + 1e-9


@settings(max_examples=100, deadline=None)
@given(
    before=st.dictionaries(CLIENTS, st.floats(0.0, 1.0), min_size=1),
    others=st.floats(0.0, 1.0),
    data=st.data(),
)
def test_who_becomes_useful_is_seen_to_be(
    before: dict[str, float], others: float, data: st.DataObject
) -> None:
    """A publisher that only some of its judges still hear is what these say, once the others have aged."""
    opinions = Opinions(Congestion())
    for client, utility in before.items():
        opinions.heard(client, 1.0, "a", {"p": Vote(100, utility)}, 0.0)
    hearing = data.draw(st.sets(st.sampled_from(sorted(before)), min_size=1))
    last = opinions.utility("a", "p", 0.0)
    for second in range(1, int(FORGET_S) + 1):
        for client in sorted(hearing):
            opinions.heard(client, 1.0, "a", {"p": Vote(1, 1.0), "q": Vote(9, others)}, float(second))
        now = opinions.utility("a", "p", float(second))
        assert now >= last - 1e-9, "it never falls while all that is heard is useful"
        last = now
    assert last == 1.0


@settings(max_examples=100, deadline=None)
@given(
    steps=st.lists(st.lists(st.floats(-0.024, 0.024), min_size=3, max_size=3), min_size=1, max_size=10),
    values=st.lists(st.floats(1e-6, 1e9), min_size=3, max_size=3),
)
def test_noise_below_the_hysteresis_changes_no_rank(steps: list[list[float]], values: list[float]) -> None:
    ranks: dict[str, float] = {}
    first: dict[str, float] = {}
    for noise in steps:
        now = {str(place): value * (1.0 + noise[place]) for place, value in enumerate(values)}
        ranks = steady_ranks(ranks, now, 0.05)
        first = first or ranks
    assert ranks == first


OFFERS = st.dictionaries(st.integers(0, 20).map(str), st.floats(0.0, 1e6), min_size=1, max_size=8)


@settings(max_examples=200, deadline=None)
@given(rate=st.floats(0.001, 1e6), offered=OFFERS)
def test_shares_use_a_rate_up_and_are_max_min_fair(rate: float, offered: dict[str, float]) -> None:
    shares = fair_shares(rate, offered, margin=0.0)
    floor = FLOOR * rate / len(offered)
    near = 1e-9 * rate * len(offered)
    assert math.isclose(sum(shares.values()), rate, rel_tol=1e-9)
    assert min(shares.values()) >= floor - near, "everybody can begin"
    for name, share in shares.items():
        if share < offered[name] - near:
            assert share >= max(shares.values()) - near, "who lacks something has as much as anybody"


@settings(max_examples=100, deadline=None)
@given(rate=st.floats(0.001, 1e6), offered=OFFERS)
def test_shares_never_exceed_a_rate(rate: float, offered: dict[str, float]) -> None:
    shares = fair_shares(rate, offered)
    assert sum(shares.values()) <= rate * (1 + 1e-9)
    assert min(shares.values()) >= 0.0
