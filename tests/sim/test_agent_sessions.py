"""Offload sessions keep all promises under bursts and faults; and the checks would notice if they did not."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

import pytest
from msgspec.structs import replace

from mangrove.control.clients.registrar import Registrar
from mangrove.control.congestion.controller import CongestionControl
from mangrove.control.congestion.domain.limit_orders import LimitOrders
from mangrove.control.congestion.domain.publishers import Publishers
from mangrove.control.offloading.problem import Choice, Problem
from mangrove.control.offloading.registry import METHODS
from mangrove.control.sessions.closing import Closing
from mangrove.control.sessions.coordinator import Coordinator
from mangrove.control.sessions.moved_topics import MovedTopics
from mangrove.control.sessions.session import Session
from mangrove.model.agents.load import UNLIMITED
from mangrove.simulation.agents.batch import run_schedules
from mangrove.simulation.agents.run import run_schedule
from mangrove.simulation.agents.schedule import make_schedule

CHUNK = 25


@pytest.mark.parametrize("first", range(1, 101, CHUNK))
def test_promises_hold(first: int) -> None:
    totals = run_schedules(range(first, first + CHUNK))
    assert not totals.broken, "\n".join(map(str, totals.broken))
    assert totals.sessions > totals.schedules, "hardly any schedule has a session"
    assert totals.moved > totals.schedules, "hardly anybody moves"


@pytest.mark.parametrize("seed", [3461, 4132, 5263, 8299])
def test_promises_hold_where_they_once_did_not(seed: int) -> None:
    """An order said twice and refused once; a broker that does not answer after it was given load."""
    assert run_schedule(seed).problems == ()


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_promises_hold_over_ten_thousand_schedules() -> None:
    totals = run_schedules(range(1, 10_001), workers=os.cpu_count() or 1)
    assert not totals.broken, "\n".join(map(str, totals.broken))
    assert totals.resumed > 100
    assert totals.between_domains > 1000


def test_a_seed_repeats_everything() -> None:
    assert make_schedule(7) == make_schedule(7)
    assert run_schedule(7) == run_schedule(7)
    assert run_schedule(7) != run_schedule(8)


def problems(seeds: Iterable[int]) -> list[str]:
    return [problem for result in run_schedules(seeds).broken for problem in result.problems]


def test_a_failing_seed_comes_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions without time-outs never settle."""
    monkeypatch.setattr("mangrove.control.sessions.session.timeout_s", lambda *_: 1e6)
    broken = run_schedules(range(1, 5)).broken
    assert any("is settling after" in problem for each in broken for problem in each.problems)
    assert f"mangrove evaluate sessions --seeds 1 --seed {broken[0].seed}" in str(broken[0])


def test_brokers_that_stay_busy_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def forget(self: Coordinator, session: Session, *args: object) -> object:
        session.acceptors = ()
        return end(self, session, *args)  # type: ignore[arg-type]

    end = Coordinator._end
    monkeypatch.setattr(Coordinator, "_end", forget)
    assert any("are busy" in problem for problem in problems(range(1, 10)))


def test_acceptors_that_are_given_too_much_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def greedy(choose: Callable[[Problem], Choice]) -> Callable[[Problem], Choice]:
        def chosen(problem: Problem) -> Choice:
            roomy = tuple(replace(each, room=UNLIMITED) for each in problem.acceptors)
            return choose(replace(problem, acceptors=roomy, need=dict.fromkeys(problem.need, 1e9)))

        return chosen

    for name, method in METHODS.items():
        monkeypatch.setitem(METHODS, name, replace(method, choose=greedy(method.choose)))
    monkeypatch.setattr("mangrove.control.sessions.selection._checked", lambda choice, _: choice)
    monkeypatch.setattr(LimitOrders, "set", lambda *_: [])  # else limits relieve them
    assert any(" ends at " in problem for problem in problems(range(2, 6)))


def test_topics_that_go_back_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MovedTopics, "barred", lambda *_: frozenset())
    assert any("goes back" in problem for problem in problems([5, 13, 20, 24]))


def test_urgent_topics_that_go_first_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def upside_down(problem: Problem) -> Choice:
        turned = tuple(replace(each, deadline_s=1.0 / each.deadline_s) for each in problem.bundles)
        return drd(replace(problem, bundles=turned))

    drd = METHODS["drd"].choose
    monkeypatch.setitem(METHODS, "drd", replace(METHODS["drd"], choose=upside_down))
    assert any("the less urgent" in problem for problem in problems([22, 37, 48, 53]))


def test_a_directory_that_does_not_follow_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Registrar, "relocate", lambda *_: None)
    assert any("clients are at" in problem for problem in problems(range(1, 8)))


def test_records_that_are_not_removed_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Closing, "write", lambda *_: [])
    assert any("are stored although" in problem for problem in problems(range(1, 8)))


CUT = [10, 68, 101]
"""Seeds whose brokers lose capacity while nothing else goes wrong."""


def test_brokers_that_lose_capacity_are_relieved_and_limits_go_with_the_damage() -> None:
    totals = run_schedules(CUT)
    assert not totals.broken, "\n".join(map(str, totals.broken))
    assert totals.cuts
    assert totals.limited
    assert totals.relieved, "no schedule is quiet enough for the promise"


def test_publishers_that_are_told_nothing_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LimitOrders, "set", lambda *_: [])
    assert any("although publishers can be limited" in problem for problem in problems(CUT))


def test_limits_that_stay_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CongestionControl, "_lift", lambda *_: {})
    assert any("although there is room" in problem for problem in problems(CUT))


def test_limits_on_protected_topics_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Publishers, "is_protected", lambda *_: False)
    assert any("which is protected" in problem for problem in problems(CUT))
