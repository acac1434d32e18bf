"""A rate that several publishers share: never exceeded, used up, and max-min fair."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from mangrove.control.congestion.fair_level import fair_level
from mangrove.gateway.limits.fair_limit import BURST_S, DEBT_S, MAX_PUBLISHERS, FairLimit, PublisherRoom

STEP_S = 0.01


def run(
    limit: FairLimit, rates: dict[bytes, float], seconds: float, *, size_bytes: int = 100, start: float = 0.0
) -> dict[bytes, int]:
    """What passes of steady publishers, each of whom says a little in every step."""
    owed = dict.fromkeys(rates, 0.0)
    passed = dict.fromkeys(rates, 0)
    steps = round(seconds / STEP_S)
    for step in range(1, steps + 1):
        for origin, rate in rates.items():
            owed[origin] += rate * STEP_S
            messages = int(owed[origin])
            owed[origin] -= messages
            if messages:
                passed[origin] += limit.admit(origin, messages, size_bytes, start + step * STEP_S)
    return passed


@settings(max_examples=60, deadline=None)
@given(
    rate=st.floats(5, 5000),
    offers=st.lists(
        st.tuples(st.integers(0, 5), st.integers(1, 400), st.integers(0, 2000), st.floats(0, 0.4)),
        max_size=120,
    ),
)
def test_never_more_than_the_rate_passes_whoever_comes_when(
    rate: float, offers: list[tuple[int, int, int, float]]
) -> None:
    limit = FairLimit(rate, 1000 * rate, 0.0)
    now = 0.0
    messages = size = 0
    for publisher, count, size_bytes, pause_s in offers:
        now += pause_s
        passed = limit.admit(b"publisher%03d" % publisher, count, size_bytes, now)
        assert 0 <= passed <= count
        messages += passed
        size += passed * size_bytes
    slack = rate * (BURST_S + DEBT_S) + 401
    assert messages <= rate * now + slack
    assert size <= 1000 * rate * now + 1000 * rate * (BURST_S + DEBT_S) + 401 * 2000


@settings(max_examples=40, deadline=None)
@given(
    rate=st.floats(200, 5000),
    parts=st.lists(st.floats(0.02, 8), min_size=2, max_size=6),
    by_bytes=st.booleans(),
)
def test_steady_publishers_get_their_max_min_share_and_all_of_the_rate(
    rate: float, parts: list[float], by_bytes: bool
) -> None:
    rates = {b"publisher%03d" % number: part * rate for number, part in enumerate(parts)}
    limit = FairLimit(None, 100 * rate, 0.0) if by_bytes else FairLimit(rate, None, 0.0)
    run(limit, rates, 3)
    passed = run(limit, rates, 10, start=3)
    level = fair_level(rate, list(rates.values()))
    for origin, offered in rates.items():
        fair = min(offered, level) * 10
        assert 0.93 * fair - 3 <= passed[origin] <= 1.07 * fair + rate * BURST_S + 3
    assert sum(passed.values()) >= 0.96 * min(rate, sum(rates.values())) * 10 - 3


def test_one_publisher_gets_the_rate_within_a_hundredth() -> None:
    passed = run(FairLimit(1000.0, None, 0.0), {b"a": 50_000.0}, 10)
    assert 9_900 <= passed[b"a"] <= 10_100


def test_two_that_want_everything_get_half_each_and_one_that_wants_little_gets_it() -> None:
    limit = FairLimit(1000.0, None, 0.0)
    rates = {b"greedy": 50_000.0, b"eager": 5_000.0, b"modest": 40.0}
    run(limit, rates, 2)
    passed = run(limit, rates, 10, start=2)
    assert passed[b"modest"] >= 0.98 * 400
    assert abs(passed[b"greedy"] - passed[b"eager"]) < 0.04 * 10_000
    assert 9_800 <= sum(passed.values()) <= 10_200


def test_somebody_who_comes_later_is_heard_within_a_moment() -> None:
    limit = FairLimit(1000.0, None, 0.0)
    run(limit, {b"first": 50_000.0}, 2)
    passed = run(limit, {b"first": 50_000.0, b"second": 50_000.0}, 2, start=2)
    assert passed[b"second"] > 0.4 * 2000


def test_who_says_nothing_any_more_leaves_its_share_to_the_others() -> None:
    limit = FairLimit(1000.0, None, 0.0)
    run(limit, {b"first": 50_000.0, b"second": 50_000.0}, 2)
    passed = run(limit, {b"first": 50_000.0}, 10, start=2)
    assert passed[b"first"] >= 9_500
    assert limit.publishers == 1


def test_many_names_cost_bounded_memory_and_those_beyond_it_count_as_one() -> None:
    room = PublisherRoom(300)
    limits = [FairLimit(1000.0, None, 0.0, room) for _ in range(3)]
    for limit in limits:
        for number in range(1000):
            limit.admit(b"%012d" % number, 1, 10, 0.05)
    assert limits[0].publishers == MAX_PUBLISHERS + 1
    assert sum(limit.publishers for limit in limits) <= 300 + len(limits)
    for limit in limits:
        limit.release()
    assert room.left == 300


def test_a_limit_is_forgotten_only_if_nobody_owes_anything() -> None:
    limit = FairLimit(None, 1000.0, 0.0)
    assert limit.admit(b"a", 1, 1_000_000, 0.0) == 1, "one large message passes and leaves a debt"
    assert not limit.idle(500.0, after_s=10)
    assert limit.idle(1001.0, after_s=10)
