"""No broker is taken for dead without proof, and none that is dead for long is taken for alive."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mangrove.control.failures.detector import (
    AWAY_S,
    CLOSED,
    MISSES,
    PROBE_S,
    REPORT_S,
    REPORTED,
    REPORTERS,
    SILENT,
    STEADY_ANSWERS,
    BrokerDetector,
)
from mangrove.control.failures.states import TRANSITIONS, Finding, Health


def probed(detector: BrokerDetector, answers: str, start: float) -> float:
    """Probes in their rhythm: `+` answered, `-` missed, `x` refused; the time of the last."""
    now = start
    for answer in answers:
        now += PROBE_S
        detector.probed(answer == "+", answer == "x", now)
    return now


def alive() -> tuple[BrokerDetector, float]:
    detector = BrokerDetector("edge1")
    return detector, probed(detector, "++", 0.0)


def test_three_missed_probes_in_a_row_are_proof_and_fewer_are_not() -> None:
    detector, now = alive()
    now = probed(detector, "--", now)
    assert detector.health is Health.SUSPECTED
    now = probed(detector, "+--", now)
    assert detector.health is Health.SUSPECTED
    probed(detector, "-", now)
    assert (detector.health, detector.evidence, detector.silent) == (Health.FAILED, SILENT, True)


def test_a_closed_door_is_proof_at_once() -> None:
    detector, now = alive()
    detector.probed(False, True, now + 0.01)
    assert (detector.health, detector.evidence, detector.silent) == (Health.FAILED, CLOSED, False)
    assert detector.failed_since == now + 0.01


def test_clients_alone_prove_nothing_however_many() -> None:
    detector, now = alive()
    for number in range(1000):
        detector.reported(f"c{number}", now)
    probed(detector, "++", now)
    assert detector.health is Health.ALIVE
    assert len(detector.take_refuted()) <= 64


@pytest.mark.parametrize(("reporters", "health"), [(1, Health.SUSPECTED), (REPORTERS, Health.FAILED)])
def test_two_clients_make_one_missed_probe_enough(reporters: int, health: Health) -> None:
    detector, now = alive()
    for number in range(reporters):
        detector.reported(f"c{number}", now + 0.05)
    probed(detector, "-", now)
    assert detector.health is health
    assert (detector.evidence == REPORTED) is (health is Health.FAILED)


def test_one_client_that_says_it_twice_is_one_client() -> None:
    detector, now = alive()
    detector.reported("c1", now)
    detector.reported("c1", now + 0.1)
    probed(detector, "-", now)
    assert detector.health is Health.SUSPECTED


def test_reports_of_long_ago_do_not_count() -> None:
    detector, now = alive()
    detector.reported("c1", now)
    detector.reported("c2", now)
    now = probed(detector, "-", now + REPORT_S)
    # That miss was looked at late, the next one is not, and nobody's report is fresh.
    probed(detector, "-", now)
    assert detector.health is Health.SUSPECTED
    assert detector.reporters(now) == ()


def test_an_answer_to_an_earlier_question_does_not_refute_a_report() -> None:
    detector, now = alive()
    detector.reported("c1", now + 0.15)
    detector.reported("c2", now + 0.16)
    now = probed(detector, "+", now)
    assert detector.take_refuted() == []
    probed(detector, "-", now)
    assert detector.health is Health.FAILED


def test_an_agent_that_was_away_declares_nobody_dead() -> None:
    detector, now = alive()
    now = probed(detector, "--", now)
    for _ in range(20):
        now += AWAY_S + 0.01
        detector.probed(False, False, now)
    assert (detector.health, detector.uncounted) == (Health.SUSPECTED, 20)
    probed(detector, "+", now)
    assert detector.health is Health.ALIVE


def test_probes_out_of_turn_do_not_shorten_the_silence_that_is_proof() -> None:
    detector, now = alive()
    for _ in range(3):
        now += PROBE_S / 10
        detector.probed(False, False, now)
    assert detector.health is Health.SUSPECTED


def test_who_returns_is_relied_on_after_steady_answers() -> None:
    detector, now = alive()
    died = now = probed(detector, "x", now)
    now = probed(detector, "+" * (STEADY_ANSWERS - 1), now)
    assert (detector.health, detector.failed_since) == (Health.RETURNING, died)
    now = probed(detector, "-" + "+" * (STEADY_ANSWERS - 1), now)
    assert detector.health is Health.RETURNING
    probed(detector, "+", now)
    assert (detector.health, detector.failed_since) == (Health.ALIVE, float("inf"))


def test_who_dies_while_it_returns_had_been_dead_all_along() -> None:
    detector, now = alive()
    died = now = probed(detector, "x", now)
    probed(detector, "++x", now)
    assert (detector.health, detector.failed_since) == (Health.FAILED, died)


def test_the_table_leads_to_failed_by_proof_alone_and_out_of_it_by_an_answer_alone() -> None:
    for (before, finding), after in TRANSITIONS.items():
        if after is Health.FAILED and before is not Health.FAILED:
            assert finding in (Finding.PROVEN, Finding.REFUSED)
        if before is Health.FAILED and after is not Health.FAILED:
            assert finding is Finding.ANSWERED
    always = (Finding.ANSWERED, Finding.MISSED, Finding.REPORTED, Finding.REFUSED)
    assert all((health, finding) in TRANSITIONS for health, finding in product(Health, always))


Happening = st.sampled_from(["+", "-", "x", "a", "b", "late"])


@settings(max_examples=200)
@given(st.lists(Happening, max_size=60))
def test_every_verdict_has_its_evidence(happenings: list[str]) -> None:
    """FAILED means refused, three misses in a row, or a miss that two clients had reported."""
    detector, now = alive()
    misses, seen = 0, dict.fromkeys("ab", -10.0)
    for each in happenings:
        before = detector.health
        if each in "ab":
            now += 0.001
            detector.reported(each, now)
            seen[each] = now
        else:
            late = each == "late"
            now += 2 * AWAY_S if late else PROBE_S
            detector.probed(each == "+", each == "x", now)
            misses = misses + 1 if each == "-" else misses if late else 0
        if detector.health is Health.FAILED and before is not Health.FAILED:
            reported = all(now - at <= REPORT_S for at in seen.values())
            assert each == "x" or (each == "-" and (misses >= MISSES or reported))
        if each == "+":
            assert detector.health is not Health.FAILED
        if misses >= MISSES:
            assert detector.health is Health.FAILED
