"""The load that plans are tried on: groups that surge together, every message accounted for."""

from __future__ import annotations

import asyncio

import numpy as np

from mangrove.testbed.plans.workload import GROUPS, MEAN_MSG_S, SurgingLoad, capacity_msg_s, group_of, topics


async def nothing(_topic: str, _data: bytes) -> None:
    await asyncio.sleep(0)


def test_every_third_topic_is_of_one_group() -> None:
    for edge in range(GROUPS):
        assert {group_of(topic) for topic in topics()[edge::GROUPS]} == {edge}


def test_topics_of_a_group_surge_together_and_others_do_not() -> None:
    load = SurgingLoad(nothing, seed=1)
    drawn = [load._rates() for _ in range(2000)]
    rates = np.array([list(each.values()) for each in drawn])
    correlation = np.corrcoef(rates.T)
    names = list(drawn[0])
    together = np.array([[group_of(a) == group_of(b) for b in names] for a in names])
    same, others = correlation[together], correlation[~together]
    assert same.min() > 0.8
    assert np.abs(others).max() < 0.15
    group = rates[:, [group_of(name) == 0 for name in names]].sum(axis=1)
    assert group.mean() < capacity_msg_s() < group.max()
    assert rates.mean() / MEAN_MSG_S > 0.95


def test_the_account_tells_what_is_lost_twice_and_out_of_order() -> None:
    load = SurgingLoad(nothing, seed=1)
    first, second = topics()[:2]
    load.sent.update({first: 3, second: 2})
    for number in (b"1", b"2", b"2"):
        load.got(first, number)
    for number in (b"2", b"1"):
        load.got(second, number)
    account = load.account()
    assert (account.published, account.lost, account.duplicated, account.reordered) == (5, 1, 1, 1)
    assert not account.exact
