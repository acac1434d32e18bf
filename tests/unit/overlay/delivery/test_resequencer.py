"""Order is restored, and a gap is waited for only so long."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.kit.frames import Seconds, frame

from mangrove.overlay.delivery import resequencer
from mangrove.overlay.delivery.resequencer import Resequencer
from mangrove.overlay.protocol.frames import Frame, Name, Predecessor


class Growing:
    """Patience that grows, and counts how often it is asked."""

    def __init__(self) -> None:
        self.seconds = 0.25
        self.asked = 0

    def hold_s(self, frame: Frame) -> float:
        self.asked += 1
        return self.seconds


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


def test_the_flow_that_was_heard_of_last_is_forgotten_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resequencer, "MAX_FLOWS", 4)
    sequencer = Resequencer(patience=Seconds(10.0))
    for number in range(20):
        assert bodies(sequencer.arrived(flow_frame(number), number / 10)) == [number]
        sequencer.arrived(frame(b"0", flow_id=100 + number, sequence=0, epoch=1), number / 10)
    assert bodies(sequencer.arrived(flow_frame(21), 2.1)) == []
    assert bodies(sequencer.arrived(flow_frame(20), 2.2)) == [20, 21]
    assert not sequencer.problems()


def test_an_origin_that_names_ever_other_flows_costs_others_no_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resequencer, "MAX_FLOWS", 8)
    sequencer = Resequencer(patience=Seconds(10.0))
    sequencer.arrived(flow_frame(1), 0.0)
    assert sequencer.arrived(flow_frame(3), 0.1) == []
    for flow_id in range(1, 100):
        named = tuple(Predecessor(1000 * flow_id + number, 7, 1) for number in range(10))
        for origin in (1, 2):
            hostile = frame(b"0", origin=origin, flow_id=flow_id, sequence=1, predecessors=named)
            assert 3 not in bodies(sequencer.arrived(hostile, 0.2))
    assert bodies(sequencer.arrived(flow_frame(2), 0.3)) == [2, 3]
    assert not sequencer.problems()


def test_what_an_earlier_life_left_waiting_goes_when_a_later_one_is_heard_of() -> None:
    sequencer = Resequencer(patience=Seconds(10.0))
    sequencer.arrived(flow_frame(1), 0.0)
    assert bodies(sequencer.arrived(flow_frame(3), 0.1)) == []
    assert bodies(sequencer.arrived(frame(b"7", flow_id=1, sequence=1, epoch=2), 0.2)) == [3, 7]
    assert bodies(sequencer.arrived(frame(b"8", flow_id=2, sequence=1, epoch=2), 0.3)) == [8]
    assert not sequencer.problems()


def bodies(frames: list[Frame]) -> list[int]:
    return [int(each.body) for each in frames]


def running(hold_s: float = 0.25, way: int = 0) -> Resequencer:
    """A flow whose frames have come over one way, ten a second, for two seconds; the last is number 20."""
    sequencer = Resequencer(Seconds(hold_s))
    for number in range(1, 21):
        assert bodies(sequencer.arrived(over(way, number), number / 10)) == [number]
    return sequencer


def over(way: int, number: int) -> Frame:
    return replace(flow_frame(number), way=way)


def test_what_was_dropped_on_the_only_way_is_not_waited_for() -> None:
    sequencer = running()
    assert bodies(sequencer.arrived(over(0, 23), 2.1)) == [23]
    assert (sequencer.gaps, sequencer.timer()) == (1, None)


def test_what_may_still_be_on_the_way_before_is_waited_for() -> None:
    """Frames come over another way than before: those that are missing may be on the first one."""
    sequencer = running()
    assert sequencer.arrived(over(7, 23), 2.1) == []
    assert bodies(sequencer.arrived(over(0, 21), 2.11)) == [21]
    assert bodies(sequencer.arrived(over(0, 22), 2.12)) == [22, 23]
    assert bodies(sequencer.arrived(over(7, 24), 2.2)) == [24]
    assert sequencer.arrived(over(0, 27), 2.3) == [], "back on the way that was left a moment ago"
    assert bodies(sequencer.expired(2.55)) == [27]


def test_what_is_missing_after_a_pause_is_waited_for() -> None:
    """The link failed and is back already; what was on it takes a long detour."""
    sequencer = running()
    assert sequencer.arrived(over(0, 23), 2.2) == []
    assert bodies(sequencer.arrived(over(7, 21), 2.3)) == [21]
    assert bodies(sequencer.arrived(over(7, 22), 2.3)) == [22, 23]


def test_of_two_ways_both_must_have_passed_a_gap() -> None:
    sequencer = running()
    for number in range(1, 21):
        sequencer.repeated(over(7, number), number / 10 + 0.02)
    assert sequencer.arrived(over(0, 22), 2.1) == []
    assert sequencer.repeated(over(7, 20), 2.11) == []
    assert bodies(sequencer.repeated(over(7, 22), 2.12)) == [22], "21 was dropped on both"


def test_a_frame_waits_for_its_predecessors_in_other_flows() -> None:
    sequencer = Resequencer(Seconds(0.25), own_bit=2)
    sequencer.arrived(flow_frame(1), 0.0)
    moved = frame(b"3", flow_id=2, sequence=1, epoch=1, predecessors=(Predecessor(1, 2, 2),))
    elsewhere = frame(b"0", flow_id=3, sequence=1, epoch=1, predecessors=(Predecessor(1, 2, 4),))
    assert sequencer.arrived(moved, 0.1) == []
    assert bodies(sequencer.arrived(elsewhere, 0.1)) == [0], "a predecessor that only others get"
    assert bodies(sequencer.arrived(flow_frame(2), 0.2)) == [2, 3]
    assert sequencer.timer() is None


def test_predecessors_that_are_held_themselves_go_first_when_both_are_given_up() -> None:
    sequencer = Resequencer(Seconds(0.25), own_bit=2)
    sequencer.arrived(flow_frame(1), 0.0)
    moved = frame(b"9", flow_id=2, sequence=1, epoch=1, predecessors=(Predecessor(1, 4, 2),))
    assert sequencer.arrived(moved, 0.1) == []
    assert sequencer.arrived(flow_frame(3), 0.2) == []
    assert bodies(sequencer.expired(0.36)) == [3, 9], "2 and 4 never came"
    assert bodies(sequencer.arrived(flow_frame(4), 0.4)) == [4]
    assert sequencer.out_of_turn == 1


def test_flows_that_wait_for_each_other_come_to_an_end() -> None:
    sequencer = Resequencer(Seconds(0.25), own_bit=2)
    for flow_id, other in ((1, 2), (2, 1)):
        nonsense = (Predecessor(other, 5, 2),)
        assert sequencer.arrived(frame(b"1", flow_id=flow_id, sequence=1, predecessors=nonsense), 0.0) == []
    assert len(sequencer.expired(0.3)) == 2
    assert not sequencer.problems()


def test_flows_that_say_to_come_after_ever_more_of_each_other_come_to_an_end() -> None:
    """When the first frame is given up, what it names lets out the second one."""
    sequencer = Resequencer(Seconds(0.25), own_bit=2)
    for flow_id, sequence, after in ((1, 3, 3), (1, 5, 3), (2, 3, 40)):
        named = (Predecessor(3 - flow_id, after, 2),)
        assert sequencer.arrived(frame(flow_id=flow_id, sequence=sequence, predecessors=named), 0.0) == []
    assert len(sequencer.expired(0.3)) == 3
    assert not sequencer.problems()


def test_a_flow_is_joined_in_the_middle_and_a_young_one_at_its_beginning() -> None:
    sequencer = Resequencer(Seconds(0.25), own_bit=2)
    assert bodies(sequencer.arrived(flow_frame(1000), 0.0)) == [1000]
    young = [frame(b"%d" % number, flow_id=2, sequence=number, epoch=1) for number in (1, 2)]
    assert sequencer.arrived(young[1], 0.0) == []
    assert bodies(sequencer.arrived(young[0], 0.1)) == [1, 2]


def test_what_was_sent_while_no_way_led_here_is_waited_for_however_much_it_is() -> None:
    """Of the flow in between nothing has been heard here; then all of it comes, by a longer way."""
    sequencer = Resequencer(Seconds(0.25), own_bit=2)
    sequencer.remember(Name(0, 1, 1, 14))
    moved = replace(flow_frame(15), predecessors=(Predecessor(4, 24, 2),))
    assert sequencer.arrived(moved, 0.0) == []
    parked = [frame(b"%d" % number, flow_id=4, sequence=number, epoch=1) for number in range(1, 25)]
    assert bodies(sequencer.arrived(parked[1], 0.1)) == [], "the first may come by a third way"
    assert bodies(sequencer.arrived(parked[0], 0.1)) == [1, 2]
    delivered = [bodies(sequencer.arrived(each, 0.1)) for each in parked[2:]]
    assert delivered == [*([number] for number in range(3, 24)), [24, 15]]
    assert (sequencer.gaps, sequencer.out_of_turn, sequencer.problems()) == (0, 0, [])


def test_what_was_sent_before_this_gateway_was_there_is_waited_for_once_and_not_for_long() -> None:
    sequencer = Resequencer(Seconds(0.25), own_bit=2)
    named = (Predecessor(4, 5000, 2),)
    assert sequencer.arrived(frame(b"5", flow_id=3, sequence=1, epoch=1, predecessors=named), 0.0) == []
    assert bodies(sequencer.expired(0.26)) == [5]
    again = frame(b"6", flow_id=3, sequence=2, epoch=1, predecessors=named)
    assert bodies(sequencer.arrived(again, 0.3)) == [6]
    assert bodies(sequencer.arrived(frame(b"7", flow_id=4, sequence=5001, epoch=1), 0.3)) == [7]
    assert not sequencer.problems()


def test_of_a_flow_that_began_lately_the_first_frames_are_still_to_come() -> None:
    """All that was sent before is stuck somewhere else, and what comes first has a high number."""
    sequencer = Resequencer(Seconds(0.25), own_bit=2)
    marked = [replace(flow_frame(number), predecessors=(Predecessor(1, 0, 0),)) for number in (17, 18)]
    assert [sequencer.arrived(each, 0.0) for each in marked] == [[], []]
    early = [bodies(sequencer.arrived(flow_frame(number), 0.1)) for number in range(1, 17)]
    assert early == [*([number] for number in range(1, 16)), [16, 17, 18]]
    assert not sequencer.problems()


def test_frames_in_their_turn_that_wait_for_nothing_of_this_domain_ask_for_no_patience() -> None:
    patience = Growing()
    sequencer = Resequencer(patience, own_bit=2)
    named = (Predecessor(1, 0, 0), Predecessor(3, 7, 4))
    assert bodies(sequencer.arrived(flow_frame(1), 0.0)) == [1]
    asked = patience.asked
    for number in range(2, 40):
        assert bodies(sequencer.arrived(replace(flow_frame(number), predecessors=named), 0.0)) == [number]
    assert patience.asked == asked


def test_after_a_restart_order_goes_on_where_the_journal_ends() -> None:
    sequencer = Resequencer(Seconds(0.25))
    for number in (98, 99):
        sequencer.remember(Name(0, 1, 1, number))
    assert sequencer.arrived(flow_frame(101), 0.0) == []
    assert bodies(sequencer.arrived(flow_frame(100), 0.1)) == [100, 101]


def test_an_origin_that_started_again_does_not_overtake_itself() -> None:
    sequencer = Resequencer(Seconds(0.25))
    sequencer.arrived(flow_frame(1), 0.0)
    assert sequencer.arrived(flow_frame(3), 0.1) == []
    assert bodies(sequencer.arrived(replace(flow_frame(1), epoch=2), 0.2)) == [3, 1]


class ByAge:
    """Older frames may wait longer: they are late already."""

    def hold_s(self, frame: Frame) -> float:
        return 0.25 if frame.age_us else 0.05


def test_whichever_is_due_first_takes_along_what_is_before_it() -> None:
    sequencer = Resequencer(ByAge())
    sequencer.arrived(flow_frame(1), 0.0)
    assert sequencer.arrived(replace(flow_frame(3), age_us=1), 0.1) == []
    assert sequencer.arrived(flow_frame(5), 0.12) == []
    assert sequencer.arrived(replace(flow_frame(7), age_us=1), 0.13) == []
    assert sequencer.timer() == pytest.approx(0.17)
    assert bodies(sequencer.expired(0.175)) == [3, 5]
    assert sequencer.timer() == pytest.approx(0.38)
    assert bodies(sequencer.expired(0.4)) == [7]


def test_a_frame_that_was_held_is_older() -> None:
    sequencer = Resequencer(Seconds(1))
    sequencer.arrived(flow_frame(1), 0.0)
    sequencer.arrived(flow_frame(3), 0.25)
    assert [each.age_us for each in sequencer.arrived(flow_frame(2), 0.5)] == [0, 250_000]
    sequencer.arrived(flow_frame(5), 0.5)
    restarted = sequencer.arrived(replace(flow_frame(1), epoch=2), 0.75)
    assert [each.age_us for each in restarted] == [250_000, 0]


def test_what_is_held_is_bounded_and_forgotten_flows_lose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resequencer, "MAX_HELD_BYTES", 4)
    monkeypatch.setattr(resequencer, "MAX_FLOWS", 2)
    sequencer = Resequencer(Seconds(10))
    sequencer.arrived(flow_frame(1), 0.0)
    delivered = [bodies(sequencer.arrived(flow_frame(number), 0.0)) for number in range(3, 8)]
    assert delivered == [[], [], [], [], [3, 4, 5, 6, 7]]
    assert sequencer.arrived(flow_frame(9), 0.0) == []
    sequencer.arrived(frame(b"0", flow_id=2, sequence=1), 0.0)
    assert bodies(sequencer.arrived(frame(b"0", flow_id=3, sequence=1), 0.0)) == [9, 0]
    assert not sequencer.problems()


def test_a_predecessor_that_was_never_sent_does_not_make_the_flow_that_names_it_give_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The oldest of as many flows as there may be names frame 0 of a flow that nobody knows."""
    monkeypatch.setattr(resequencer, "MAX_FLOWS", 8)
    sequencer = Resequencer(Seconds(10.0))
    for flow_id in range(1, 9):
        assert len(sequencer.arrived(frame(flow_id=flow_id, sequence=1), 0.0)) == 1
    named = replace(frame(flow_id=1, sequence=2), predecessors=(Predecessor(99, 0, 1),))
    assert sequencer.arrived(named, 0.0) == [named]
    assert sequencer.problems() == []


def test_when_more_is_known_a_thousand_held_frames_are_asked_about_once_and_not_one_by_one() -> None:
    patience = Growing()
    sequencer = Resequencer(patience)
    sequencer.arrived(flow_frame(1), 0.0)
    for number in range(3, 1003):
        assert sequencer.arrived(flow_frame(number), number / 10_000) == []
    patience.seconds = 0.9
    assert sequencer.expired(0.2504) == []
    assert sequencer.timer() == pytest.approx(0.9003)
    assert patience.asked < 2100
    assert len(bodies(sequencer.expired(0.901))) == 1000
