"""The experiment on the order of queues: loads are repeatable, and the orders differ where they should."""

from __future__ import annotations

from mangrove.evaluation.budgets import KINDS, make_load, run_load
from mangrove.model.federation import Urgency


def test_a_seed_gives_one_load() -> None:
    assert make_load("first", 3) == make_load("first", 3)
    assert make_load("first", 3) != make_load("first", 4)
    heavier, plain = make_load("last", 3), make_load("none", 3)
    assert len(heavier) > len(plain)


def test_deadlines_are_worth_looking_at() -> None:
    load = make_load("middle", 1)
    fifo = run_load(load, Urgency.ARRIVAL, 1)
    laxity = run_load(load, Urgency.LAXITY, 1)
    assert set(laxity.in_time) == set(KINDS)
    assert laxity.in_time["far tight"] > 2 * fifo.in_time["far tight"]
    assert laxity.overall > fifo.overall
