"""The gateway's books."""

from __future__ import annotations

import logging

import pytest
from tests.kit.attachments import message

from mangrove.gateway import ledger as books
from mangrove.gateway.ledger import Ledger, topics_in


def test_a_lost_body_is_booked_by_topic_and_reason() -> None:
    ledger = Ledger("a", epoch=1)
    ledger.drop_body(message("x") * 3 + message("y"), "late")
    ledger.drop_body(message("x"), "queue full")
    assert ledger.dropped == {"late": 4, "queue full": 1}
    assert [(d.topic, d.reason, d.count) for d in ledger.largest_drops(2)] == [
        ("x", "late", 3),
        ("y", "late", 1),
    ]
    assert ledger.history.totals.dropped.topics == {"x": 4, "y": 1}


def test_replies_that_are_lost_are_no_topics() -> None:
    ledger = Ledger("a", epoch=1)
    ledger.drop_body(message("_INBOX.1") + message("_MGR.b._INBOX.2"), "late")
    assert ledger.dropped == {"late": 2}
    assert ledger.largest_drops(10) == ()
    totals = ledger.history.totals.dropped
    assert (totals.requests, len(totals)) == (2, 0)


@pytest.mark.parametrize(
    "rest", [b"garbage", b"PUB x 1\r\nx\r\n", b"LMSG x 5\r\nx\r\n", b"LMSG x 1\r\nxyz\r\n"]
)
def test_what_cannot_be_read_is_counted_as_a_body_and_never_as_a_topic(rest: bytes) -> None:
    ledger = Ledger("a", epoch=1)
    ledger.drop_body(message("x") + rest, "late")
    totals = ledger.history.totals
    assert (dict(totals.dropped.topics), totals.malformed_bodies) == ({"x": 1}, 1)
    assert topics_in(message("x") + rest) == ({"x": 1}, True)


def test_drops_by_topic_are_bounded_and_the_sum_by_reason_is_complete(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(books, "MAX_TOPICS", 10)
    monkeypatch.setattr(books, "MAX_LOGGED", 5)
    ledger = Ledger("a", epoch=1)
    with caplog.at_level(logging.WARNING):
        for number in range(100):
            ledger.drop(f"t{number}", "late")
            ledger.drop("t0", "late")
    assert ledger.dropped == {"late": 200}
    assert len(ledger.largest_drops(1000)) == 10
    assert ledger.largest_drops(1)[0].count == 101
    assert len(caplog.records) == 5, "a flood of topics is not a flood of log lines"
