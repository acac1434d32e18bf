"""Wants that wait to be told: none is forgotten, none told twice, and those of one leaf go together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mangrove.overlay.interest.local_interest import LocalInterest
from mangrove.overlay.interest.snapshots import SLICE_SUBJECTS
from mangrove.overlay.interest.waiting_wants import Leaf, WaitingWants
from mangrove.overlay.trust.table_hash import TableHash, leaf_of

STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["add", "discard"]), st.integers(0, 11)),
        st.tuples(st.just("told"), st.integers(0, 5)),
    ),
    max_size=60,
)


@given(STEPS, st.sampled_from([None, lambda want: int(want) % 3]))
def test_it_is_a_set_whose_first_ones_are_taken(steps: list[tuple[str, int]], leaf: Leaf | None) -> None:
    waiting = WaitingWants(leaf)
    expected: set[str] = set()
    for action, number in steps:
        if action == "add":
            waiting.add(str(number))
            expected.add(str(number))
        elif action == "discard":
            waiting.discard(str(number))
            expected.discard(str(number))
        else:
            first = list(waiting)[:number]
            waiting.told(len(first))
            expected -= set(first)
        told = list(waiting)
        assert len(told) == len(set(told)) == len(waiting)
        assert set(told) == expected
        assert all(want in waiting for want in told)
        if leaf is not None:
            places = [int(want) % 3 for want in told]
            assert len(set(places)) == sum(
                place != before for place, before in zip(places, [None, *places], strict=False)
            )


def test_what_came_first_is_told_first() -> None:
    waiting = WaitingWants()
    for want in ("c", "a", "b", "a"):
        waiting.add(want)
    assert list(waiting) == ["c", "a", "b"]


def test_a_storm_changes_few_leaves_at_a_time() -> None:
    """Each leaf is hashed about once, however many slices there are."""
    interest, table = LocalInterest(), TableHash()
    interest.tell_together(leaf_of)
    wanted = {f"storm.subject.{number}" for number in range(20 * SLICE_SUBJECTS)}
    for subject in sorted(wanted):
        interest.change(subject, "", True)
    told: set[str] = set()
    hashed = slices = 0
    while interest.pending:
        added, removed = interest.take_changes()
        assert not removed
        assert not told & added
        told |= added
        table.add(added)
        hashed += len({leaf_of(want) for want in added})
        slices += 1
    assert told == wanted
    assert table.root() == TableHash(wanted).root()
    assert hashed <= len({leaf_of(want) for want in wanted}) + slices
