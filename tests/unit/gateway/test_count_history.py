"""Counts by topic since a cursor."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from mangrove.gateway.count_history import ANSWER_BYTES, CountHistory
from mangrove.gateway.tally import Tally
from mangrove.model.stream.telling import Follower, Teller
from mangrove.model.topic_counts import CountCursor, TopicCounts, TopicCountsRequest, TopicTotals


def sent(history: CountHistory, **topics: int) -> None:
    for topic, count in topics.items():
        history.current.sent.add(topic, count)


def test_a_new_reader_gets_a_cursor_and_no_history() -> None:
    history = CountHistory("a", epoch=1)
    sent(history, old=1_000_000)
    first = history.since(None, 60.0)
    assert (first.sent.total, first.span_s) == (0, 0.0)
    sent(history, old=2, new=1)
    second = history.since(first.cursor, 61.0)
    assert second.sent.topics == {"old": 2, "new": 1}
    assert second.span_s == 1.0
    assert second.sent.other == second.sent.requests == 0


def test_a_topic_that_becomes_busy_brings_nothing_of_its_past() -> None:
    """In running totals of the busiest topics, which this replaces, one that enters looks like a spike."""
    history = CountHistory("a", epoch=1)
    cursor = None
    booked = 0
    for second in range(50):
        # 200 topics are busier than `slow`, until it overtakes them
        sent(history, **{f"t{number}": 50 for number in range(200)}, slow=10 + 4 * second)
        answer = history.since(cursor, float(second))
        if cursor is not None:
            assert answer.sent.topics["slow"] == 10 + 4 * second
            booked += answer.sent.topics["slow"]
        cursor = answer.cursor
    assert booked == history.totals.sent.topics["slow"] - 10


def test_a_lost_answer_is_asked_for_again_and_readers_do_not_disturb_each_other() -> None:
    history = CountHistory("a", epoch=1)
    one = history.since(None, 0.0).cursor
    other = history.since(None, 0.0).cursor
    sent(history, x=1)
    lost = history.since(one, 1.0)
    sent(history, x=2)
    assert history.since(other, 2.0).sent.topics == {"x": 3}
    sent(history, y=5)
    again = history.since(one, 3.0)
    assert lost.sent.topics == {"x": 1}
    assert again.sent.topics == {"x": 3, "y": 5}
    assert again.span_s == 3.0
    assert history.since(again.cursor, 4.0).sent.total == 0


@pytest.mark.parametrize("earlier", [1, 3])
def test_after_a_restart_all_that_the_new_gateway_counted_is_new(earlier: int) -> None:
    before = CountHistory("a", epoch=earlier)
    sent(before, x=1000)
    cursor = before.since(None, 500.0).cursor
    after = CountHistory("a", epoch=2)
    sent(after, x=3)
    answer = after.since(cursor, 2.0)
    assert (answer.restarted, answer.sent.topics, answer.span_s) == (True, {"x": 3}, 2.0)
    assert not after.since(answer.cursor, 3.0).restarted


def test_what_is_too_long_ago_is_known_as_a_sum() -> None:
    history = CountHistory("a", epoch=1, max_intervals=2)
    slow = history.since(None, 0.0).cursor
    for second in range(1, 6):
        sent(history, **{f"t{second}": second})
        history.since(None, float(second))
    answer = history.since(slow, 5.0)
    assert answer.sent.topics == {"t4": 4, "t5": 5}
    assert answer.sent.other == 1 + 2 + 3


def test_memory_is_bounded_whatever_the_topics() -> None:
    history = CountHistory("a", epoch=1, max_topics=100, max_kept_topics=300)
    for second in range(50):
        for number in range(250):
            history.current.sent.add(f"t{second}.{number}", 1)
        history.since(None, float(second))
        assert sum(len(interval) for interval in history._kept) <= 300
        assert len(history.totals.sent) <= 100
    assert history.totals.sent.total == 50 * 250


def test_a_busy_topic_is_told_apart_however_many_came_before_it() -> None:
    tally = Tally(max_topics=10)
    for number in range(10_000):
        tally.add(f"t{number}", 1)
        tally.add("busy", 1)
    assert tally.topics["busy"] == 10_000
    assert tally.total == 20_000


def test_an_answer_fits_a_message_of_the_management_broker() -> None:
    history = CountHistory("a", epoch=1)
    cursor = history.since(None, 0.0).cursor
    for tally in (history.current.sent, history.current.delivered, history.current.dropped):
        for number in range(9_000):
            tally.add("long." * 60 + '\\"' * 40 + str(number), number + 1)
    answer = history.since(cursor, 1.0)
    assert len(msgspec.json.encode(answer)) < ANSWER_BYTES + 1000 < 1 << 20
    assert answer.sent.total == 9_000 * 9_001 // 2
    assert answer.sent.other > 0
    assert min(answer.sent.topics.values()) > 5_000, "the busiest are named"


@pytest.mark.parametrize(
    "forged",
    [
        CountCursor(epoch=1, sequence=99),
        CountCursor(epoch=1, sequence=-1),
        CountCursor(epoch=1, sequence=0, sent=5),
        CountCursor(epoch=1, sequence=0, uptime_s=1e9),
        CountCursor(epoch=1, sequence=1, sent=11),
    ],
)
def test_a_cursor_that_nobody_gave_out_is_as_good_as_none(forged: CountCursor) -> None:
    history = CountHistory("a", epoch=1)
    sent(history, x=10)
    answer = history.since(forged, 1.0)
    assert (answer.sent.total, answer.span_s) == (0, 0.0)
    assert history.since(answer.cursor, 1.0).sent.total == 0


def test_question_and_answer_survive_the_wire() -> None:
    history = CountHistory("a", epoch=2**62)
    sent(history, x=1)
    answer = history.since(CountCursor(epoch=1), 1.0)
    assert msgspec.json.decode(msgspec.json.encode(answer), type=TopicCounts) == answer
    request = TopicCountsRequest(cursor=answer.cursor)
    assert msgspec.json.decode(msgspec.json.encode(request), type=TopicCountsRequest) == request


SIGNS = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '.*>"\\')


@pytest.mark.parametrize(
    "signs",
    [SIGNS, "0123456789abcdef", "".join(map(chr, range(0x4E00, 0x9FA5)))],
    ids=["any", "hex", "Chinese"],
)
@pytest.mark.parametrize("length", [40, 200])
def test_totals_of_very_many_topics_are_told_whatever_their_names(signs: str, length: int) -> None:
    """Tokens for users and orders follow no rule, and cannot be packed well."""
    draw = Random(f"{length} {signs[:9]}")
    history = CountHistory("a", epoch=1)
    for tally in (history.current.sent, history.current.delivered, history.current.dropped):
        for _ in range(800_000 // (length + 16)):
            tally.add("".join(draw.choices(signs, k=length)), draw.randrange(1, 1 << 20))
    totals = history.so_far(5.0)
    assert len(totals.sent.topics) > 500
    follower = Follower(TopicTotals)
    assert follower.hear(Teller(1).tell(totals, 1.0))
    assert (follower.omitted_bytes, follower.account) == (0, totals)


def test_a_hundred_thousand_topics_are_told_apart_and_an_answer_names_the_busiest() -> None:
    tally = Tally()
    for number in range(100_000):
        tally.add(f"plant.sensor{number:06}", 1 + number % 7)
    assert len(tally) == 100_000
    report = tally.report(tally.total, 200_000)
    assert 3_000 < len(report.topics) < 100_000
    assert set(report.topics.values()) == {7}
    assert report.other == tally.total - sum(report.topics.values())
