"""Bits of seconds give the same sums as looking at samples one by one, however they are cut into spans."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from mangrove.pipelines.jobs.outages import GAP_S, SAME_S, Outages, Span, outages

LENGTH_S = 64


def one_by_one(samples: dict[int, bool]) -> Outages:
    seconds = sorted(samples)
    observed = down = fell = 0
    for before, second in pairwise([None, *seconds]):
        assert second is not None
        apart = None if before is None else second - before
        stretch = 1 if apart is None or apart > GAP_S else apart
        observed += stretch
        down += 0 if samples[second] else stretch
        fell += not samples[second] and (before is None or samples[before])
    return Outages(len(seconds), observed, down, fell)


def reported(samples: dict[int, bool], reports: set[int]) -> int:
    """Reports that are near no second of an outage, and not right after another of these."""
    down: set[int] = set()
    for before, second in pairwise([None, *sorted(samples)]):
        assert second is not None
        apart = 1 if before is None or second - before > GAP_S else second - before
        if not samples[second]:
            down.update(range(second - apart + 1, second + 1))
    unseen = sorted(each for each in reports if not down & {*range(each - SAME_S, each + SAME_S + 1)})
    return bool(unseen) + sum(after - before > SAME_S for before, after in pairwise(unseen))


def spans(samples: list[tuple[int, bool]]) -> list[Span]:
    found: dict[int, tuple[bytearray, bytearray]] = {}
    for second, up in samples:
        start, place = second - second % LENGTH_S, second % LENGTH_S
        observed, down = found.setdefault(start, (bytearray(LENGTH_S // 8), bytearray(LENGTH_S // 8)))
        observed[place // 8] |= 1 << place % 8
        down[place // 8] |= (not up) << place % 8
    return [Span(start, bytes(bits[0]), bytes(bits[1])) for start, bits in found.items()]


SAMPLES = st.lists(st.tuples(st.integers(0, 600), st.booleans()), max_size=60)


@settings(max_examples=150, deadline=None)
@given(SAMPLES, SAMPLES, st.randoms(use_true_random=False), st.integers(0, 600), st.integers(0, 600))
def test_spans_add_up_to_the_samples(
    one: list[tuple[int, bool]], other: list[tuple[int, bool]], random: object, since: int, until: int
) -> None:
    joined: dict[int, bool] = {}
    for second, up in one + other:
        joined[second] = joined.get(second, True) and up
    several = spans(one) + spans(other)
    random.shuffle(several)  # type: ignore[attr-defined]
    assert outages(several) == one_by_one(joined)
    inside = {second: up for second, up in joined.items() if since <= second < until}
    assert outages(several, since, until) == one_by_one(inside)


REPORTS = st.sets(st.integers(0, 600), max_size=30)


@settings(max_examples=150, deadline=None)
@given(SAMPLES, REPORTS, st.none() | st.integers(0, 600), st.none() | st.integers(0, 600))
def test_reports_count_where_samples_saw_nothing(
    samples: list[tuple[int, bool]], reports: set[int], since: int | None, until: int | None
) -> None:
    seen: dict[int, bool] = {}
    for second, up in samples:
        seen[second] = seen.get(second, True) and up
    first, last = -1 if since is None else since, 1000 if until is None else until
    inside = {second: up for second, up in seen.items() if first <= second < last}
    found = outages(spans(samples), since, until, reports=spans([(each, True) for each in reports]))
    assert found.reported == reported(inside, {each for each in reports if first <= each < last})
    assert replace(found, reported=0) == one_by_one(inside)


def test_an_outage_that_is_reported_several_times_is_one_failure() -> None:
    samples = [(second, not 100 <= second < 130) for second in range(300)]
    # Both ends, a recorder that started anew meanwhile; then two ends of a failure between two samples.
    told = [(each, True) for each in (99, 101, 120, 131, 200, 201)]
    found = outages(spans(samples), reports=spans(told))
    assert (found.down_s, found.fell, found.reported) == (30, 1, 1)
