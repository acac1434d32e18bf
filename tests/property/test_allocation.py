"""Properties of every solver on random problems, against computations that share no code with them."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import stats

from mangrove.planning.bounds import own_variance_bound
from mangrove.planning.bounds.best_bound import score_bound
from mangrove.planning.bounds.relaxation import Relaxation
from mangrove.planning.judgement.assessment import assess
from mangrove.planning.judgement.result import Result, natural, reward_offset
from mangrove.planning.problem.problem import AllocationConstraints, Objective, Problem
from mangrove.planning.solvers import exact, genetic, search
from mangrove.planning.solvers.registry import SolverName, solve
from mangrove.planning.solvers.stop import Never

RELAXED = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def problems(draw: st.DrawFn, most_items: int = 6, most_brokers: int = 3) -> Problem:
    """Small problems of every form: fixed and modelled capacities, equal and unequal brokers, constraints."""
    items = draw(st.integers(1, most_items))
    brokers = draw(st.integers(1, most_brokers))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    mean = rng.uniform(0.5, 2.0, items)
    loadings = rng.normal(size=(items, 2)) * draw(st.sampled_from([0.0, 0.3, 1.0]))
    covariance = loadings @ loadings.T + np.diag(rng.uniform(0.0, 0.5, items))
    load = draw(st.sampled_from([0.3, 0.7, 1.1]))
    speed = np.ones(brokers) if draw(st.booleans()) else rng.uniform(0.6, 1.4, brokers)
    capacity = mean.sum() / brokers / load * speed
    replication = rng.uniform(1.0, 5.0, items)
    modelled = draw(st.booleans())
    service = (0.5 + 0.2 * replication)[None, :] / capacity[:, None] if modelled else None
    none = AllocationConstraints.none(brokers)
    pins = draw(st.dictionaries(st.integers(0, items - 1), st.integers(0, brokers - 1), max_size=2))
    pairs = st.tuples(st.integers(0, items - 1), st.integers(0, brokers - 1))
    constraints = replace(
        none,
        max_risk=np.full(brokers, draw(st.sampled_from([1.0, 1.0, 0.4, 0.1]))),
        max_items=np.full(brokers, draw(st.sampled_from([np.inf, np.inf, 1.0, 2.0, 3.0]))),
        max_volume=np.full(brokers, draw(st.sampled_from([np.inf, np.inf, 0.6])) * float(mean.sum())),
        max_delay_s=draw(st.sampled_from([np.inf, np.inf, 1.1])) / float(capacity.mean()),
        max_replication=draw(st.sampled_from([np.inf, np.inf, 3.5])),
        pinned=pins,
        forbidden=frozenset(draw(st.sets(pairs, max_size=2))),
    )
    return Problem(
        items=tuple(f"i{n}" for n in range(items)),
        brokers=tuple(f"b{n}" for n in range(brokers)),
        mean_rate_msg_s=mean,
        covariance=covariance,
        capacity_msg_s=None if modelled else capacity,
        service_time_s=service,
        replication=replication,
        volume=mean,
        reward=mean,
        penalty=rng.uniform(0.5, 2.0, items),
        constraints=constraints,
        utilisation_threshold=draw(st.sampled_from([1.0, 0.9])),
        objective=draw(st.sampled_from(Objective)),
    )


def recomputed(problem: Problem, sets: list[list[int]]) -> tuple[list[float], bool, float]:
    """Risks, whether all constraints hold, and the objective, in plain loops."""
    risks, fine, value = [], True, 0.0
    bounds = problem.constraints
    for broker, members in enumerate(sets):
        mean = sum(float(problem.mean_rate_msg_s[i]) for i in members)
        variance = sum(float(problem.covariance[i, j]) for i in members for j in members)
        if problem.capacity_msg_s is not None:
            delay = 1.0 / float(problem.capacity_msg_s[broker])
        elif members:
            assert problem.service_time_s is not None
            weighted = sum(
                float(problem.mean_rate_msg_s[i] * problem.service_time_s[broker, i]) for i in members
            )
            delay = weighted / mean
        else:
            delay = 1e-9
        capacity = problem.utilisation_threshold / delay
        deviation = math.sqrt(max(variance, 0.0))
        if deviation == 0:
            risk, ok, excess = float(mean > capacity), float(mean <= capacity), max(mean - capacity, 0.0)
        else:
            law = stats.norm(mean, deviation)
            risk, ok = float(law.sf(capacity)), float(law.cdf(capacity))
            excess = deviation**2 * float(law.pdf(capacity)) + (mean - capacity) * risk
        risks.append(risk)
        if problem.objective is Objective.JOINT:
            value += math.log(ok) if ok > 0 else -math.inf
        elif problem.objective is Objective.CONSTANT_PENALTY:
            value += sum(float(problem.reward[i] - problem.penalty[i] * risk) for i in members)
        else:
            value += sum(float(problem.reward[i]) for i in members) - problem.penalty_per_message * excess
        if members:
            grade = sum(float(problem.replication[i] * problem.mean_rate_msg_s[i]) for i in members) / mean
            fine = fine and (
                risk <= bounds.max_risk[broker] * (1 + 1e-6)
                and len(members) <= bounds.max_items[broker]
                and mean <= bounds.max_volume[broker] * (1 + 1e-6)
                and delay <= bounds.max_delay_s * (1 + 1e-6)
                and grade <= bounds.max_replication * (1 + 1e-6)
            )
    for item, broker in bounds.pinned.items():
        fine = fine and item in sets[broker]
    for item, broker in bounds.forbidden:
        fine = fine and item not in sets[broker]
    return risks, fine, value


def as_sets(problem: Problem, result: Result) -> list[list[int]]:
    return [[problem.items.index(i) for i in result.allocation[broker]] for broker in problem.brokers]


def enumerated(problem: Problem) -> float | None:
    """Best objective over all allocations that keep the constraints; None when there is none."""
    best = None
    for where in itertools.product(range(problem.broker_count), repeat=problem.item_count):
        sets = [[i for i, b in enumerate(where) if b == broker] for broker in range(problem.broker_count)]
        _, fine, value = recomputed(problem, sets)
        if fine and (best is None or value > best):
            best = value
    return best


def check_answer(problem: Problem, result: Result) -> None:
    sets = as_sets(problem, result)
    assert sorted(itertools.chain(*sets)) == list(range(problem.item_count)), "not a partition"
    risks, fine, value = recomputed(problem, sets)
    assert np.allclose([load.risk for load in result.assessment.loads], risks, rtol=1e-6, atol=1e-12)
    assert result.feasible == fine
    assert result.feasible == (not result.assessment.violations)
    if math.isfinite(value) and value > -1e9:
        assert np.isclose(result.assessment.score, value, rtol=1e-6, atol=1e-9)
    assert result.bound >= result.value - 1e-9 * abs(result.value) or not result.feasible


@RELAXED
@given(problems(), st.sampled_from(SolverName), st.integers(0, 3))
def test_every_answer_is_a_partition_with_true_risks_and_kept_constraints(
    problem: Problem, solver: SolverName, seed: int
) -> None:
    params = genetic.GeneticParams(population=20, generations=20) if solver is SolverName.GENETIC else None
    result = solve(problem, solver, Never(), seed, params)
    check_answer(problem, result)
    again = solve(problem, solver, Never(), seed, params)
    assert again.assignment == result.assignment


@RELAXED
@given(problems(most_items=5), st.booleans())
def test_exact_equals_full_enumeration(problem: Problem, tabulate: bool) -> None:
    result = exact.solve(problem, Never(), 1, exact.ExactParams(tabulate=tabulate))
    best = enumerated(problem)
    check_answer(problem, result)
    if best is None:
        assert not result.feasible
        assert result.infeasibility_proven
    else:
        assert result.feasible
        assert result.proven_optimal
        if best > -1e9:
            assert np.isclose(result.assessment.score, best, rtol=1e-7, atol=1e-9)


@RELAXED
@given(problems(most_items=5))
def test_bounds_are_above_every_allocation(problem: Problem) -> None:
    best = enumerated(problem)
    if best is None or best < -1e9:
        return
    slack = 1e-9 * max(1.0, abs(best))
    assert score_bound(problem) + reward_offset(problem) >= best - slack
    assert Relaxation(problem).value + reward_offset(problem) >= best - slack
    assert own_variance_bound.score_bound(problem) + reward_offset(problem) >= best - slack


@RELAXED
@given(problems(most_items=12, most_brokers=4), st.integers(0, 5))
def test_relaxation_bounds_what_search_finds(problem: Problem, seed: int) -> None:
    result = search.solve(problem, Never(), seed, search.SearchParams(rounds=5))
    check_answer(problem, result)
    if result.feasible and result.assessment.score > -1e9:
        assert natural(problem, result.assessment.score) <= result.bound * (1 + 1e-9) + 1e-9
        if problem.item_count > 1 and problem.broker_count > 1:
            start = search.solve(problem, Never(), seed, search.SearchParams(rounds=0))
            assert not start.feasible or start.value <= result.value + 1e-9


@RELAXED
@given(problems(most_items=8, most_brokers=4), st.integers(0, 2**16))
def test_incremental_sums_equal_fresh_ones(problem: Problem, seed: int) -> None:
    """After any sequence of moves the running gains are those of an allocation taken afresh."""
    from mangrove.planning.judgement.feasibility import placements
    from mangrove.planning.judgement.scoring import Scorer
    from mangrove.planning.solvers.neighbourhood import Neighbourhood

    rng = np.random.default_rng(seed)
    open_ = placements(problem).open
    start = np.array([rng.choice(np.flatnonzero(row)) for row in open_])
    state = Neighbourhood(Scorer(problem), open_, start, 1.0)
    for _ in range(10):
        item = int(rng.integers(problem.item_count))
        state.move(item, int(rng.choice(np.flatnonzero(open_[item]))))
        first, second = rng.integers(problem.item_count, size=2)
        if open_[first, state.where[second]] and open_[second, state.where[first]] and first != second:
            state.swap(int(first), int(second))
    fresh = Neighbourhood(Scorer(problem), open_, state.where, 1.0)
    assert np.allclose(state.variance, fresh.variance, atol=1e-9)
    assert np.allclose(state.cross, fresh.cross, atol=1e-9)
    if state.value() > -1e6:
        assert np.isclose(state.value(), fresh.value(), rtol=1e-6, atol=1e-6)
    gain, item, broker = fresh.best_move()
    if np.isfinite(gain) and fresh.value() > -1e6:
        before = fresh.value()
        fresh.move(item, broker)
        assert np.isclose(fresh.value() - before, gain, rtol=1e-6, atol=1e-6)


@RELAXED
@given(problems(most_items=8, most_brokers=3))
def test_gain_of_a_swap_is_the_difference_it_makes(problem: Problem) -> None:
    from mangrove.planning.judgement.feasibility import placements
    from mangrove.planning.judgement.scoring import Scorer
    from mangrove.planning.solvers.neighbourhood import Neighbourhood

    if problem.broker_count < 2:
        return
    open_ = placements(problem).open
    start = np.array([int(np.flatnonzero(row)[-1 - i % int(row.sum())]) for i, row in enumerate(open_)])
    state = Neighbourhood(Scorer(problem), open_, start, 1.0)
    gain, item, other = state.best_swap(0, 1)
    if item < 0 or state.value() < -1e6:
        return
    before = state.value()
    state.swap(item, other)
    assert np.isclose(state.value() - before, gain, rtol=1e-6, atol=1e-6)
    assert np.isclose(
        assess(problem, state.where).loads[0].mean_rate_msg_s, state.sums[0, 0], rtol=1e-9, atol=1e-9
    )


@RELAXED
@given(problems(most_items=9, most_brokers=4), st.sampled_from([3.0, 30.0, 300.0]), st.integers(0, 3))
def test_where_the_probability_ties_the_largest_risk_is_at_most_that_of_round_robin(
    problem: Problem, room: float, seed: int
) -> None:
    pinned = problem.constraints.pinned
    roomy = replace(
        problem,
        constraints=replace(AllocationConstraints.none(problem.broker_count), pinned=pinned),
        capacity_msg_s=None if problem.capacity_msg_s is None else problem.capacity_msg_s * room,
        service_time_s=None if problem.service_time_s is None else problem.service_time_s / room,
        objective=Objective.JOINT,
    )
    usual = solve(roomy, SolverName.ROUND_ROBIN, Never(), seed)
    for solver in (SolverName.EXACT, SolverName.SEARCH):
        result = solve(roomy, solver, Never(), seed)
        if usual.assessment.joint_ok == result.assessment.joint_ok:
            assert result.assessment.largest_log_risk <= usual.assessment.largest_log_risk


@RELAXED
@given(st.integers(0, 2**32 - 1), st.sampled_from([2, 3]), st.floats(0.5, 1.1), st.booleans())
def test_the_bound_for_many_items_is_above_every_split_of_few(
    seed: int, brokers: int, load: float, equal: bool
) -> None:
    """The published workloads with eight items: all splits are looked at."""
    from mangrove.evaluation.allocation import Correlation, Setting, generate

    kind = list(Correlation)[seed % 2]
    problem = generate(seed, kind, Setting(items=8, brokers=brokers, load=load, own_share=seed % 5))
    if not equal:
        assert problem.service_time_s is not None
        problem = replace(
            problem, service_time_s=problem.service_time_s * np.linspace(0.7, 1.3, brokers)[:, None]
        )
    result = exact.solve(problem, Never(), 1, exact.ExactParams())
    assert result.proven_optimal
    score = result.assessment.score
    assert own_variance_bound.score_bound(problem) >= score - 1e-9 * max(1.0, abs(score))
