"""The most urgent first; what is of no use is not sent."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.kit.frames import frame

from mangrove.overlay.links.laxity_queue import LaxityQueue


def test_the_most_urgent_leaves_first_and_the_least_urgent_is_displaced() -> None:
    queue = LaxityQueue(limit_bytes=6)
    assert queue.push(frame(b"later"), due=9.0, now=0.0) == []
    assert queue.push(frame(b"!"), due=1.0, now=0.0) == []
    assert [lost.body for lost in queue.push(frame(b"soon"), due=2.0, now=0.0)] == [b"later"]
    first, second = queue.pop(0.5), queue.pop(0.5)
    assert first is not None
    assert second is not None
    assert (first.frame.body, first.frame.age_us) == (b"!", 500_000)
    assert second.frame.body == b"soon"
    assert queue.pop(0.5) is None


def bodies(queue: LaxityQueue, now: float) -> list[bytes]:
    popped = []
    while (taken := queue.pop(now)) is not None:
        popped.append(taken.frame.body)
    return popped


def test_what_is_late_but_still_wanted_stays_urgent() -> None:
    queue = LaxityQueue(limit_bytes=100)
    queue.push(frame(b"bulk"), due=None, now=0.0)
    queue.push(frame(b"in time"), due=3.0, now=0.0)
    queue.push(frame(b"late"), due=1.0, now=0.0)
    assert bodies(queue, 2.0) == [b"late", b"in time", b"bulk"]


def test_what_is_of_no_use_any_more_is_not_sent() -> None:
    queue = LaxityQueue(limit_bytes=100)
    queue.push(frame(b"stale"), due=1.0, now=0.0, until=2.0)
    queue.push(frame(b"fresh"), due=2.9, now=0.0, until=4.0)
    assert bodies(queue, 3.0) == [b"fresh"]
    assert [lost.body for lost in queue.take_expired()] == [b"stale"]
    assert (queue.take_expired(), queue.held_bytes) == ([], 0)


@given(st.lists(st.integers(0, 5), max_size=30))
def test_equally_urgent_frames_keep_their_order(dues: list[int]) -> None:
    queue = LaxityQueue(limit_bytes=1 << 20)
    for number, due in enumerate(dues):
        queue.push(frame(b"%d" % number), due=float(due), now=0.0)
    assert [int(body) for body in bodies(queue, 0.0)] == sorted(
        range(len(dues)), key=lambda number: (dues[number], number)
    )
    assert queue.held_bytes == 0


@given(st.lists(st.integers(0, 5), max_size=30))
def test_frames_of_one_flow_leave_in_order_whatever_they_seem_to_need(dues: list[int]) -> None:
    queue = LaxityQueue(limit_bytes=1 << 20)
    for number, due in enumerate(dues, 1):
        queue.push(frame(b"%d" % number, flow_id=1, sequence=number), due=float(due), now=0.0)
    assert [int(body) for body in bodies(queue, 0.0)] == list(range(1, len(dues) + 1))


def test_a_frame_that_comes_back_to_the_queue_may_leave_before_later_ones() -> None:
    """It was sent before, by a link that failed."""
    queue = LaxityQueue(limit_bytes=100)
    queue.push(frame(b"2", flow_id=1, sequence=2), due=3.0, now=0.0)
    queue.push(frame(b"1", flow_id=1, sequence=1), due=1.0, now=0.0)
    queue.push(frame(b"other", flow_id=2, sequence=1), due=2.0, now=0.0)
    assert bodies(queue, 0.0) == [b"1", b"other", b"2"]
