"""Bits of seconds give the same sums as looking at samples one by one, however they are cut into spans."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from mangrove.pipelines.jobs.outages import GAP_S, Outages, Span, outages

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
