"""Sentences of events agree with their numbers."""

from __future__ import annotations

from mangrove.control.events.congestion_happenings import LimitsRaised, PublishersLimited
from mangrove.control.events.session_happenings import SessionEnded


def test_one_and_many() -> None:
    def limited(publishers: int, topics: int) -> str:
        return PublishersLimited(
            topics=topics, publishers=publishers, stopped=0, brokers=("e1 (output)",), examples=("a.b",)
        ).sentence()

    assert limited(1, 1).startswith("1 publisher of 1 topic is limited, 0 to a probe, for the sake of e1")
    assert limited(3, 2).startswith("3 publishers of 2 topics are limited")
    assert LimitsRaised(publishers=1, left=1, examples=("a.b",)).sentence() == (
        "1 publisher may say more (a.b); 1 is still limited"
    )
    assert LimitsRaised(publishers=2, left=0, examples=()).sentence() == (
        "2 publishers may say more (nothing); 0 are still limited"
    )
    ended = SessionEnded(session="s", broker="e1", outcome="done", topics=1, moved=2, seconds=3.0)
    assert ended.sentence().endswith("2 clients of 1 topic moved")
