"""The roles of two gateways, case by case."""

from __future__ import annotations

import pytest
from tests.kit.pairs import TwoGateways

from mangrove.overlay.pair.messages import Ending, Role
from mangrove.overlay.pair.roles import CARRYING, NEXT, Finding


def settled() -> TwoGateways:
    two = TwoGateways()
    two.run(1.0)
    assert [each.roles.role for each in two.processes] == [Role.ACTIVE, Role.STANDBY]
    return two


def gap_s(two: TwoGateways) -> float:
    """How long until somebody delivers again."""
    since = two.now
    while not any(each.delivering for each in two.processes):
        two.step()
        assert two.now < since + 5
    return two.now - since


def test_when_both_start_at_once_the_first_carries() -> None:
    settled()


def test_one_that_starts_alone_carries_after_it_has_asked() -> None:
    for index in (0, 1):
        two = TwoGateways()
        two.kill(1 - index)
        two.run(3.0)
        assert two.carrying() == [index + 1]


def test_a_process_that_died_is_followed_at_once() -> None:
    two = settled()
    two.kill(0)
    assert gap_s(two) <= 0.02
    two.start(0)
    two.run(1.0)
    assert [each.roles.role for each in two.processes] == [Role.STANDBY, Role.ACTIVE]
    two.kill(1)
    assert gap_s(two) <= 0.02


def test_a_process_that_hangs_is_followed_after_the_silence_and_wakes_displaced() -> None:
    two = settled()
    two.run(5.0)  # beats have become regular
    two.pause(0, 1.0)
    two.step()
    assert 0.09 <= gap_s(two) <= 0.25
    two.run(1.0)
    assert two.both_s == 0
    assert two.carrying() == [2]
    assert two.processes[0].roles.role is Role.STANDBY


@pytest.mark.parametrize("for_s", [0.05, 0.1])
def test_a_process_that_was_held_up_briefly_asks_and_goes_on(for_s: float) -> None:
    two = settled()
    two.run(5.0)
    two.pause(0, for_s)
    two.run(for_s + 0.1)
    assert two.carrying() == [1]
    assert two.processes[0].delivering
    assert two.processes[0].roles.fences == (for_s > 0.07)


def test_one_that_stands_by_and_hangs_disturbs_nobody() -> None:
    two = settled()
    two.pause(1, 1.0)
    for _ in range(125):
        two.step()
        assert two.processes[0].delivering
    two.run(1.0)
    assert [each.roles.role for each in two.processes] == [Role.ACTIVE, Role.STANDBY]


def test_one_that_stops_hands_over() -> None:
    two = settled()
    second = two.processes[1].roles
    second.line_down(two.now, Ending.STOPS)
    assert [each.finding for each in second.take_changes()] == [Finding.OTHER_STOPS]


def test_no_life_has_the_epoch_of_the_others_however_clocks_stand() -> None:
    two = settled()
    first, second = (each.roles for each in two.processes)
    for clock_ns in (0, first.epoch, first.epoch + 1, first.epoch + 2):
        assert second.take_over(clock_ns, two.now) > first.epoch
        assert second.epoch % 2 != first.epoch % 2
        second.epoch = 0


def test_the_table_leads_from_every_role_to_carrying_and_back() -> None:
    reached = {Role.STARTING}
    while more := {after for (role, _), after in NEXT.items() if role in reached} - reached:
        reached |= more
    assert reached == set(Role)
    assert all(role not in CARRYING for (role, finding) in NEXT if finding is Finding.OTHER_DIED)
