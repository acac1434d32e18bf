"""The hash of a table: the same for the same wants, however they came to be."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.work import work_of

from mangrove.overlay.trust.table_hash import TableHash

WANTS = st.sets(st.text("abc.*> ", min_size=1, max_size=6), max_size=40)


@settings(max_examples=60)
@given(first=WANTS, second=WANTS)
def test_a_hash_is_of_what_is_there_and_not_of_how_it_came(first: set[str], second: set[str]) -> None:
    hashed = TableHash(first)
    hashed.root()
    hashed.remove(first - second)
    hashed.add(second - first)
    assert hashed.root() == TableHash(sorted(second, reverse=True)).root()
    assert (hashed.root() == TableHash(first).root()) == (first == second)


def test_wants_that_are_not_there_are_removed_without_a_trace() -> None:
    hashed = TableHash(["x"])
    before = hashed.root()
    hashed.remove(["y", "never"])
    assert hashed.root() == before
    hashed.remove(["x"])
    assert hashed.root() == TableHash().root() != before


def test_a_change_costs_what_the_change_is() -> None:
    costs = []
    for count in (1_000, 50_000):
        hashed = TableHash(f"subject.{number}" for number in range(count))
        hashed.root()

        def change(hashed: TableHash = hashed) -> None:
            hashed.add(["another"])
            hashed.root()

        costs.append(work_of(change)[0])
    assert costs[1] < 1.5 * costs[0]
