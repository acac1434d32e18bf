"""Frames that wait for a way."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.kit.frames import frame
from tests.kit.work import lines_of

from mangrove.overlay.forwarding.parked_frames import ParkedFrames
from mangrove.overlay.protocol.frames import Frame, FrameType


def test_parked_frames_expire_or_come_back_older() -> None:
    parked = ParkedFrames(limit_bytes=100)
    assert parked.park(frame(b"a"), now=0.0, until=1.0) == []
    assert parked.park(frame(b"b"), now=0.0, until=5.0) == []
    assert parked.timer() == 1.0
    assert [late.body for late in parked.expired(2.0)] == [b"a"]
    (back,) = parked.release(3.0)
    assert (back.body, back.age_us) == (b"b", 3_000_000)
    assert [lost.body for lost in parked.park(frame(b"c" * 200), 0.0, 1.0)] == [b"c" * 200]


def test_frames_for_queue_groups_are_given_up_apart() -> None:
    parked = ParkedFrames(limit_bytes=1000)
    parked.park(frame(b"plain"), now=0.0, until=9.0)
    parked.park(frame(b"job", type=FrameType.JOBS), now=0.0, until=5.0)
    assert [each.body for each in parked.release_jobs(1.0)] == [b"job"]
    assert parked.release_jobs(1.0) == []
    assert (parked.timer(), parked.held_bytes) == (9.0, 5)
    assert parked.problems() == []


def test_asking_again_and_again_costs_nothing_for_each_frame_that_waits() -> None:
    """Timers and slices of interest ask many times a second; a long partition parks many frames."""
    parked = ParkedFrames(limit_bytes=1 << 20)
    for number in range(1000):
        parked.park(frame(b"x"), now=0.0, until=10.0 + number)

    def ask() -> None:
        parked.timer()
        parked.release_jobs(1.0)
        parked.expired(1.0)

    assert lines_of(ask) < 30


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("park"), st.integers(1, 40), st.booleans()),
            st.tuples(st.sampled_from(("release", "jobs", "expire")), st.integers(0, 3), st.just(False)),
        ),
        max_size=60,
    )
)
def test_every_frame_comes_out_once_and_in_order(steps: list[tuple[str, int, bool]]) -> None:
    parked = ParkedFrames(limit_bytes=100)
    now, put = 0.0, 0
    out: list[int] = []
    for what, amount, jobs in steps:
        taken: list[Frame] = []
        if what == "park":
            kind = FrameType.JOBS if jobs else FrameType.DATA
            made = frame(b"x" * amount, sequence=put, type=kind)
            taken = parked.park(made, now, now + amount % 7)
            put += 1
        elif what == "release":
            taken = parked.release(now)
        elif what == "jobs":
            taken = parked.release_jobs(now)
        else:
            now += amount
            taken = parked.expired(now)
        numbers = [each.sequence for each in taken]
        assert numbers == sorted(numbers)
        out += numbers
        assert parked.problems() == []
    out += [each.sequence for each in parked.release(now)]
    assert sorted(out) == list(range(put))
