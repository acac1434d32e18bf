"""What a subscriber reads, and what it is told of the rest: together all that came."""

from __future__ import annotations

import asyncio
import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.received import Fed, received

from mangrove.client import Gap, Message, SlowSubscriberError
from mangrove.client.message import MessageIds
from mangrove.client.pending import gap as gap_module
from mangrove.client.pending.gap import Gaps
from mangrove.client.pending.reading import reading_of, slow_of
from mangrove.client.usefulness.user_function import UtilityThread
from mangrove.errors import InputError, MangroveError
from mangrove.model.congestion.terms import Slow, TopicTerms
from mangrove.model.shared_names import TIME_HEADER, UTILITY_HEADER


def numbered(count: int, subject: str = "s", first: int = 0, **headers: str) -> list[Message]:
    return [received(subject, b"%d" % number, headers) for number in range(first, first + count)]


async def rest(fed: Fed) -> list[int]:
    """What waits, by iteration."""
    fed.subscription.finish()
    return [int(message.data) async for message in fed.subscription]


async def test_a_notice_comes_before_the_next_message_that_is_read() -> None:
    story: list[object] = []
    fed = Fed(max_pending=4, on_gap=lambda gap: story.append((gap.subject, gap.lost, gap.reason)))
    fed.feed(*numbered(4))
    story.append(int((await fed.subscription.next()).data))
    fed.feed(*numbered(3, first=4))
    story.append(int((await fed.subscription.next()).data))
    fed.feed(*numbered(2, first=7))  # 2 and 3, which were in hand, wait with the others again
    story.append(int((await fed.subscription.next()).data))
    assert story == [0, 1, ("s", 3, "drop-oldest"), 5]
    assert await rest(fed) == [6, 7, 8]
    assert fed.dropped == {"s": 3}
    assert fed.subscription.lost == {"drop-oldest": 3}
    assert fed.subscription.gaps() == []


async def test_without_a_callable_notices_are_taken() -> None:
    fed = Fed("s.*", max_pending=3)
    early, late = (f"{second}000000000" for second in (5, 9))
    fed.feed(
        received("s.a", b"0", {TIME_HEADER: late}),
        received("s.b", b"1"),
        received("s.a", b"2", {TIME_HEADER: early}),
        *numbered(3, "s.c"),
    )
    told = [
        Gap(subject="s.a", lost=2, reason="drop-oldest", first_time=5.0, last_time=9.0),
        Gap(subject="s.b", lost=1, reason="drop-oldest"),
    ]
    assert fed.subscription.gaps() == told
    assert fed.subscription.take_gaps() == told
    assert fed.subscription.take_gaps() == []


async def test_what_on_gap_raises_is_contained_and_it_may_be_async(caplog: pytest.LogCaptureFixture) -> None:
    told: list[int] = []

    async def tell(gap: Gap) -> None:
        await asyncio.sleep(0)
        told.append(gap.lost)
        raise RuntimeError("on purpose")

    fed = Fed(max_pending=1, on_gap=tell)
    fed.feed(*numbered(3))
    assert await rest(fed) == [2]
    assert told == [2]
    assert "on_gap for s failed" in caplog.text


def test_subjects_beyond_a_limit_are_told_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gap_module, "MAX_GAPS", 2)
    gaps = Gaps("s.>", one_subject=False)
    for _ in range(2):
        gaps.note([received(f"s.{number}") for number in range(5)], Slow.DROP_OLDEST)
    assert {gap.subject: gap.lost for gap in gaps.take()} == {"s.0": 2, "s.1": 2, "s.>": 6}
    assert gaps.lost == {"drop-oldest": 10}


async def test_who_is_cut_off_reads_what_waited_and_then_an_error(caplog: pytest.LogCaptureFixture) -> None:
    told: list[Gap] = []
    fed = Fed(slow="disconnect", max_pending=5, on_gap=told.append)
    fed.feed(*numbered(3))
    assert int((await fed.subscription.next()).data) == 0
    fed.feed(*numbered(6, first=3))
    assert fed.cut_off == [fed.subscription]
    fed.feed(*numbered(9))
    assert fed.subscription.messages == 9, "nothing comes any more"
    reader = aiter(fed.subscription)
    assert [int((await anext(reader)).data) for _ in range(5)] == [1, 2, 3, 4, 5]
    with pytest.raises(SlowSubscriberError, match="5 messages waited"):
        await anext(reader)
    assert [(gap.lost, gap.reason) for gap in told] == [(3, "disconnect")]
    with pytest.raises(SlowSubscriberError):
        await fed.subscription.next(0.1)


async def test_a_callback_gets_what_waited_before_it_is_cut_off() -> None:
    got: list[int] = []
    told: list[Gap] = []

    async def take(message: Message) -> None:
        got.append(int(message.data))

    fed = Fed(callback=take, slow="disconnect", max_pending=2, on_gap=told.append)
    fed.feed(*numbered(5))
    await asyncio.sleep(0.01)
    assert got == [0, 1]
    assert [gap.lost for gap in told] == [3]


async def test_what_waits_for_a_callback_when_it_ends_is_counted() -> None:
    gate = asyncio.Event()
    got: list[int] = []

    async def take(message: Message) -> None:
        got.append(int(message.data))
        await gate.wait()

    fed = Fed(callback=take, max_pending=10)
    fed.feed(*numbered(6))
    await asyncio.sleep(0.01)
    fed.feed(*numbered(8, first=6))
    await asyncio.sleep(0.01)
    await fed.subscription.unsubscribe()
    await fed.subscription.unsubscribe()
    assert got == [0]
    assert fed.subscription.lost == {"unsubscribed": 13}
    assert fed.subscription.pending == 0
    assert fed.dropped == {}, "nobody was too slow"


async def test_latest_only_keeps_the_place_of_a_subject() -> None:
    fed = Fed("s.*", slow="latest-only")
    fed.feed(*(received(f"s.{subject}", b"%d" % number) for number, subject in enumerate("abacab")))
    assert await rest(fed) == [4, 5, 3]
    assert {gap.subject: gap.lost for gap in fed.subscription.gaps()} == {"s.a": 2, "s.b": 1}


async def test_second_copies_are_neither_read_nor_lost() -> None:
    ids = MessageIds()
    messages = [received("s", b"%d" % number, ids=ids) for number in range(6)]
    fed = Fed(max_pending=3)
    fed.feed(*messages)
    fed.feed(*messages[:4])  # though some of them were left out: what was lost is lost
    assert await rest(fed) == [3, 4, 5]
    assert fed.subscription.duplicates == 4
    assert fed.subscription.lost == {"drop-oldest": 3}


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.one_of(st.integers(1, 9), st.just("read"), st.just("again"), st.just("raise")), max_size=20),
    st.sampled_from([str(slow) for slow in Slow]),
    st.booleans(),
    st.booleans(),
)
def test_the_account_is_exact(steps: list[int | str], slow: str, calls: bool, unsubscribes: bool) -> None:
    """Whatever the policy: by callback or iteration, with second copies, errors, and an early end."""

    async def scenario() -> None:
        ids = MessageIds()
        got: list[bytes] = []
        told: list[Gap] = []
        failing = False

        async def take(message: Message) -> None:
            got.append(message.data)
            await asyncio.sleep(0)
            if failing:
                raise RuntimeError("on purpose")

        fed = Fed("s.*", take if calls else None, slow=slow, max_pending=5, on_gap=told.append)
        subscription = fed.subscription
        last: list[Message] = []
        came = 0
        for step in steps:
            if isinstance(step, int):
                last = []
                came += step
                for number in range(came - step, came):
                    usefulness = {UTILITY_HEADER: f"{number % 3 / 2}"}
                    last.append(received(f"s.{number % 4}", b"%d" % number, usefulness, ids))
                fed.feed(*last)
            elif step == "again":
                fed.feed(*last)
            elif step == "raise":
                failing = not failing
            elif calls:
                await asyncio.sleep(0)
            elif subscription.pending:
                got.append((await subscription.next()).data)
            waits = subscription.pending
            assert subscription.messages == (
                len(got) + waits + sum(subscription.lost.values()) + subscription.duplicates
            )
        if unsubscribes or not calls:
            subscription.finish()
        if calls:
            for _ in range(20 * len(steps) + 20):
                await asyncio.sleep(0)
        else:
            while subscription.pending:
                got.append((await subscription.next()).data)
        told.extend(subscription.take_gaps())
        assert subscription.pending == 0
        assert len(set(got)) == len(got)
        assert sum(gap.lost for gap in told) == sum(subscription.lost.values())
        assert len(got) + sum(gap.lost for gap in told) == subscription.messages - subscription.duplicates
        if slow != "latest-only":
            assert got == sorted(got, key=int)

    logging.disable(logging.CRITICAL)  # errors on purpose
    try:
        asyncio.run(scenario())
    finally:
        logging.disable(logging.NOTSET)


def test_contracts_set_the_policy() -> None:
    terms = (
        TopicTerms(match="alert.fire", slow=Slow.LATEST_ONLY),
        TopicTerms(match="alert.>", slow=Slow.DISCONNECT),
        TopicTerms(match="*.map", slow=Slow.DROP_LEAST_USEFUL),
    )
    assert slow_of("alert.fire", terms) is Slow.LATEST_ONLY
    assert slow_of("alert.*", terms) is Slow.DISCONNECT, "the first for all of it"
    assert slow_of("*.*", terms) is Slow.LATEST_ONLY, "the first for part of it"
    assert slow_of("city.map", terms) is Slow.DROP_LEAST_USEFUL
    assert slow_of("news", terms) is Slow.DROP_OLDEST


@pytest.mark.parametrize(
    "wrong",
    [
        {"slow": "drop-newest"},
        {"max_pending": 0},
        {"max_pending": 1.5},
        {"max_pending_bytes": -1},
        {"max_pending": True},
        {"keywords": "storm"},
        {"keywords": ["x" * (1 << 20)]},
        {"utility": 0.5},
        {"on_gap": "print"},
    ],
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError):
        reading_of("s", UtilityThread(), **wrong)  # type: ignore[arg-type]


async def test_an_ended_subscription_says_so() -> None:
    fed = Fed()
    fed.subscription.finish()
    with pytest.raises(MangroveError, match="has ended"):
        await fed.subscription.next(0.1)


async def test_a_lag_is_told_while_it_lasts() -> None:
    fed = Fed(max_pending=10)
    subscription = fed.subscription
    assert subscription.lag(1.0) is None
    fed.feed(*numbered(1))
    assert subscription.lag(2.0) is None, "it may have come just now"
    fed.feed(*numbered(12))
    lag = subscription.lag(3.0)
    assert lag is not None
    assert (lag.pending, lag.lost, lag.oldest_s) == (10, 3, 0.0)
    lag = subscription.lag(4.5)
    assert lag is not None
    assert (lag.pending, lag.lost, lag.oldest_s) == (10, 0, 1.5)
    for _ in range(10):
        await subscription.next()
    assert subscription.lag(5.0) is None
