"""The account of a surge: exact for every order in which messages may arrive."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mangrove.testbed.surge.account import Arrivals, SubscriberAccount, summed_up
from mangrove.testbed.surge.workload import HOME, NEIGHBOUR, burst_on, draw_plan, federation_of


@given(st.lists(st.integers(min_value=1, max_value=12), max_size=40))
def test_arrivals_are_booked_exactly(sequences: list[int]) -> None:
    arrivals = Arrivals()
    for sequence in sequences:
        arrivals.arrived(sequence, 1.0)
    firsts = list(dict.fromkeys(sequences))
    assert arrivals.delivered == len(firsts)
    assert arrivals.duplicated == len(sequences) - len(firsts)
    assert arrivals.lost(12) == 12 - len(firsts)
    highest, reordered = 0, 0
    for sequence in firsts:
        reordered += sequence < highest
        highest = max(highest, sequence)
    assert arrivals.reordered == reordered


def test_the_account_tells_moved_subscribers_from_others() -> None:
    def subscriber(moves: int, longest_ms: float) -> SubscriberAccount:
        return SubscriberAccount(
            topic="t",
            delivered=9,
            lost=1,
            duplicated=0,
            reordered=0,
            longest_ms=longest_ms,
            deadline_ms=100.0,
            moves=moves,
        )

    account = summed_up({"t": 10}, [subscriber(0, 500.0), subscriber(1, 50.0), subscriber(2, 150.0)])
    assert (account.expected, account.delivered, account.lost) == (30, 27, 3)
    assert (account.moved, account.late_moved) == (2, 1)
    assert (account.longest_moved_ms, account.longest_stayed_ms) == (150.0, 500.0)
    assert not account.exact


@given(st.integers(min_value=0, max_value=1000))
def test_a_burst_overloads_its_edge_and_leaves_room_elsewhere(seed: int) -> None:
    plan = draw_plan(seed=seed)
    assert sum(plan.subscribers_of(number) for number in range(len(plan.topics))) == plan.subscribers
    rates = plan.rates
    served = {f"e{edge}": tuple(list(rates)[edge :: plan.edges]) for edge in range(plan.edges)}
    factors = burst_on(rates, served, "e0", plan.capacity_msg_s, seed=seed)
    load = sum(rates[topic] * factors.get(topic, 1.0) for topic in served["e0"])
    assert load >= 1.1 * plan.capacity_msg_s or len(factors) == len(served["e0"])
    burst_total = sum(rate * factors.get(topic, 1.0) for topic, rate in rates.items())
    assert burst_total < 0.9 * plan.edges * plan.capacity_msg_s


def test_the_neighbour_accepts_load_from_home() -> None:
    federation = federation_of(draw_plan(seed=1, edges=1, neighbour=True))
    assert federation.domains[NEIGHBOUR].accept_load_from == (HOME,)
    assert len(federation.domains[HOME].edges) == 1
