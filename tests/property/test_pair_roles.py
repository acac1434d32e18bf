"""Two gateways of one domain: one carries, whatever dies, hangs or is cut off, and never both for long."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.pairs import TwoGateways

from mangrove.overlay.pair.messages import Role

index = st.integers(0, 1)
after = st.floats(0.0, 0.6)
pauses = st.tuples(after, st.just("pause"), index, st.floats(0.01, 2.0))
deaths = st.tuples(after, st.just("kill"), index)
starts = st.tuples(after, st.just("start"), index)
cuts = st.tuples(after, st.just("cut"), st.floats(0.01, 2.0))


def play(faults: list[tuple[object, ...]], skew_ns: int = 0) -> TwoGateways:
    two = TwoGateways(skew_ns)
    two.run(1.0)
    for wait_s, what, *details in faults:
        assert isinstance(wait_s, float)
        two.run(wait_s)
        getattr(two, str(what))(*details)
    return two


@settings(max_examples=40)
@given(st.lists(st.one_of(pauses, deaths, starts), max_size=8), st.sampled_from((0, -(10**9), 10**9)))
def test_pauses_and_deaths_never_make_both_deliver(faults: list[tuple[object, ...]], skew_ns: int) -> None:
    two = play(faults, skew_ns)
    two.run(4.0)
    assert two.both_s == 0
    # A clock may be behind, and all who knew of a later life may be dead.
    assert skew_ns or two.epochs == sorted(set(two.epochs)), "every life is later than the one before"


@settings(max_examples=40)
@given(st.lists(st.one_of(pauses, deaths, starts, cuts), max_size=8), st.sampled_from((0, -(10**9), 10**9)))
def test_in_the_end_exactly_one_carries_and_the_other_stands_by(
    faults: list[tuple[object, ...]], skew_ns: int
) -> None:
    two = play(faults, skew_ns)
    two.start(0)
    two.start(1)
    two.run(5.0)
    assert len(two.carrying()) == 1
    (other,) = (each for each in two.processes if each.number not in two.carrying())
    assert other.roles.role is Role.STANDBY


@settings(max_examples=10)
@given(st.floats(0.5, 3.0))
def test_a_line_that_is_cut_makes_both_deliver_until_they_hear_of_each_other(for_s: float) -> None:
    """That is why neighbours and the management broker tell, too: here, nobody does."""
    two = play([])
    two.cut(for_s)
    two.run(for_s + 0.5)
    assert two.both_s <= for_s
    assert len(two.carrying()) == 1


@settings(max_examples=10)
@given(st.floats(0.1, 2.0))
def test_who_is_told_of_a_later_life_lets_go_at_once(for_s: float) -> None:
    two = play([])
    first, second = two.processes
    two.cut(10.0)
    two.run(for_s + 0.5)
    assert second.roles.role is Role.ACTIVE
    first.roles.learned(second.roles.epoch, two.now)
    assert first.roles.role is Role.DISPLACED
    assert not first.roles.may_deliver(two.now)
