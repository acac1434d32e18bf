"""Who follows a stream has the account that was told, or knows that it has not."""

from __future__ import annotations

import os

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from mangrove.model.stream.messages import MAX_UPDATE_BYTES, StatusUpdate, packed, unpacked
from mangrove.model.stream.telling import WHOLE_EVERY, Follower, Teller
from mangrove.model.topic_counts import TopicTally, TopicTotals


def totals(**topics: int) -> TopicTotals:
    return TopicTotals(domain="here", epoch=1, uptime_s=1.0, sent=TopicTally(topics=topics))


def test_a_change_is_small() -> None:
    teller, follower = Teller(1), Follower(TopicTotals)
    many = {f"topic.number.{n}": n for n in range(2000)}
    whole = teller.tell(totals(**many), 1.0)
    change = teller.tell(totals(**(many | {"topic.number.7": 99})), 2.0)
    assert len(change) < 100 < len(whole)
    assert follower.hear(whole)
    assert follower.hear(change)
    assert follower.account == totals(**(many | {"topic.number.7": 99}))
    assert (follower.at, follower.lost) == (2.0, 0)


def test_a_gap_is_noticed_and_healed_by_the_whole() -> None:
    teller, follower = Teller(1), Follower(TopicTotals)
    assert follower.hear(teller.tell(totals(a=1), 1.0))
    teller.tell(totals(a=2), 2.0)
    assert not follower.hear(teller.tell(totals(a=3), 3.0))
    assert follower.account == totals(a=1), "the last that was known stays"
    assert not follower.hear(teller.tell(totals(a=4), 4.0))
    assert follower.hear(teller.tell(totals(a=5), 5.0, whole=True))
    assert follower.account == totals(a=5)
    assert follower.lost == 1


def test_another_life_is_not_taken_for_the_next_number() -> None:
    follower = Follower(TopicTotals)
    first, second = Teller(1), Teller(2)
    assert follower.hear(first.tell(totals(a=1), 1.0))
    second.tell(totals(b=1), 1.0)
    assert not follower.hear(second.tell(totals(b=2), 2.0))


@given(
    st.lists(
        st.tuples(st.dictionaries(st.sampled_from("abc"), st.integers(0, 9)), st.booleans()), max_size=80
    )
)
@settings(max_examples=60)
def test_whatever_is_lost_the_account_is_one_that_was_told(said: list[tuple[dict[str, int], bool]]) -> None:
    teller, follower = Teller(1), Follower(TopicTotals)
    for number, (topics, arrives) in enumerate(said):
        payload = teller.tell(totals(**topics), float(number))
        if arrives and follower.hear(payload):
            assert follower.account == totals(**topics)
    assert len(said) < WHOLE_EVERY or follower.lost <= len(said)


@given(st.binary(max_size=60))
def test_garbage_is_counted(payload: bytes) -> None:
    follower = Follower(TopicTotals)
    follower.hear(Teller(1).tell(totals(a=1), 1.0))
    assert not follower.hear(b"\xc1" + payload)
    assert follower.lost == 1
    assert follower.account == totals(a=1)


def test_an_account_of_another_shape_is_refused() -> None:
    follower = Follower(TopicTotals)
    assert not follower.hear(packed(StatusUpdate(1, 1, 0.0, True, {"domain": 7})))
    assert follower.account is None


def test_what_no_broker_would_take_is_left_out_and_said() -> None:
    noise = os.urandom(2 * MAX_UPDATE_BYTES).hex()
    payload = packed(StatusUpdate(1, 1, 0.0, True, {"domain": noise}))
    assert len(payload) < 100
    follower = Follower(TopicTotals)
    assert follower.hear(payload), "to ask again would bring the same"
    assert follower.omitted_bytes > MAX_UPDATE_BYTES


def test_a_change_that_is_larger_than_the_account_is_told_as_the_account() -> None:
    """As when others of very many topics are the busiest: what came and what went is twice as much."""
    teller, follower = Teller(1), Follower(TopicTotals)
    for turn in range(4):
        told = totals(**{os.urandom(50).hex(): turn for _ in range(12_000)})
        assert follower.hear(teller.tell(told, float(turn)))
        assert (follower.omitted_bytes, follower.lost, follower.account) == (0, 0, told)


def test_a_bomb_is_not_unpacked() -> None:
    import zlib

    bomb = zlib.compress(msgspec.msgpack.encode([1, 1, 0.0, True, "x" * (40 << 20)]))
    follower = Follower(TopicTotals)
    assert not follower.hear(bomb)


def test_large_accounts_are_packed() -> None:
    update = StatusUpdate(1, 1, 0.0, True, {"a" * 20: ["same"] * 9000})
    assert len(packed(update)) < 2000
    assert unpacked(packed(update)) == update
