"""What is said of publishers: means over a bounded sample."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.kit.received import Fed, received
from tests.kit.waiting import eventually

from mangrove.client import Message
from mangrove.client.message import MessageIds
from mangrove.client.usefulness.judge import Judge
from mangrove.client.usefulness.votes import JUDGED_A_SECOND, Votes, largest
from mangrove.model.agents.usefulness import PLAIN_ORIGIN, Vote
from mangrove.model.shared_names import KEYWORDS_HEADER, UTILITY_HEADER


def votes_of(fed: Fed) -> dict[str, Vote]:
    assert fed.subscription.votes is not None
    return fed.subscription.votes.collect()


async def test_votes_are_means_by_publisher() -> None:
    one, two = MessageIds(), MessageIds()
    fed = Fed("s.*", voting=True, keywords=["storm", "flood"])
    for words, ids in (("storm", one), ("storm, flood", one), ("sport", two), ("storm", None)):
        fed.feed(received("s.1", b"\xff", {KEYWORDS_HEADER: words}, ids))
    fed.feed(received("s.1", b"\xff"))  # nothing is known of it
    assert votes_of(fed) == {
        one.prefix: Vote(2, 0.75),
        two.prefix: Vote(1, 0.0),
        PLAIN_ORIGIN: Vote(1, 0.5),
    }
    assert votes_of(fed) == {}, "said once"


async def test_second_copies_are_not_judged() -> None:
    ids = MessageIds()
    message = received("s", b"storm", None, ids)
    fed = Fed(voting=True, keywords=["storm"])
    fed.feed(message)
    fed.feed(message)
    assert votes_of(fed) == {ids.prefix: Vote(1, 1.0)}


async def test_a_subscriber_without_an_opinion_passes_on_what_is_claimed() -> None:
    ids, silent = MessageIds(), MessageIds()
    fed = Fed(voting=True)
    fed.feed(received("s", b"storm", {UTILITY_HEADER: "0.25"}, ids))
    fed.feed(received("s", b"storm", None, silent))
    assert votes_of(fed) == {ids.prefix: Vote(1, 0.25)}


async def test_the_sample_is_bounded_and_spread_over_the_second() -> None:
    loud, rare = MessageIds(), MessageIds()
    fed = Fed(voting=True, keywords=["storm"], max_pending=10)

    def second(words: Callable[[int], bytes]) -> dict[str, Vote]:
        for number in range(224):
            fed.feed(*(received("s", words(number), None, loud) for _ in range(3)))
        fed.feed(received("s", b"storm", None, rare))
        return votes_of(fed)

    first = second(lambda _: b"storm")
    assert first[loud.prefix] == Vote(JUDGED_A_SECOND, 1.0)
    assert first[rare.prefix] == Vote(1, 1.0), "who says little is heard"
    later = second(lambda number: b"storm" if number < 112 else b"sport")
    assert later[loud.prefix] == Vote(JUDGED_A_SECOND, 0.5), "the whole second counts"


async def test_votes_by_a_function_come_with_the_next_report() -> None:
    ids = MessageIds()
    fed = Fed(voting=True, utility=lambda message: int(message.data) / 4)
    for number in range(4):
        fed.feed(received("s", b"%d" % number, None, ids))
    assert votes_of(fed) == {}
    votes: dict[str, Vote] = {}

    async def told() -> bool:
        votes.update(votes_of(fed))
        return bool(votes)

    await eventually(told, "the function's votes are told")
    assert votes == {ids.prefix: Vote(4, 0.375)}
    fed.thread.close()


def test_too_many_publishers_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mangrove.client.usefulness.votes.MAX_PUBLISHERS", 3)
    judge = Judge("s", frozenset({"storm"}))
    votes = Votes(judge)
    votes.offer([received("s", b"storm", None, MessageIds()) for _ in range(5)])
    assert len(votes.collect()) == 3
    assert judge.problems == {"too many publishers": 2}


def test_a_report_has_the_largest_votes() -> None:
    votes = {"s1": {"a": Vote(3, 0.5), "b": Vote(1, 0.5)}, "s2": {"a": Vote(2, 0.25)}}
    assert largest(votes) == votes
    assert largest(votes, 2) == {"s1": {"a": Vote(3, 0.5)}, "s2": {"a": Vote(2, 0.25)}}


def test_the_cost_of_looking_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mangrove.client.usefulness.votes.BUFFERS_A_SECOND", 10)
    looked: list[int] = []

    class Counting(Judge):
        def utility(self, message: Message) -> float | None:
            looked.append(1)
            return 0.5

    votes = Votes(Counting("s", frozenset({"storm"})))
    for expected in (20, 10):  # the first second is not known before; then every tenth is looked into
        looked.clear()
        for _ in range(100):
            votes.offer([received("s", b"storm", None, MessageIds())])
        assert len(looked) == expected
        votes.collect()
