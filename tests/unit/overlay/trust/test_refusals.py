"""What was refused is counted, told once, and again with a number; who brings too much is not listened to."""

from __future__ import annotations

from mangrove.model.events.event_log import EventLog
from mangrove.overlay.trust.refusals import BURST, NOBODY, PER_S, TOLD_AGAIN_S, Refusal, Refusals


def made() -> tuple[Refusals, EventLog]:
    log = EventLog("a")
    return Refusals(["a", "b", "c"], log), log


def test_the_story_tells_it_once_and_then_how_often() -> None:
    refusals, log = made()
    for number in range(100):
        refusals.note("b", "c", "interest", Refusal.FORGED, 0.01 * number, "the signature does not fit")
    refusals.note("b", "c", "interest", Refusal.FORGED, TOLD_AGAIN_S + 1)
    first, second = [event.happening for event in log.take()]
    assert first.sentence() == (
        "refused interest that b brought in the name of c: its origin has not signed it "
        "(the signature does not fit)"
    )
    assert "100 times" in second.sentence()
    assert sum(refusals.counts.values()) == 101


def test_what_does_not_come_again_is_told_all_the_same() -> None:
    refusals, log = made()
    for number in range(100):
        refusals.note("b", "c", "interest", Refusal.FORGED, 0.01 * number)
    refusals.tell(1.0)
    assert len(log.take()) == 1, "not too often"
    refusals.tell(TOLD_AGAIN_S + 1)
    (rest,) = [event.happening for event in log.take()]
    assert "99 times" in rest.sentence()
    refusals.tell(3 * TOLD_AGAIN_S)
    assert not log.take()
    refusals.note("b", "c", "interest", Refusal.FORGED, 3 * TOLD_AGAIN_S)
    refusals.note("b", "c", "interest", Refusal.FORGED, 3 * TOLD_AGAIN_S)
    assert len(log.take()) == 1
    refusals.tell(3 * TOLD_AGAIN_S, last=True)
    assert len(log.take()) == 1


def test_invented_names_are_all_one() -> None:
    refusals, log = made()
    for number in range(1_000):
        refusals.note("b", f"invented-{number}", "interest", Refusal.IMPOSSIBLE, 1.0)
    assert len(log.take()) == 1
    assert list(refusals.counts.values()) == [1_000]
    assert NOBODY in next(iter(refusals.counts))


def test_who_brings_too_much_that_is_wrong_is_not_listened_to_for_a_while() -> None:
    refusals, _ = made()
    assert refusals.trusted("b", 0.0)
    for _ in range(BURST):
        refusals.charge("b", 0.0)
    assert not refusals.trusted("b", 0.0)
    assert refusals.trusted("c", 0.0)
    assert refusals.trusted("b", 1.5 / PER_S)
