"""Does a plan from observed tails bear days that it has not seen better than one from means and covariances?

Topics are partners in groups. In ordinary seconds they share the work of their group: what one sends the
others do not, so their rates vary against each other, on top of what all topics of a site have in common; all
of that is normal. Rarely a shock of heavy-tailed size, some seconds long, lifts all topics of one group at
once. Shocks are too rare to turn the covariances, so a plan by the normal model puts partners on one broker,
where they even out; one that has seen the tails keeps them apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import wilcoxon

from mangrove.evaluation.confidence import Estimate, estimate
from mangrove.evaluation.trials.experiment import MAIN, Experiment
from mangrove.planning.empirical.sampling import sampled
from mangrove.planning.empirical.scenarios import with_common_shape
from mangrove.planning.judgement.assessment import assess
from mangrove.planning.problem.arrays import FloatArray, IntArray
from mangrove.planning.problem.problem import AllocationConstraints, Problem
from mangrove.planning.solvers import search
from mangrove.planning.solvers.round_robin import by_reserve
from mangrove.planning.solvers.stop import Never


@dataclass(frozen=True, slots=True)
class Setting:
    """The workload and the plans that are compared."""

    topics: int = 60
    brokers: int = 4
    sites: int = 5
    partners: int = 3
    """topics of a group"""
    variation: float = 0.3
    """standard deviation of a topic's ordinary rate, as a share of its mean"""
    common: float = 0.1
    """share of that variance that the topics of a site have in common"""
    shocks_per_hour: float = 1.0
    """of each group; 0: nothing but normal traffic"""
    shock_size: float = 1.5
    """median size of a shock, as a multiple of the topic's mean"""
    shock_shape: float = 0.35
    """shape of the Pareto tail of sizes"""
    shock_s: float = 8.0
    """mean duration"""
    days: int = 5
    held_out_days: int = 15
    peak_s: int = 7200
    load: float = 0.75
    """mean rate over capacity"""
    scenarios: int = 2000


@dataclass(frozen=True, slots=True)
class Judged:
    """A plan: the mean risk of a broker that it promised, and what came on days that it had not seen."""

    promised: float
    seen: float
    """share of broker seconds that were overloaded on the days it was made from"""
    held_out: float
    any_broker: float
    """share of held-out seconds in which some broker was overloaded"""


@dataclass(frozen=True, slots=True)
class SeedOutcome:
    """The plans for one seed, by name."""

    seed: int
    plans: dict[str, Judged]


@dataclass(frozen=True, slots=True)
class Summary:
    """Over all seeds; ratios are geometric means with 95 % intervals."""

    seeds: tuple[int, ...]
    setting: Setting
    means: dict[str, Judged]
    less_often: int
    """seeds on whose held-out days the empirical plan was overloaded less often than the normal one"""
    ratio: float
    ratio_low: float
    ratio_high: float
    """held-out overload of the empirical plan over that of the normal one"""
    p_value: float | None
    """Wilcoxon's signed-rank test that both are alike; None with fewer than six seeds"""
    normal_error: float
    """observed over promised overload of the normal plan, held out"""
    empirical_error: float
    outcomes: tuple[SeedOutcome, ...]


def traffic(seed: int, setting: Setting, days: range) -> FloatArray:
    """`[topic, second]` of the peaks of some days; a day's traffic depends on the seed and the day alone."""
    rng = np.random.default_rng([seed, 0])
    mean = np.exp(rng.normal(np.log(100.0), 0.5, setting.topics))
    site = rng.permutation(setting.topics) % setting.sites
    group = rng.permutation(setting.topics) // setting.partners
    return np.concatenate(
        [_day(np.random.default_rng([seed, 1, day]), setting, mean, site, group) for day in days], axis=1
    )


def _day(
    rng: np.random.Generator, setting: Setting, mean: FloatArray, site: IntArray, group: IntArray
) -> FloatArray:
    seconds = setting.peak_s
    common = rng.standard_normal((setting.sites, seconds))[site]
    own = rng.standard_normal((setting.topics, seconds))
    groups = int(group.max()) + 1
    size = np.bincount(group)
    of_group = np.zeros((groups, seconds))
    np.add.at(of_group, group, own)
    # What is left after the group's mean is taken off adds up to nothing over the group.
    shared = own - (of_group / size[:, None])[group]
    shared *= np.sqrt(size / np.maximum(size - 1, 1))[group][:, None]
    noise = np.sqrt(setting.common) * common + np.sqrt(1.0 - setting.common) * shared
    lift = setting.variation * noise + _shocks(rng, setting, groups)[group]
    return np.asarray(np.maximum(np.rint(mean[:, None] * (1.0 + lift)), 0.0), dtype=np.float64)


def _shocks(rng: np.random.Generator, setting: Setting, groups: int) -> FloatArray:
    """`[group, second]`, as a multiple of the mean; of shocks that overlap the larger counts."""
    shock = np.zeros((groups, setting.peak_s))
    for each in range(groups):
        count = rng.poisson(setting.shocks_per_hour * setting.peak_s / 3600.0)
        starts = rng.integers(0, setting.peak_s, count)
        # Pareto with the given shape, scaled to a median of `shock_size`.
        sizes = setting.shock_size * (2.0 * rng.random(count)) ** -setting.shock_shape
        for start, size in zip(starts, sizes, strict=True):
            stretch = slice(start, start + int(rng.geometric(1.0 / setting.shock_s)))
            shock[each, stretch] = np.maximum(shock[each, stretch], size)
    return shock


def problem_of(history: FloatArray, setting: Setting) -> Problem:
    """The problem that `pipeline profile` would write for this history."""
    mean = history.mean(axis=1)
    capacity = np.full(setting.brokers, mean.sum() / setting.brokers / setting.load)
    count = len(history)
    return Problem(
        items=tuple(f"topic{number + 1}" for number in range(count)),
        brokers=tuple(f"broker{number + 1}" for number in range(setting.brokers)),
        mean_rate_msg_s=mean,
        covariance=np.cov(history),
        capacity_msg_s=capacity,
        service_time_s=None,
        replication=np.zeros(count),
        volume=mean,
        reward=mean,
        penalty=mean,
        constraints=AllocationConstraints.none(setting.brokers),
    )


def run_seed(seed: int, setting: Setting) -> SeedOutcome:
    """Plans from some days, judged on others."""
    history = traffic(seed, setting, range(setting.days))
    problem = problem_of(history, setting)
    scenarios = with_common_shape(sampled(history, setting.scenarios, seed), setting.brokers)
    observed = replace(problem, scenarios=scenarios)
    params = search.SearchParams(with_bound=False)
    plans: dict[str, tuple[Problem, Sequence[int]]] = {
        "round robin": (problem, by_reserve(problem, np.arange(problem.item_count)).tolist()),
        "normal": (problem, search.solve(problem, Never(), seed, params).assignment),
        "empirical": (observed, search.solve(observed, Never(), seed, params).assignment),
    }
    held_out = range(setting.days, setting.days + setting.held_out_days)
    later = [traffic(seed, setting, range(day, day + 1)) for day in held_out]
    judged = {}
    for name, (judge, assignment) in plans.items():
        promised = float(np.mean([load.risk for load in assess(judge, assignment).loads]))
        shares = [_overload(problem, np.array(assignment), day) for day in later]
        seen, _ = _overload(problem, np.array(assignment), history)
        judged[name] = Judged(
            promised, seen, float(np.mean([s for s, _ in shares])), float(np.mean([a for _, a in shares]))
        )
    return SeedOutcome(seed, judged)


def _overload(problem: Problem, assignment: IntArray, rates: FloatArray) -> tuple[float, float]:
    """Shares of broker seconds, and of seconds, that were overloaded."""
    assert problem.capacity_msg_s is not None
    on = (assignment[None, :] == np.arange(problem.broker_count)[:, None]).astype(np.float64)
    over = on @ rates > problem.capacity_msg_s[:, None]
    return float(over.mean()), float(over.any(axis=0).mean())


def play(setting: Setting, seed: int) -> SeedOutcome:
    """One trial, as it is sent to other processes."""
    return run_seed(seed, setting)


def heavy_tails_trials(setting: Setting) -> Experiment[Setting, SeedOutcome]:
    """The experiment as trials."""
    return Experiment("heavy-tails", play, {MAIN: setting}, SeedOutcome)


def summarised(outcomes: Sequence[SeedOutcome], setting: Setting) -> Summary:
    """Means over seeds, and how the two plans compare."""
    normal = np.array([outcome.plans["normal"].held_out for outcome in outcomes])
    empirical = np.array([outcome.plans["empirical"].held_out for outcome in outcomes])
    # Half a second of overload where there was none, so that a ratio exists.
    least = 0.5 / (setting.held_out_days * setting.peak_s * setting.brokers)
    logs: Estimate = estimate(list(np.log(np.maximum(empirical, least) / np.maximum(normal, least))))
    half = logs.half_width or 0.0
    tested = len(outcomes) >= 6 and bool((empirical != normal).any())
    return Summary(
        seeds=tuple(outcome.seed for outcome in outcomes),
        setting=setting,
        means={name: _mean([outcome.plans[name] for outcome in outcomes]) for name in outcomes[0].plans},
        less_often=int((empirical < normal).sum()),
        ratio=float(np.exp(logs.mean)),
        ratio_low=float(np.exp(logs.mean - half)),
        ratio_high=float(np.exp(logs.mean + half)),
        p_value=float(wilcoxon(empirical, normal).pvalue) if tested else None,
        normal_error=_error(outcomes, "normal"),
        empirical_error=_error(outcomes, "empirical"),
        outcomes=tuple(outcomes),
    )


def _mean(plans: Sequence[Judged]) -> Judged:
    rows = np.array([(plan.promised, plan.seen, plan.held_out, plan.any_broker) for plan in plans])
    promised, seen, held_out, any_broker = (float(value) for value in rows.mean(axis=0))
    return Judged(promised, seen, held_out, any_broker)


def _error(outcomes: Sequence[SeedOutcome], name: str) -> float:
    plans = [outcome.plans[name] for outcome in outcomes]
    return sum(plan.held_out for plan in plans) / sum(plan.promised for plan in plans)
