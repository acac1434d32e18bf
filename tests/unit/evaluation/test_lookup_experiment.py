"""What prepared tables cost: entries within their bound, times that are times."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mangrove.errors import InputError
from mangrove.evaluation.confidence import Estimate
from mangrove.evaluation.lookup import run_lookup, time_lookups
from mangrove.routing.failover.tables import build_tables
from mangrove.routing.network.generators import random_network


def test_sizes_grow_and_entries_keep_within_their_bound() -> None:
    heard: list[tuple[int, int]] = []
    result = run_lookup([1, 2], (6, 24), 2000, lambda done, of: heard.append((done, of)))
    small, large = result.sizes
    assert heard[-1] == (4, 4)
    assert (small.nodes, small.links, small.colours) == (6, 12, 1 + 12 + 6)
    assert large.condensed_bytes.mean > small.condensed_bytes.mean
    for size in result.sizes:
        assert size.entries.mean <= size.entries_bound.mean
        assert size.condensed_bytes.mean < size.uncondensed_bytes.mean
        assert size.recompute_us.mean > 0
        assert size.vectorised_ns.mean > 0


def test_a_look_up_takes_time() -> None:
    table = build_tables(random_network(12, 24, seed=1)).broker("0")
    count = 50_000
    nanoseconds = time_lookups(table, [1] * count, [1] * count)
    assert 1 < nanoseconds < 5000


def test_claims_that_do_not_hold_are_told() -> None:
    result = run_lookup([1], (6, 12), 1000)
    first, last = result.sizes
    slow = replace(last, lookup_ns=Estimate(4 * first.lookup_ns.mean + 1, None))
    full = replace(first, entries=Estimate(first.entries_bound.mean + 1, None))
    told = replace(result, sizes=(full, slow)).missed()
    assert len(told) == 2


def test_bad_input() -> None:
    with pytest.raises(InputError):
        run_lookup([1], (3,))
    with pytest.raises(InputError):
        run_lookup([], (6,))
