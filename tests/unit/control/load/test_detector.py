"""A broker's load from what it counts; what cannot be right changes nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.control.load.detector import UNREACHABLE_PERIODS, LoadDetector
from mangrove.control.load.smoothing import smoothed, weights
from mangrove.model.agents.load import (
    UNLIMITED,
    Amounts,
    BrokerLoad,
    BrokerSample,
    LoadState,
    Metric,
    Trigger,
)
from mangrove.model.balancing import Balancing

CAPACITY = Amounts(1_000_000.0, 2_000_000.0, 5000.0)
LOW, HIGH, OVERLOAD, BUSY = LoadState.LOW, LoadState.HIGH, LoadState.OVERLOAD, LoadState.BUSY


@dataclass
class Counted:
    """A broker that counts what it is given, sampled once in a period."""

    detector: LoadDetector
    now: float = 100.0
    counts: dict[str, int] = field(
        default_factory=lambda: {"messages_in": 7, "messages_out": 8, "bytes_in": 9, "bytes_out": 10}
    )
    started: str = "one"

    def sample(self, **other: Any) -> BrokerSample:
        values: dict[str, Any] = {"broker": "edge1", "started": self.started, **self.counts, **other}
        return BrokerSample(**values)

    def second(self, messages: int = 0, size: int = 0, out: int = 0, **other: Any) -> BrokerLoad:
        """A second in which so many messages and bytes came in and so many bytes went out."""
        self.now += 1.0
        self.counts["messages_in"] += messages
        self.counts["messages_out"] += messages
        self.counts["bytes_in"] += size
        self.counts["bytes_out"] += out
        return self.detector.sample(self.sample(**other), self.now)


def counted(capacity: Amounts = CAPACITY, **parameters: Any) -> Counted:
    broker = Counted(LoadDetector("edge1", "edge", capacity, Balancing(**parameters)))
    broker.second()
    return broker


def test_the_first_sample_gives_no_rate() -> None:
    broker = Counted(LoadDetector("edge1", "edge", CAPACITY, Balancing()))
    load = broker.second(messages=5000)
    assert (load.utilisation, load.headroom, load.state) == ({}, None, LOW)
    assert load.reachable
    assert load.problem == "not measured yet"
    assert not broker.detector.refused


def test_utilisation_is_load_by_capacity_on_all_three_metrics() -> None:
    broker = counted()
    load = broker.second(messages=1000, size=300_000, out=800_000)
    assert load.utilisation == {Metric.INPUT: 0.3, Metric.OUTPUT: 0.4, Metric.MATCHING: 0.2}
    assert load.headroom == pytest.approx(0.55)
    assert (load.messages_in_s, load.bytes_in_s, load.bytes_out_s) == (1000, 300_000, 800_000)
    assert (load.state, load.problem) == (LOW, "")


@pytest.mark.parametrize(("high", "remaining"), [(0.9, 2500.0), (0.95, 2750.0)])
def test_remaining_capacity(high: float, remaining: float) -> None:
    broker = counted(low=0.85, high=high)
    load = broker.second(messages=2000)
    assert load.utilisation[Metric.MATCHING] == 0.4
    assert load.remaining[Metric.MATCHING] == pytest.approx(remaining)


def test_time_that_really_passed_counts() -> None:
    broker = counted()
    broker.now += 0.5
    load = broker.second(messages=3000)
    assert load.messages_in_s == pytest.approx(2000)


def test_a_sample_that_is_told_late_counts_from_when_it_was_taken() -> None:
    broker = counted()
    broker.now += 2
    broker.counts["messages_in"] += 1000
    load = broker.detector.sample(broker.sample(taken_at=broker.now - 1), broker.now)
    assert load.messages_in_s == pytest.approx(1000)
    broker.counts["messages_in"] += 1000
    load = broker.detector.sample(broker.sample(taken_at=broker.now), broker.now)
    assert load.messages_in_s == pytest.approx(1000)
    broker.counts["messages_in"] += 1000
    broker.now += 1
    load = broker.detector.sample(broker.sample(taken_at=broker.now + 50), broker.now)
    assert load.messages_in_s == pytest.approx(1000), "nothing is taken after it is told"


@pytest.mark.parametrize(("messages", "rises"), [(1000, False), (1300, False), (1350, True), (500, False)])
def test_load_rises_while_the_last_look_is_clearly_above_the_mean(messages: int, rises: bool) -> None:
    broker = counted()
    broker.second(messages=1000)
    # 0.3 of the difference, of a capacity of 5000, against 0.02
    assert broker.second(messages=messages).rising is rises
    assert not broker.second(messages=messages).rising


def test_a_broker_of_unknown_capacity_is_never_high() -> None:
    broker = counted(UNLIMITED)
    load = broker.second(messages=10_000_000, size=10**9, out=10**9)
    assert (load.state, load.utilisation, load.capacity, load.remaining) == (LOW, {}, {}, {})
    assert load.headroom is None
    assert load.messages_in_s == 10_000_000


@pytest.mark.parametrize(
    ("messages", "state"), [(4499, LOW), (4500, HIGH), (4749, HIGH), (4750, OVERLOAD), (9000, OVERLOAD)]
)
def test_states_at_the_boundaries(messages: int, state: LoadState) -> None:
    load = counted().second(messages=messages)
    assert load.state is load.measured is state
    assert load.overloaded == ((Metric.MATCHING,) if state is OVERLOAD else ())


def test_overloaded_metrics_travel_with_the_state() -> None:
    load = counted().second(messages=100, size=960_000, out=1_990_000)
    assert load.overloaded == (Metric.INPUT, Metric.OUTPUT)


def test_the_latest_look_weighs_most() -> None:
    broker = counted()
    broker.second(messages=1000)
    assert broker.second(messages=2000).messages_in_s == pytest.approx(0.3 * 1000 + 0.7 * 2000)
    assert broker.second(messages=0).messages_in_s == pytest.approx(0.3 * 2000)


def test_overload_is_confirmed_by_looks_in_a_row() -> None:
    broker = counted(confirm_periods=3, window=1)
    states = [broker.second(messages=m).state for m in (5000, 5000, 4000, 5000, 5000, 5000, 5000, 0)]
    assert states == [HIGH, HIGH, LOW, HIGH, HIGH, OVERLOAD, OVERLOAD, LOW]


def test_unconfirmed_overload_names_no_metrics() -> None:
    load = counted(confirm_periods=2).second(messages=5000)
    assert (load.state, load.overloaded) == (HIGH, ())


def test_overload_is_timed_from_its_beginning() -> None:
    broker = counted(window=1)
    broker.second(messages=5000)
    began = broker.now
    broker.second(messages=5000)
    assert broker.detector.overloaded_since == began
    broker.second(messages=100)
    assert broker.detector.overloaded_since is None


def test_busy_hides_the_measured_state_until_its_session_ends() -> None:
    broker = counted(window=1)
    detector = broker.detector
    assert detector.set_busy("s1")
    assert detector.set_busy("s1")
    assert not detector.set_busy("s2")
    load = broker.second(messages=5000)
    assert (load.state, load.measured, load.session) == (BUSY, OVERLOAD, "s1")
    assert load.overloaded == (Metric.MATCHING,)
    assert not detector.clear_busy("s2")
    assert not detector.clear_busy("")
    assert detector.load(broker.now).state is BUSY
    assert detector.clear_busy("s1")
    assert not detector.clear_busy("s1")
    assert detector.load(broker.now).state is OVERLOAD


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"messages_in": -5}, "negative"),
        ({"bytes_out": -1}, "negative"),
        ({"cpu_percent": math.nan}, "not a number"),
        ({"cpu_percent": -1.0}, "negative"),
        ({"processing_ms": math.inf}, "not a number"),
        ({"pending_bytes": -1}, "negative"),
        ({"taken_at": math.nan}, "not a number"),
        ({"bytes_in": math.nan}, "not a number"),
        ({"bytes_in": 2**63}, "impossible"),
        ({"messages_out": 2**63}, "impossible"),
        ({"broker": "edge2"}, "other broker"),
    ],
)
def test_wrong_samples_are_counted_and_change_nothing(wrong: dict[str, Any], reason: str) -> None:
    broker = counted()
    before = broker.second(messages=4600)
    broker.now += 1
    after = broker.detector.sample(broker.sample(**wrong), broker.now)
    assert msgspec.structs.replace(after, problem="") == before
    assert broker.detector.refused == {reason: 1}
    # the next good sample is differenced over both seconds
    assert broker.second(messages=9200).messages_in_s == pytest.approx(4600)


@pytest.mark.parametrize("how", ["restarted", "counter fell", "clock went back", "gap"])
def test_what_begins_anew_gives_no_rate_and_keeps_the_state(how: str) -> None:
    broker = counted(window=2)
    broker.second(messages=4600)
    match how:
        case "restarted":
            broker.started = "two"
        case "counter fell":
            broker.counts = dict.fromkeys(broker.counts, 0)
        case "clock went back":
            broker.now -= 50
        case "gap":
            broker.now += 50
    load = broker.second(messages=1)
    assert (load.state, load.measured) == (HIGH, HIGH)
    assert broker.detector.refused == {how: 1}
    # the next rate stands alone: nothing of before is mixed into it
    assert broker.second(messages=1000).messages_in_s == pytest.approx(1000)


def test_a_clock_that_stands_still_gives_no_rate() -> None:
    broker = counted()
    broker.second(messages=1000)
    broker.now -= 1
    broker.second(messages=1000)
    assert broker.detector.refused == {"too soon": 1}
    assert broker.second(messages=1000).messages_in_s == pytest.approx(0.3 * 1000 + 0.7 * 2000)


def test_a_wild_counter_that_lasts_is_taken_as_a_new_beginning() -> None:
    broker = counted()
    broker.counts["bytes_in"] += 10**15
    for _ in range(5):
        broker.second(messages=100)
    broker.second(messages=100)
    assert broker.second(messages=100).messages_in_s == pytest.approx(100)
    assert broker.detector.refused == {"impossible": 5, "gap": 1}


def test_a_broker_that_does_not_answer_is_unreachable_until_it_is_measured_again() -> None:
    broker = counted()
    broker.second(messages=100)
    answers = []
    for _ in range(UNREACHABLE_PERIODS):
        broker.now += 1
        answers.append(broker.detector.unreachable("no answer", broker.now))
    assert [load.reachable for load in answers] == [True, True, False]
    assert answers[-1].problem == "no answer"
    assert answers[-1].state is LOW
    assert not broker.second(messages=100).reachable
    load = broker.second(messages=200)
    assert load.reachable
    assert load.messages_in_s == pytest.approx(200)


def test_one_missed_answer_is_forgiven() -> None:
    broker = counted()
    broker.now += 1
    assert broker.detector.unreachable("no answer", broker.now).reachable
    assert broker.second(messages=200).messages_in_s == pytest.approx(100)


def test_silence_makes_unreachable_without_anybody_saying_so() -> None:
    broker = counted()
    broker.second(messages=100)
    assert broker.detector.load(broker.now + 3.4).reachable
    load = broker.detector.load(broker.now + 3.6)
    assert not load.reachable
    assert load.problem


@pytest.mark.parametrize(
    ("trigger", "parameters", "below", "at"),
    [
        (Trigger.DELAY, {"delay_ms": 50.0}, {"processing_ms": 49.9}, {"processing_ms": 50.0}),
        (Trigger.CPU, {"cpu_percent": 80.0}, {"cpu_percent": 79.9}, {"cpu_percent": 80.0}),
        (Trigger.MEMORY, {"memory_mb": 2.0}, {"memory_bytes": 1_999_999}, {"memory_bytes": 2_000_000}),
    ],
)
def test_triggers_have_thresholds_of_their_own(
    trigger: Trigger, parameters: dict[str, Any], below: dict[str, Any], at: dict[str, Any]
) -> None:
    broker = counted(**parameters)
    assert broker.second(**below).triggers == ()
    broker = counted(**parameters)
    load = broker.second(**at)
    assert (load.state, load.triggers, load.overloaded) == (OVERLOAD, (trigger,), ())
    broker = counted()
    assert broker.second(**at).state is LOW, "without a threshold it is no trigger"


def test_a_spike_of_one_look_is_smoothed() -> None:
    broker = counted(delay_ms=50.0)
    broker.second(processing_ms=1.0)
    assert broker.second(processing_ms=60.0).triggers == ()
    assert broker.second(processing_ms=60.0).triggers == (Trigger.DELAY,)
    assert broker.second(processing_ms=None).triggers == (Trigger.DELAY,), "the last probe still stands"
    assert broker.second(processing_ms=None).triggers == ()


def test_pending_bytes_are_a_trigger_when_they_rise_over_five_samples_beyond_the_limit() -> None:
    def triggered(*pending: int, limit: int | None = 100) -> list[bool]:
        broker = counted(pending_bytes=limit)
        return [bool(broker.second(pending_bytes=each).triggers) for each in pending]

    assert triggered(10, 20, 30, 40, 100) == [False] * 4 + [True]
    assert triggered(10, 20, 30, 40, 99) == [False] * 5
    assert triggered(200, 300, 400, 500, 600, 600) == [False] * 4 + [True, False]
    assert triggered(900, 800, 700, 600, 500) == [False] * 5
    assert triggered(100, 200, 300, 400, 500, limit=None) == [False] * 5


def test_weights_sum_to_one_and_grow() -> None:
    assert weights(2) == (0.3, 0.7)
    assert weights(5) == pytest.approx([1 / 15, 2 / 15, 3 / 15, 4 / 15, 5 / 15])
    for window in range(1, 61):
        assert sum(weights(window)) == pytest.approx(1)
        assert list(weights(window)) == sorted(weights(window))


@given(st.floats(0, 1e12), st.integers(1, 60), st.integers(1, 80))
def test_the_mean_of_a_constant_is_that_constant(value: float, window: int, count: int) -> None:
    assert smoothed([value] * count, window) == pytest.approx(value)


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=70), st.integers(1, 60))
def test_a_mean_is_between_the_least_and_the_most(values: list[float], window: int) -> None:
    recent = values[-window:]
    assert min(recent) * 0.999999 - 1e-9 <= smoothed(values, window) <= max(recent) * 1.000001 + 1e-9


FIGURES = st.one_of(st.integers(-5, 10**7), st.sampled_from([2**63, 10**15, 0]))
CHANGES = st.one_of(
    st.tuples(st.just("sample"), FIGURES, FIGURES, st.floats(-3, 9, allow_nan=False)),
    st.tuples(st.just("silent"), st.just(0), st.just(0), st.floats(0, 5)),
    st.tuples(st.just("busy"), st.integers(1, 2), st.just(0), st.just(0.0)),
    st.tuples(st.just("free"), st.integers(1, 2), st.just(0), st.just(0.0)),
)


@given(st.lists(CHANGES, max_size=40), st.integers(1, 4), st.integers(1, 3))
def test_whatever_is_told_a_load_is_consistent(
    changes: list[tuple[str, int, int, float]], window: int, confirm: int
) -> None:
    broker = Counted(
        LoadDetector("edge1", "edge", CAPACITY, Balancing(window=window, confirm_periods=confirm))
    )
    session = ""
    for kind, first, second, elapsed in changes:
        before = broker.detector.measured
        broker.now += elapsed
        refused = sum(broker.detector.refused.values())
        match kind:
            case "sample":
                broker.counts["messages_in"] += first
                broker.counts["bytes_out"] += second
                broker.detector.sample(broker.sample(), broker.now)
            case "silent":
                broker.detector.unreachable("gone", broker.now)
            case "busy":
                if broker.detector.set_busy(f"s{first}"):
                    assert session in ("", f"s{first}")
                    session = f"s{first}"
            case _:
                assert broker.detector.clear_busy(f"s{first}") == (session == f"s{first}")
                session = "" if session == f"s{first}" else session
        load = broker.detector.load(broker.now)
        if kind != "sample" or sum(broker.detector.refused.values()) > refused:
            assert load.measured is before, "nothing but a good sample changes what was measured"
        assert load.session == session
        assert load.state is (BUSY if session else load.measured)
        assert all(used >= 0 and math.isfinite(used) for used in load.utilisation.values())
        if load.headroom is not None:
            fullest = max(load.utilisation.values())
            assert load.headroom == pytest.approx(0.95 - fullest)
            assert (load.measured is LOW) == (fullest < 0.90)
        assert bool(load.overloaded) == (load.measured is OVERLOAD)


def test_load_that_still_rises_is_told_from_load_that_has_risen() -> None:
    broker = counted()
    assert not broker.second(messages=4000).rising, "one look is no trend"
    assert not broker.second(messages=4000).rising
    assert broker.second(messages=5500).rising
    assert not broker.second(messages=5500).rising
    assert not broker.second(messages=3000).rising
