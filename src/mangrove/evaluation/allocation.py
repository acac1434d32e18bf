"""Genetic against round-robin allocation, 100 topics on 3 brokers (thesis §4.5.6, tables 4-6 to 4-8).

The inputs of the published tables are not published, so they are generated: the same means and coefficients
of variation, with two correlation matrices from one set of random factor loadings. With signs (test A) some
topics surge against each other; with their absolute values (test B) all surge together. A factor model is a
valid correlation matrix by construction. Capacities follow from the broker model of table 4-5.

Three round-robin starts of different quality are the best, the median and the worst of many random orders in
which topics are dealt to the brokers in turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np

from mangrove.evaluation.published import ACTIVEMQ, FILTERS, REPLICATION
from mangrove.evaluation.trials.campaign import collect
from mangrove.evaluation.trials.experiment import MAIN, Experiment
from mangrove.planning.judgement.assessment import assess
from mangrove.planning.problem.problem import AllocationConstraints, Problem
from mangrove.planning.solvers import genetic, round_robin, search
from mangrove.planning.solvers.stop import Never

# Genetic results from different starts count as the same when they differ by no more than this share.
SAME = 0.01


class Correlation(Enum):
    """Signs of the correlations between topics."""

    MIXED = "A"
    POSITIVE = "B"


@dataclass(frozen=True, slots=True)
class Setting:
    """How the workload is drawn. `load` is the share of all capacity that the means take."""

    items: int = 100
    brokers: int = 3
    load: float = 0.9
    variation: float = 0.3
    factors: int = 8
    own_share: float = 4.0
    round_robin_orders: int = 200


def generate(seed: int, correlation: Correlation, setting: Setting) -> Problem:
    """A problem whose means do not depend on `correlation`, nor its loadings but for their signs."""
    rng = np.random.default_rng(seed)
    count = setting.items
    loadings = rng.normal(size=(count, setting.factors))
    own = rng.uniform(0.5, 1.5, count) * setting.own_share * setting.factors
    mean = rng.uniform(0.5, 1.5, count)
    if correlation is Correlation.POSITIVE:
        loadings = np.abs(loadings)
    raw = loadings @ loadings.T + np.diag(own)
    scale = np.sqrt(np.diag(raw))
    capacity = float(ACTIVEMQ.capacity_msg_s(FILTERS, REPLICATION))
    mean *= setting.load * setting.brokers * capacity / mean.sum()
    deviation = setting.variation * mean
    service = np.full((setting.brokers, count), 1.0 / capacity)
    return Problem(
        items=tuple(f"topic{i + 1}" for i in range(count)),
        brokers=tuple(f"broker{b + 1}" for b in range(setting.brokers)),
        mean_rate_msg_s=mean,
        covariance=raw / np.outer(scale, scale) * np.outer(deviation, deviation),
        capacity_msg_s=None,
        service_time_s=service,
        replication=np.full(count, REPLICATION),
        volume=mean,
        reward=mean,
        penalty=mean,
        constraints=AllocationConstraints.none(setting.brokers),
    )


@dataclass(frozen=True, slots=True)
class StartOutcome:
    """One round-robin start and what came of it: P(each broker fine), and their product."""

    quality: str
    round_robin_brokers: tuple[float, ...]
    round_robin: float
    genetic_brokers: tuple[float, ...]
    genetic: float
    search: float

    @property
    def improvement(self) -> float:
        """Figure 4-9: (genetic − round robin) / round robin."""
        return (self.genetic - self.round_robin) / self.round_robin


@dataclass(frozen=True, slots=True)
class SeedOutcome:
    """Tests A and B for one seed, each from a good, a medium and a weak start."""

    seed: int
    tests: dict[str, tuple[StartOutcome, ...]]

    def findings(self) -> dict[str, bool]:
        """Which of the published observations hold here."""
        every = [start for starts in self.tests.values() for start in starts]
        mixed, positive = self.tests["A"], self.tests["B"]
        return {
            "genetic improves on round robin in every case": all(s.genetic > s.round_robin for s in every),
            f"genetic is within {SAME:.0%} from good, medium and weak starts": all(
                max(s.genetic for s in starts) - min(s.genetic for s in starts)
                <= SAME * max(s.genetic for s in starts)
                for starts in self.tests.values()
            ),
            "the weaker the start, the larger the improvement": all(
                starts[0].improvement < starts[1].improvement < starts[2].improvement
                for starts in self.tests.values()
            ),
            "mixed correlations allow better results than positive ones": all(
                a.genetic > b.genetic for a, b in zip(mixed, positive, strict=True)
            ),
            "search is at least as good as genetic in every case": all(s.search >= s.genetic for s in every),
        }


def run_seed(seed: int, setting: Setting, params: genetic.GeneticParams | None = None) -> SeedOutcome:
    """The whole experiment for one seed."""
    problems = {kind.value: generate(seed, kind, setting) for kind in Correlation}
    return SeedOutcome(seed, {name: _test(each, seed, setting, params) for name, each in problems.items()})


def _test(
    problem: Problem, seed: int, setting: Setting, params: genetic.GeneticParams | None
) -> tuple[StartOutcome, ...]:
    rng = np.random.default_rng([seed, 1])
    orders = [rng.permutation(problem.item_count) for _ in range(setting.round_robin_orders)]
    starts = [round_robin.cyclic(problem, order) for order in orders]
    ranked = sorted(starts, key=lambda start: -assess(problem, start).joint_ok)
    chosen = {"good": ranked[0], "medium": ranked[len(ranked) // 2], "weak": ranked[-1]}
    base = params or genetic.GeneticParams()
    outcomes: list[StartOutcome] = []
    for quality, start in chosen.items():
        first = tuple(int(b) for b in start)
        before = assess(problem, start)
        evolved = genetic.solve(problem, Never(), seed, _started(base, first))
        climbed = search.solve(problem, Never(), seed, search.SearchParams(start=first, with_bound=False))
        outcomes.append(
            StartOutcome(
                quality,
                tuple(float(np.exp(load.log_ok)) for load in before.loads),
                before.joint_ok,
                tuple(float(np.exp(load.log_ok)) for load in evolved.assessment.loads),
                evolved.assessment.joint_ok,
                climbed.assessment.joint_ok,
            )
        )
    return tuple(outcomes)


def _started(params: genetic.GeneticParams, start: tuple[int, ...]) -> genetic.GeneticParams:
    return replace(params, start=start, with_bound=False)


@dataclass(frozen=True, slots=True)
class Summary:
    """Over all seeds: mean probabilities of each case, and how often each observation held."""

    seeds: tuple[int, ...]
    means: dict[str, list[dict[str, float | str]]]
    held: dict[str, int]


@dataclass(frozen=True, slots=True)
class AllocationCase:
    """How the workload is drawn, and how the genetic solver is set; None: as it is by default."""

    setting: Setting = field(default_factory=Setting)
    params: genetic.GeneticParams | None = None


def play(case: AllocationCase, seed: int) -> SeedOutcome:
    """One trial."""
    return run_seed(seed, case.setting, case.params)


def allocation_trials(case: AllocationCase | None = None) -> Experiment[AllocationCase, SeedOutcome]:
    """The experiment as trials."""
    return Experiment("allocation", play, {MAIN: case or AllocationCase()}, SeedOutcome)


def run(
    seeds: Sequence[int], setting: Setting | None = None, params: genetic.GeneticParams | None = None
) -> Summary:
    """The experiment over seeds, in this process."""
    trials = allocation_trials(AllocationCase(setting or Setting(), params))
    return summarise(collect(trials, trials.tasks(seeds)).of(MAIN))


def summarise(outcomes: Sequence[SeedOutcome]) -> Summary:
    """Means over all seeds."""
    means: dict[str, list[dict[str, float | str]]] = {}
    for test in (kind.value for kind in Correlation):
        rows = list(zip(*(outcome.tests[test] for outcome in outcomes), strict=True))
        means[test] = [
            {
                "start": row[0].quality,
                "round_robin": float(np.mean([s.round_robin for s in row])),
                "genetic": float(np.mean([s.genetic for s in row])),
                "search": float(np.mean([s.search for s in row])),
                "improvement": float(np.mean([s.improvement for s in row])),
            }
            for row in rows
        ]
    findings = [outcome.findings() for outcome in outcomes]
    held = {name: sum(f[name] for f in findings) for name in findings[0]}
    return Summary(tuple(outcome.seed for outcome in outcomes), means, held)
