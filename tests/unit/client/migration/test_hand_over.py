"""Hand-overs step by step: time-outs, bounds, and what becomes of equal messages."""

from __future__ import annotations

import pytest

from mangrove.client.migration import hand_over as module
from mangrove.client.migration.hand_over import ENTER_S, OVERLAP_S, SETTLE_S, HandOver, Stage
from mangrove.client.migration.leg import Origin


def begun(*, markers: bool = True) -> HandOver[str]:
    """Messages are texts; those in capitals have an id."""
    return HandOver(lambda m: m if m.isupper() else m.encode(), len, 0.0, markers=markers)


def stage_of(hand_over: HandOver[str]) -> Stage:
    return hand_over.stage


def round_of(hand_over: HandOver[str], now: float, *, old: bool = True, new: bool = True) -> list[str]:
    """One round of markers comes through."""
    number = hand_over.next_number()
    due = []
    for origin in Origin:
        if old:
            due += hand_over.old_marker(origin, number, now)
        if new:
            due += hand_over.new_marker(origin, number, now)
    return due


def test_what_comes_both_ways_is_delivered_once_and_in_the_order_of_the_old_leg() -> None:
    hand_over = begun()
    assert hand_over.old(["A"], 0.0) == ["A"]
    assert hand_over.new(["A"], 0.0) == []
    round_of(hand_over, 0.1)
    assert stage_of(hand_over) is Stage.OVERLAPPING
    assert hand_over.new(["B", "C"], 0.2) == []
    assert hand_over.old(["B"], 0.2) == ["B"]
    assert round_of(hand_over, 0.25) == ["C"]
    assert stage_of(hand_over) is Stage.SETTLING
    assert hand_over.old(["C"], 0.3) == [], "the old leg is left"
    assert hand_over.new(["D"], 0.3) == ["D"]
    round_of(hand_over, 0.4, old=False)
    assert stage_of(hand_over) is Stage.MOVED
    assert hand_over.new(["E"], 0.5) == ["E"]
    assert hand_over.repeated == 1
    assert hand_over.held_ms == pytest.approx(50.0)


def test_equal_messages_are_told_apart_by_the_markers_between_them() -> None:
    hand_over = begun()
    hand_over.old(["tick", "tick"], 0.0)  # before the new leg is complete: through the old one alone
    round_of(hand_over, 0.1)
    hand_over.old(["tick"], 0.2)
    hand_over.new(["tick"], 0.2)
    assert round_of(hand_over, 0.3) == []
    assert hand_over.new(["tick"], 0.4) == ["tick"], "one copy was due, and it has come"


def test_messages_between_the_markers_of_a_round_wait_for_another_round() -> None:
    hand_over = begun()
    round_of(hand_over, 0.0)
    number = hand_over.next_number()
    hand_over.old_marker(Origin.OLD, number, 0.1)
    hand_over.old(["tick"], 0.1)
    for origin in (Origin.HEAD, Origin.NEW):
        hand_over.old_marker(origin, number, 0.1)
    for origin in Origin:
        assert hand_over.new_marker(origin, number, 0.1) == []
    assert stage_of(hand_over) is Stage.OVERLAPPING, "was it before or behind?"
    hand_over.new(["tick"], 0.2)
    round_of(hand_over, 0.3)
    assert stage_of(hand_over) is Stage.SETTLING
    assert hand_over.repeated == 1


@pytest.mark.parametrize(("step", "stage"), [(0, Stage.STAYED), (1, Stage.STAYED), (2, Stage.MOVED)])
def test_every_step_ends_in_time(step: int, stage: Stage) -> None:
    hand_over = begun()
    for _ in range(step):
        round_of(hand_over, 0.0)
    assert not hand_over.done
    late = max(ENTER_S, OVERLAP_S, SETTLE_S)
    assert hand_over.handle_timer(late) == []
    assert hand_over.stage is stage
    assert hand_over.old(["X"], late) == (["X"] if stage is Stage.STAYED else [])
    assert hand_over.new(["Y"], late) == ([] if stage is Stage.STAYED else ["Y"])


def test_too_much_to_hold_means_to_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_HELD", 3)
    for feed in (HandOver.old, HandOver.new):
        hand_over = begun()
        assert feed(hand_over, ["A", "B", "C"], 0.0) == (["A", "B", "C"] if feed is HandOver.old else [])
        feed(hand_over, ["D"], 0.0)
        assert stage_of(hand_over) is Stage.STAYED
        assert "more messages" in hand_over.problem
        assert hand_over.old(["E"], 0.1) == ["E"]


def test_when_the_old_broker_dies_what_is_held_is_delivered_at_once() -> None:
    hand_over = begun()
    hand_over.old(["A"], 0.0)
    hand_over.new(["A", "B"], 0.0)
    assert hand_over.old_lost(0.1) == ["B"]
    assert "old broker" in hand_over.problem
    assert Origin.OLD not in hand_over.origins
    for origin in (Origin.HEAD, Origin.NEW):
        hand_over.new_marker(origin, 9, 0.2)
    assert stage_of(hand_over) is Stage.MOVED


def test_when_the_new_broker_dies_it_stays_unless_it_has_left() -> None:
    hand_over = begun()
    hand_over.new(["A"], 0.0)
    hand_over.new_lost()
    assert stage_of(hand_over) is Stage.STAYED
    assert hand_over.old(["A"], 0.0) == ["A"]
    gone = begun()
    round_of(gone, 0.0)
    round_of(gone, 0.1)
    gone.new_lost()
    assert stage_of(gone) is Stage.SETTLING
    gone.give_up("too late")
    assert stage_of(gone) is Stage.SETTLING


def test_between_domains_the_old_leg_is_waited_for() -> None:
    hand_over = begun(markers=False)
    assert not hand_over.wants_markers
    assert hand_over.old(["A"], 0.0) == ["A"]
    hand_over.new(["A"], 0.1)
    hand_over.in_force(1.0, 0.2)
    hand_over.new(["B", "C", "tick"], 0.3)
    assert hand_over.old(["B"], 0.4) == ["B"]
    assert hand_over.old(["tick"], 0.5) == ["tick"]
    assert hand_over.handle_timer(1.1) == []
    assert hand_over.handle_timer(1.2) == ["C"]
    assert hand_over.new(["D", "B"], 1.3) == ["D", "B"], "a second copy of an id is the subscription's affair"
    hand_over.handle_timer(2.3)
    assert stage_of(hand_over) is Stage.MOVED
