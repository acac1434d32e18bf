"""Order is restored, and a gap is waited for only so long."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.kit.frames import Seconds, frame

from mangrove.overlay.delivery.resequencer import Resequencer
from mangrove.overlay.protocol.frames import Frame


def flow_frame(number: int) -> Frame:
    return frame(b"%d" % number, flow_id=1, sequence=number, epoch=1)


@given(st.permutations(range(1, 9)))
def test_order_is_restored(arrival: list[int]) -> None:
    sequencer = Resequencer(patience=Seconds(10.0))
    sequencer.arrived(flow_frame(0), 0.0)
    delivered = [int(f.body) for number in arrival for f in sequencer.arrived(flow_frame(number), 0.0)]
    assert delivered == list(range(1, 9))


def test_a_gap_is_given_up_after_the_hold() -> None:
    sequencer = Resequencer(patience=Seconds(0.25))
    sequencer.arrived(flow_frame(1), 0.0)
    assert sequencer.arrived(flow_frame(3), 1.0) == []
    assert sequencer.arrived(flow_frame(4), 1.0) == []
    assert sequencer.expired(1.2) == []
    assert [f.body for f in sequencer.expired(1.3)] == [b"3", b"4"]
    assert [f.body for f in sequencer.arrived(flow_frame(2), 1.4)] == [b"2"], "late is better than lost"
    assert sequencer.timer() is None
