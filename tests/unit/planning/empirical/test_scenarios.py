"""Risk from observed windows: cases computed by hand, and what must hold for any of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mangrove.errors import InputError
from mangrove.evaluation.heavy_tails import Setting, problem_of, run_seed, summarised, traffic
from mangrove.planning.empirical.document import read_scenarios, scenario_arrays
from mangrove.planning.empirical.sampling import chosen_windows, excess_of, sampled
from mangrove.planning.empirical.scenarios import Scenarios, with_common_shape
from mangrove.planning.judgement.assessment import assess
from mangrove.planning.judgement.feasibility import placements
from mangrove.planning.judgement.scoring import Scorer
from mangrove.planning.problem.arrays import FloatArray
from mangrove.planning.problem.problem import Objective, Problem
from mangrove.planning.solvers.registry import SolverName, solve
from mangrove.planning.solvers.scenario_neighbourhood import ScenarioNeighbourhood
from mangrove.planning.solvers.search import SearchParams
from mangrove.planning.solvers.stop import Never

SMALL = Setting(topics=12, brokers=3, days=1, held_out_days=1, peak_s=600, scenarios=300)


def even(rates: FloatArray, shape: float = 0.0) -> Scenarios:
    return Scenarios(rates, np.full(rates.shape[1], 1.0 / rates.shape[1]), shape)


def small_problem(seed: int = 1, **changes: object) -> Problem:
    history = traffic(seed, SMALL, range(1))
    scenarios = with_common_shape(sampled(history, SMALL.scenarios, seed), SMALL.brokers)
    return replace(problem_of(history, SMALL), scenarios=scenarios, **changes)  # type: ignore[arg-type]


def test_a_risk_within_the_sample_is_the_share_of_windows() -> None:
    # 0 … 99: 19 of 100 are above 80, and they exceed it by 10 in the mean.
    scenarios = even(np.arange(100.0)[None, :])
    overload = scenarios.overload(scenarios.loads(np.array([0])), np.array([80.0]))
    assert np.exp(overload.log_risk[0]) == pytest.approx(0.19)
    assert overload.expected_excess_msg_s[0] == pytest.approx(0.19 * 10)


def test_a_risk_beyond_the_sample_follows_its_tail() -> None:
    # The ten largest of 0 … 99 exceed 89 by 5.5 in the mean.
    loads = np.arange(100.0)[None, :]
    capacity = np.array([109.0])
    exponential = even(loads).overload(loads, capacity)
    assert np.exp(exponential.log_risk[0]) == pytest.approx(0.1 * np.exp(-20 / 5.5))
    assert exponential.expected_excess_msg_s[0] == pytest.approx(0.1 * np.exp(-20 / 5.5) * 5.5)
    heavy = even(loads, 0.5).overload(loads, capacity)
    # σ = (1 − ξ)·5.5 keeps the mean.
    assert np.exp(heavy.log_risk[0]) == pytest.approx(0.1 * (1 + 0.5 * 20 / 2.75) ** -2)


def test_weights_count() -> None:
    rates = np.arange(100.0)[None, :]
    weights = np.where(rates[0] > 89, 0.001, (1 - 0.01) / 90)
    overload = Scenarios(rates, weights).overload(rates, np.array([95.0]))
    # Nine of the ten largest, by their own weight: σ is their mean excess over 89.
    assert np.exp(overload.log_risk[0]) == pytest.approx(0.01 * np.exp(-6 / 5.5))


def test_what_never_varies_is_overloaded_always_or_never() -> None:
    steady = even(np.full((1, 100), 7.0))
    for capacity, risk in ((6.0, 1.0), (7.0, 0.0), (8.0, 0.0)):
        overload = steady.overload(steady.loads(np.array([0])), np.array([capacity]))
        assert np.exp(overload.log_risk[0]) == risk
        assert overload.margin[0] == (-np.inf if risk else np.inf)


def test_the_margin_of_normal_loads_is_the_normal_models() -> None:
    rng = np.random.default_rng(3)
    rates = rng.normal(100.0, 10.0, (1, 200_000))
    overload = even(rates).overload(rates, np.array([120.0]))
    assert overload.margin[0] == pytest.approx(2.0, abs=0.05)


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.floats(0.0, 0.5),
    st.lists(st.floats(0.0, 500.0), min_size=2, max_size=6),
)
def test_more_capacity_never_means_more_risk(seed: int, shape: float, capacities: list[float]) -> None:
    rates = np.random.default_rng(seed).gamma(2.0, 20.0, (1, 150))
    scenarios = even(rates, shape)
    levels = np.sort(np.array(capacities))
    overload = scenarios.overload(np.repeat(rates, len(levels), axis=0), levels)
    assert (np.diff(overload.log_risk) <= 1e-12).all()
    assert (np.diff(overload.expected_excess_msg_s) <= 1e-9).all()
    assert (overload.log_risk <= 0).all()


def test_the_extreme_windows_are_kept_and_the_others_stand_for_the_rest() -> None:
    rng = np.random.default_rng(5)
    counts = rng.poisson(50.0, (4, 1000)).astype(float)
    counts[2, 17] = 500.0
    mean = counts.mean(axis=1)
    excess = excess_of(counts, mean)
    # By hand for one window.
    assert excess[3] == pytest.approx(sum(max(counts[i, 3] - mean[i], 0) for i in range(4)))
    places, weights = chosen_windows(excess, 100, seed=1)
    assert len(places) == len(set(places.tolist())) == 100
    assert set(np.argsort(-excess, kind="stable")[:50].tolist()) <= set(places.tolist())
    assert 17 in places
    assert weights.sum() == pytest.approx(1.0)
    assert weights[places.tolist().index(17)] == pytest.approx(1 / 1000)
    again, _ = chosen_windows(excess, 100, seed=1)
    assert again.tolist() == places.tolist()
    assert chosen_windows(excess, 100, seed=2)[0].tolist() != places.tolist()
    whole, alike = chosen_windows(excess, 2000, seed=1)
    assert whole.tolist() == list(range(1000))
    assert set(alike.tolist()) == {1 / 1000}


@pytest.mark.parametrize("objective", list(Objective))
def test_running_loads_are_those_of_a_fresh_sum(objective: Objective) -> None:
    problem = small_problem(objective=objective)
    scorer, open_ = Scorer(problem), placements(problem).open
    rng = np.random.default_rng(1)
    state = ScenarioNeighbourhood(scorer, open_, rng.integers(0, 3, 12), 1.0)
    before = state.snapshot()
    for _ in range(5):
        gain, item, broker = state.best_move()
        expected = state.value() + gain
        state.move(item, broker)
        assert state.value() == pytest.approx(expected, abs=1e-12)
        gain, one, other = state.best_swap(0, 1)
        expected = state.value() + gain
        state.swap(one, other)
        assert state.value() == pytest.approx(expected, abs=1e-12)
    fresh = ScenarioNeighbourhood(scorer, open_, state.where, 1.0)
    assert state.loads == pytest.approx(fresh.loads)
    assert state.arrive == pytest.approx(fresh.arrive)
    assert state.leave == pytest.approx(fresh.leave)
    score = assess(problem, state.where).score
    offset = 0.0 if objective is Objective.JOINT else float(problem.reward.sum())
    assert state.value() + offset == pytest.approx(score, rel=1e-9)
    state.restore(before)
    assert state.where.tolist() == before.where.tolist()
    assert state.loads == pytest.approx(ScenarioNeighbourhood(scorer, open_, before.where, 1.0).loads)


def test_the_search_is_never_worse_in_the_scenarios_than_the_normal_plan() -> None:
    problem = small_problem(2)
    normal = solve(replace(problem, scenarios=None), SolverName.SEARCH, Never(), 1)
    found = solve(problem, SolverName.AUTO, Never(), 1)
    assert found.solver == "search"
    assert found.assessment.score >= assess(problem, normal.assignment).score
    assert solve(problem, SolverName.SEARCH, Never(), 1).assignment == found.assignment
    with pytest.raises(InputError, match="normal model alone"):
        solve(problem, SolverName.EXACT, Never(), 1)
    round_robin = solve(problem, SolverName.ROUND_ROBIN, Never(), 1)
    assert round_robin.bound == pytest.approx(1.0)


def test_a_bound_on_risk_holds_by_the_scenarios() -> None:
    problem = small_problem(3)
    bounded = replace(problem, constraints=replace(problem.constraints, max_risk=np.full(3, 0.2)))
    found = solve(bounded, SolverName.SEARCH, Never(), 1, SearchParams(rounds=2))
    assert found.feasible
    assert max(load.risk for load in found.assessment.loads) <= 0.2 * (1 + 1e-6)


def test_scenarios_survive_a_file_and_mistakes_are_named() -> None:
    rates = np.random.default_rng(1).gamma(2.0, 20.0, (3, 120))
    arrays = scenario_arrays(["a", "b", "c"], even(rates))
    read = read_scenarios(arrays, ["c", "a"], 2, "file")
    assert read.rates_msg_s.tolist() == rates[[2, 0]].tolist()
    assert read.weights.sum() == pytest.approx(1.0)
    bad: dict[str, tuple[dict[str, object], str]] = {
        "missing": ({"weights": None}, "no array weights"),
        "item": ({"items": np.array(["a", "b", "d"])}, "'c' is missing"),
        "twice": ({"items": np.array(["a", "c", "c"])}, "occurs twice"),
        "shape": ({"weights": np.ones(100) / 100}, "3 x 120 for 3 items and 100"),
        "values": ({"rates": np.full((3, 120), np.nan)}, "not finite"),
        "type": ({"rates": np.array([["x"] * 120] * 3)}, "numbers of 2 dimensions"),
        "few": ({"rates": rates[:, :50], "weights": np.ones(50) / 50}, "100 or more"),
        "zero": ({"weights": np.zeros(120)}, "all weights are 0"),
    }
    for change, message in bad.values():
        changed = {k: v for k, v in {**arrays, **change}.items() if v is not None}
        with pytest.raises(InputError, match=message):
            read_scenarios(changed, ["a", "b", "c"], 2, "file")  # type: ignore[arg-type]


def test_the_experiment_repeats_itself_and_adds_up() -> None:
    one, again = run_seed(4, SMALL), run_seed(4, SMALL)
    assert one == again
    summary = summarised([one, run_seed(5, SMALL)], SMALL)
    assert summary.seeds == (4, 5)
    assert summary.p_value is None
    assert summary.ratio_low <= summary.ratio <= summary.ratio_high
    assert 0 <= summary.means["empirical"].held_out <= summary.means["empirical"].any_broker <= 1


def test_partners_vary_against_each_other_and_shocks_hit_them_together() -> None:
    calm = traffic(1, replace(SMALL, shocks_per_hour=0.0, peak_s=4000), range(1))
    correlation = np.corrcoef(calm)
    assert (correlation - np.eye(12)).min() < -0.3
    wild = traffic(1, replace(SMALL, shocks_per_hour=20.0, peak_s=4000), range(1))
    assert wild.max() > 2 * calm.max()
