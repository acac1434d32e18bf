"""Who waits beyond a hop's budget, and for how long that goes on."""

from __future__ import annotations

from mangrove.overlay.links.overruns import Overruns, Persistence


def heartbeats(overruns: Overruns, start: float, count: int, overran: int, of: int) -> list[Persistence]:
    changes: list[Persistence] = []
    for number in range(count):
        for frame in range(of):
            overruns.note(3, frame < overran)
        changes += overruns.settle(start + 0.05 * number)
    return changes


def test_one_long_wait_is_counted_and_forgotten() -> None:
    overruns = Overruns()
    assert heartbeats(overruns, 0.0, 1, overran=1, of=1) == []
    assert overruns.counted == {3: 1}
    assert overruns.noticeable() == {3: 0.12}
    assert heartbeats(overruns, 0.05, 100, overran=0, of=1) == []
    assert overruns.noticeable() == {}


def test_what_persists_is_told_once_and_its_end_too() -> None:
    overruns = Overruns()
    assert heartbeats(overruns, 0.0, 100, overran=9, of=10) == [Persistence(3, True)]
    assert heartbeats(overruns, 5.0, 100, overran=0, of=10) == [Persistence(3, False)]


def test_what_is_silent_after_overruns_keeps_its_budget_again() -> None:
    overruns = Overruns()
    heartbeats(overruns, 0.0, 100, overran=1, of=1)
    assert heartbeats(overruns, 5.0, 100, overran=0, of=0) == [Persistence(3, False)]
    assert not overruns.problems()


def test_shares_about_the_mark_do_not_flap() -> None:
    """Between both marks nothing changes, whichever side it came from."""
    overruns = Overruns()
    told: list[Persistence] = []
    for round_number in range(50):
        told += heartbeats(overruns, 5.0 * round_number, 50, overran=6 if round_number % 2 else 3, of=10)
    assert told == [Persistence(3, True)]
