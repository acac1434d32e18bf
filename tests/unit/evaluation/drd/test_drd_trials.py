"""ePEER's §4.5 in small: the workload, single trials, and that seconds without a change may be skipped."""

from __future__ import annotations

import numpy as np
import pytest

from mangrove.evaluation.drd.runs import METHODS, Methods, run_seed, run_seeds
from mangrove.evaluation.drd.sensitivity import VARIANTS
from mangrove.evaluation.drd.setting import Migration, Setting
from mangrove.evaluation.drd.trial import run_trial
from mangrove.evaluation.drd.workload import (
    BURST_END_S,
    BURST_FACTOR,
    BURSTS_S,
    CAPACITY_MSG_S,
    DEADLINE_S,
    EDGES,
    REGISTERED_S,
    TOPICS,
    Ranges,
    draw_workload,
)


def test_a_workload_has_what_the_thesis_prints() -> None:
    for seed in range(1, 30):
        workload = draw_workload(seed)
        assert len(workload.topics) == TOPICS == len(set(workload.topics))
        assert all(CAPACITY_MSG_S[0] <= each <= CAPACITY_MSG_S[1] for each in workload.capacity_msg_s)
        assert workload.deadline_s.min() >= DEADLINE_S[0]
        assert workload.deadline_s.max() <= DEADLINE_S[1]
        first, second = workload.bursts
        assert 10 <= len(first) <= 15
        assert 10 <= len(second) <= 15
        assert not set(first) & set(second)
        share = workload.rate_msg_s.sum() / sum(workload.capacity_msg_s)
        assert Ranges().utilisation[0] <= share <= Ranges().utilisation[1]


def test_bursts_begin_and_end_when_they_should() -> None:
    workload = draw_workload(3)
    calm = workload.rates_at(1)
    first, second = (list(each) for each in workload.bursts)
    assert np.array_equal(workload.rates_at(BURSTS_S[0] - 1), calm)
    one = workload.rates_at(BURSTS_S[0])
    assert one[first] == pytest.approx(calm[first] * BURST_FACTOR, abs=1.0)
    assert np.array_equal(one[second], calm[second])
    both = workload.rates_at(BURST_END_S - 1)
    assert both[second] == pytest.approx(calm[second] * BURST_FACTOR, abs=1.0)
    assert np.array_equal(workload.rates_at(BURST_END_S), calm)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", [1, 3, 7])
def test_skipped_seconds_change_nothing(method: str, seed: int) -> None:
    workload = draw_workload(seed)
    assert run_trial(workload, method) == run_trial(workload, method, every_second=True)


def test_drd_moves_nothing_while_clients_register_and_ends_the_overload() -> None:
    moved = 0
    for seed in range(1, 7):
        trial = run_trial(draw_workload(seed), "drd")
        assert trial.count() == trial.count(REGISTERED_S)
        assert all(one.at_s >= BURSTS_S[0] for one in trial.offloads)
        topics = [topic for one in trial.offloads for topic in one.targets]
        assert len(topics) == len(set(topics)), "no topic moves twice in one burst"
        moved += trial.count()
    assert moved


@pytest.mark.parametrize("seed", [1, 4, 6])
def test_nobody_that_took_load_is_overloaded_by_it(seed: int) -> None:
    trial = run_trial(draw_workload(seed), "drd", Setting(matching_only=True), history=True)
    measured = dict(trial.history)
    assert trial.offloads
    for offload in trial.offloads:
        after = measured[round(offload.at_s) + 4]
        for target in offload.targets.values():
            assert after[EDGES.index(target)] < Setting().high


@pytest.mark.parametrize(("seed", "waiting"), [(4, False), (1, True)])
def test_relative_delay_is_the_pause_and_the_queue_by_the_requirement(seed: int, waiting: bool) -> None:
    workload = draw_workload(seed)
    trial = run_trial(workload, "drd", Setting(migration=Migration(0.1, 0.2, 0.1)))
    assert trial.offloads
    offload = trial.offloads[0]
    numbers = [workload.topics.index(topic) for topic in offload.targets]
    pauses = sum(0.4 * workload.subscribers[each] / workload.deadline_s[each] for each in numbers)
    assert (offload.delay > pauses * 1.001) == waiting, "beyond its capacity an edge has a queue"
    assert offload.delay == pytest.approx(pauses, rel=0.2)
    assert offload.subscribers == sum(workload.subscribers[each] for each in numbers)


def test_peer_balances_while_clients_register_and_drd_has_less_delay() -> None:
    found = run_seed(Methods(), 1)
    assert found["peer"].offloads > found["peer"].offloads_after
    assert found["drd"].delay < found["peer"].delay
    assert found["drd"].offloads < found["peer"].offloads
    assert 1 / 30_000 <= found["drd"].overhead_capacity <= 1 / 20_000
    assert found["drd"].overhead_exchange > 0


def test_subscribers_may_be_placed_one_by_one() -> None:
    together = run_trial(draw_workload(2), "peer", Setting())
    apart = run_trial(draw_workload(2), "peer", Setting(by_subscriber=True))
    assert apart.exchange_msg_s != together.exchange_msg_s
    assert sum(apart.exchange_msg_s) > sum(together.exchange_msg_s), "topics are carried to several edges"


def test_workers_do_not_change_the_result() -> None:
    setting = Setting()
    alone = run_seeds([1, 2, 3], setting, ("drd", "peer"))
    assert alone == run_seeds([1, 2, 3], setting, ("drd", "peer"), workers=2)
    assert alone != run_seeds([4, 5, 6], setting, ("drd", "peer"))


def test_every_variant_changes_one_thing() -> None:
    base, *others = VARIANTS.values()
    assert base == Setting()
    assert len({repr(one) for one in others} | {repr(base)}) == len(VARIANTS)
