"""What is said again is never more than subscribers know."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mangrove.client.offline import flight
from mangrove.client.offline.flight import MAX_MESSAGES, Flight
from mangrove.client.offline.kept import Kept


def kept(number: int) -> Kept:
    return Kept(number, 0, "x", b"", b"", "", 0)


def test_what_was_confirmed_leaves_when_there_is_too_much() -> None:
    sent = Flight()
    for number in range(MAX_MESSAGES + 500):
        sent.add(kept(number))
        sent.confirm(sent.end, sent.takes, 0.0)
    assert [each.number for each in sent.settle(0.1)] == list(range(500))
    assert sent.shortened == 500
    taken = sent.take_back(lambda _: True)
    assert len(taken) == MAX_MESSAGES
    assert all(each.again for each in taken)


@given(st.lists(st.tuples(st.integers(0, 3000), st.booleans()), max_size=12))
def test_after_a_look_it_is_bounded(steps: list[tuple[int, bool]]) -> None:
    """Publishers wait while it is full; whether anything is confirmed is up to the broker."""
    sent, number = Flight(), 0
    for now, (count, confirmed) in enumerate(steps):
        for _ in range(count):
            if not sent.full:
                sent.add(kept(number))
                number += 1
        if confirmed:
            sent.confirm(sent.end, sent.takes, now * flight.SETTLE_S / 4)
        sent.settle(now * flight.SETTLE_S / 4)
        assert len(sent) <= MAX_MESSAGES
