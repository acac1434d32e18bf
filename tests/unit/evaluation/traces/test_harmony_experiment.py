"""Harmony's four phases in simulation: the routes do what the paper tells, and the check of that can fail."""

from __future__ import annotations

from dataclasses import replace
from importlib import resources

import msgspec
import pytest

from mangrove.config import parse_federation
from mangrove.evaluation.traces.harmony import HarmonyResult, run_harmony
from mangrove.evaluation.traces.harmony_phases import LOOSE, PHASES, TIGHT, Routes, two_each
from mangrove.model.federation import Federation
from mangrove.model.topics import TopicRules

BY_DENVER = ("seattle", "denver", "washington")
BY_ANGELES = ("seattle", "los-angeles", "orlando", "washington")


@pytest.fixture(scope="module")
def federation() -> Federation:
    text = (resources.files("mangrove.testbed") / "harmony.yaml").read_text()
    return parse_federation(text, "harmony.yaml").require()


@pytest.fixture(scope="module")
def result(federation: Federation) -> HarmonyResult:
    return run_harmony(federation, [1], phase_s=2.0)


def test_the_routes_do_what_the_paper_tells(result: HarmonyResult) -> None:
    assert result.missed() == []
    assert result.duplicates == 0
    assert [phase.held for phase in result.phases] == [1, 1, 1, 1]
    routes = [phase.routes[TIGHT] for phase in result.phases]
    assert routes[0] == (BY_DENVER, BY_ANGELES)
    assert routes[3] == (BY_ANGELES,)
    assert result.phases[1].routes[LOOSE] == result.phases[0].routes[LOOSE]


def test_delays_are_those_of_the_ways(result: HarmonyResult) -> None:
    """11 + 16 ms by Denver; 10 + 24 + 8 ms around it; up to a millisecond of jitter a link."""
    assert 27 <= result.phases[0].median_ms[TIGHT].mean <= 29
    assert 42 <= result.phases[3].median_ms[TIGHT].mean <= 45
    for phase in result.phases:
        assert phase.in_time[TIGHT] == phase.in_time[LOOSE] == 1.0
        assert phase.longest_gap_ms[TIGHT] < 50


def test_every_message_is_in_the_trace(result: HarmonyResult) -> None:
    for topic in (TIGHT, LOOSE):
        trace = result.first.trace[topic]
        assert len(trace) == int((4 * 2.0 + 0.1) * 200)
        assert all(latency_ms > 0 for _, latency_ms in trace)


def test_seeds_repeat(federation: Federation, result: HarmonyResult) -> None:
    assert run_harmony(federation, [1], phase_s=2.0) == result


def test_a_topic_with_time_to_spare_does_not_move_and_is_told(federation: Federation) -> None:
    patient = tuple(msgspec.structs.replace(c, deadline_ms=150.0) for c in federation.topics.contracts)
    changed = msgspec.structs.replace(federation, topics=TopicRules(patient))
    missed = run_harmony(changed, [1], phase_s=1.5).missed()
    assert len(missed) == 1
    assert "slowed" in missed[0]
    assert "in 1 of 1 seeds not so" in missed[0]


def test_losses_are_told(result: HarmonyResult) -> None:
    broken = replace(result, duplicates=2, phases=(replace(result.phases[0], lost=3), *result.phases[1:]))
    assert broken.missed() == ["all is well: 3 messages lost", "2 messages delivered twice"]


@pytest.mark.parametrize(
    ("phase", "routes"),
    [
        (0, {TIGHT: (BY_DENVER,), LOOSE: (BY_DENVER, BY_ANGELES)}),
        (1, {TIGHT: (BY_DENVER, BY_ANGELES), LOOSE: (BY_DENVER, BY_ANGELES)}),
        (1, {TIGHT: (BY_ANGELES,), LOOSE: (BY_ANGELES,)}),
        (2, {TIGHT: (BY_ANGELES, BY_ANGELES), LOOSE: (BY_DENVER, BY_ANGELES)}),
        (3, {TIGHT: (BY_DENVER,), LOOSE: (BY_ANGELES,)}),
        (3, {TIGHT: (), LOOSE: (BY_ANGELES,)}),
    ],
)
def test_expectations_can_fail(phase: int, routes: Routes) -> None:
    settled: Routes = {TIGHT: (BY_DENVER, BY_ANGELES), LOOSE: (BY_DENVER, BY_ANGELES)}
    assert two_each(settled)
    assert not PHASES[phase].holds(routes, settled)
