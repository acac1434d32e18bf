"""The broker's three times: recovered from runs that were made of them, with intervals that hold them."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mangrove.errors import InputError
from mangrove.evaluation.broker_costs import BrokerRun, fit_costs


def runs(times_s: tuple[float, float, float], noise: float, seed: int = 1) -> list[BrokerRun]:
    rng = np.random.default_rng(seed)
    t_rcv, t_fltr, t_tx = times_s
    return [
        BrokerRun(64, n, r, (t_rcv + n * t_fltr + r * t_tx) * (1 + noise * rng.normal()), t_rcv + r * t_tx)
        for n, r, _ in product((0, 1000, 4000), (1, 4, 16), range(4))
    ]


def test_intervals_hold_the_true_times_nearly_as_often_as_they_say() -> None:
    times = dict(zip(("t_rcv", "t_fltr", "t_tx"), (2e-6, 5e-10, 4e-7), strict=True))
    seeds = range(1, 31)
    held = 0
    for seed in seeds:
        made = runs((2e-6, 5e-10, 4e-7), 0.03, seed)
        wall = fit_costs(made, seed, draws=100)[0]
        for name, true in times.items():
            found = wall.times_s[name]
            assert found.value == pytest.approx(true, rel=0.3)
            held += found.low <= true <= found.high
    assert 0.85 <= held / (3 * len(seeds)) <= 1.0


def test_a_known_broker() -> None:
    wall, processor = fit_costs(runs((2e-6, 5e-10, 4e-7), 0.03), seed=1, draws=50)
    assert (wall.clock, processor.clock) == ("seconds", "cpu_s")
    assert wall.runs == 36
    assert wall.relative_rms < 0.05
    assert wall.capacity_msg_s.value == pytest.approx(1 / (2e-6 + 3 * 5e-10 + 10 * 4e-7), rel=0.1)
    assert processor.times_s["t_fltr"].high < 1e-12


def test_more_noise_gives_wider_intervals() -> None:
    def width(noise: float) -> float:
        found = fit_costs(runs((2e-6, 5e-10, 4e-7), noise), seed=1, draws=100)[0].times_s["t_rcv"]
        return found.high - found.low

    assert width(0.2) > 2 * width(0.02) > 0


@settings(max_examples=25, deadline=None)
@given(
    st.floats(1e-7, 1e-4),
    st.floats(0, 1e-8),
    st.floats(1e-8, 1e-5),
    st.integers(0, 1000),
)
def test_exact_runs_give_exact_times(t_rcv: float, t_fltr: float, t_tx: float, seed: int) -> None:
    found = fit_costs(runs((t_rcv, t_fltr, t_tx), 0.0), seed, draws=10)[0]
    most = t_rcv + 4000 * t_fltr + 16 * t_tx
    assert found.times_s["t_rcv"].value == pytest.approx(t_rcv, abs=1e-6 * most)
    assert 4000 * found.times_s["t_fltr"].value == pytest.approx(4000 * t_fltr, abs=1e-6 * most)
    assert found.times_s["t_tx"].value == pytest.approx(t_tx, abs=1e-6 * most)
    assert all(0 <= interval.low <= interval.high for interval in found.times_s.values())


def test_each_size_has_its_own_times() -> None:
    small = runs((1e-6, 0.0, 1e-7), 0.01)
    large = [BrokerRun(1024, r.filters, r.replication, 2 * r.seconds, 2 * r.cpu_s) for r in small]
    costs = fit_costs([*small, *large], seed=1, draws=20)
    assert [(cost.message_bytes, cost.clock) for cost in costs] == [
        (64, "seconds"),
        (64, "cpu_s"),
        (1024, "seconds"),
        (1024, "cpu_s"),
    ]
    assert costs[2].times_s["t_tx"].value == pytest.approx(2 * costs[0].times_s["t_tx"].value)


def test_too_few_runs_are_refused() -> None:
    with pytest.raises(InputError, match="too few"):
        fit_costs(runs((1e-6, 0.0, 1e-7), 0.0)[:5], seed=1)
