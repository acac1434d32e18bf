"""Genetic algorithm (thesis §4.5.5): the published solver, kept as the reference for `search`.

One gene per item names its broker. Round robin is one individual of the first generation, the others are
random. Single-point crossover; a mutated gene takes a random broker. The fitness is the log of the joint
probability, less ten times what each constraint is missed by. Whole generations are evaluated at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mangrove.errors import InputError
from mangrove.planning.bounds import best_bound
from mangrove.planning.judgement import risk
from mangrove.planning.judgement.feasibility import placements
from mangrove.planning.judgement.result import Result, concluded
from mangrove.planning.judgement.scoring import Scorer
from mangrove.planning.problem.arrays import FloatArray, IntArray
from mangrove.planning.problem.problem import Problem
from mangrove.planning.solvers.round_robin import by_reserve
from mangrove.planning.solvers.stop import Progress, Stop

PENALTY_FACTOR = 10.0


@dataclass(frozen=True, slots=True)
class GeneticParams:
    """`patience`: generations without a better individual before the run ends."""

    population: int = 100
    generations: int = 1000
    patience: int = 200
    crossover: float = 0.9
    mutations_per_child: float = 1.0
    start: tuple[int, ...] | None = None
    with_bound: bool = True


def solve(problem: Problem, stop: Stop, seed: int, params: GeneticParams) -> Result:
    """Best individual of all generations: of those that keep the constraints, if there are any."""
    try:
        from pymoo.algorithms.soo.nonconvex.ga import GA
        from pymoo.core.problem import Problem as PymooProblem
        from pymoo.operators.crossover.pntx import SinglePointCrossover
    except ImportError as error:
        raise InputError(
            "the genetic solver needs the package pymoo", hint="install mangrove-messaging[plan]"
        ) from error

    genome = _Genome(problem)
    evaluation = _Evaluation(problem)
    start = by_reserve(problem, np.arange(problem.item_count)) if params.start is None else params.start
    rng = np.random.default_rng(seed)
    first = rng.integers(0, genome.choices, size=(params.population, problem.item_count))
    first[0] = genome.encode(np.array(start, dtype=np.int64))

    class Allocation(PymooProblem):
        def __init__(self) -> None:
            super().__init__(  # type: ignore[no-untyped-call]
                n_var=problem.item_count,
                n_obj=1,
                xl=np.zeros(problem.item_count),
                xu=genome.choices - 1,
                vtype=int,
            )

        def _evaluate(self, x: Any, out: dict[str, Any], *args: Any, **kwargs: Any) -> None:
            out["F"] = -evaluation.fitness(genome.decode(x.astype(np.int64)))[:, None]

    single_point: Any = SinglePointCrossover(prob=params.crossover)  # type: ignore[no-untyped-call]
    algorithm = GA(  # type: ignore[no-untyped-call]
        pop_size=params.population,
        sampling=first,
        crossover=single_point,
        mutation=_reset_mutation(genome.choices, params.mutations_per_child),
        eliminate_duplicates=False,
    )
    algorithm.setup(Allocation(), termination=("n_gen", params.generations), seed=seed)
    idle = 0
    while algorithm.has_next() and idle < params.patience:
        before = evaluation.best_key
        algorithm.next()
        idle = 0 if evaluation.best_key > before else idle + 1
        score = evaluation.best_key[1] if evaluation.best_key[0] == 0 else -np.inf
        if stop(Progress("genetic", evaluation.generations, score)):
            break
    bound = best_bound.score_bound(problem) if params.with_bound else np.inf
    return concluded(
        problem,
        evaluation.best,
        solver="genetic",
        seed=seed,
        steps=evaluation.generations,
        score_bound=bound,
        infeasible=bound == -np.inf,
    )


class _Genome:
    """Genes count the brokers open to an item, so that every chromosome keeps pins and prohibitions."""

    def __init__(self, problem: Problem) -> None:
        open_ = placements(problem).open
        self.choices: IntArray = open_.sum(axis=1)
        # Row i: the open brokers of item i, in order, then the closed ones.
        self._brokers = np.argsort(~open_, axis=1, kind="stable")
        self._ranks = np.argsort(self._brokers, axis=1)
        self._rows = np.arange(problem.item_count)

    def decode(self, genes: IntArray) -> IntArray:
        return np.asarray(self._brokers[self._rows, genes], dtype=np.int64)

    def encode(self, assignment: IntArray) -> IntArray:
        return np.asarray(self._ranks[self._rows, assignment], dtype=np.int64)


class _Evaluation:
    """Fitness of generations, and the best allocation met."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.scorer = Scorer(problem)
        self.generations = 0
        self.best: IntArray = np.zeros(problem.item_count, dtype=np.int64)
        self.best_key = (-np.inf, -np.inf)

    def fitness(self, assignments: IntArray) -> FloatArray:
        problem, scorer = self.problem, self.scorer
        worth = np.zeros(len(assignments))
        penalty = np.zeros(len(assignments))
        violation = np.zeros(len(assignments))
        for broker in range(problem.broker_count):
            on = (assignments == broker).astype(np.float64)
            variance = np.einsum("pi,pi->p", on @ problem.covariance, on)
            sums = scorer.features[:, broker, :] @ on.T
            worth += scorer.score(broker, sums, variance)
            if scorer.constrained:
                z = scorer.margin(broker, sums, variance)
                missed = np.exp(risk.log_risk(z)) - problem.constraints.max_risk[broker]
                penalty += np.maximum(missed, 0.0) + scorer.other_violation(broker, sums)
                violation += scorer.violation(broker, sums, variance)
        key = np.lexsort((worth, -violation))[-1]
        if (-violation[key], worth[key]) > self.best_key:
            self.best_key = (-float(violation[key]), float(worth[key]))
            self.best = assignments[key].copy()
        self.generations += 1
        return np.asarray(worth - PENALTY_FACTOR * penalty, dtype=np.float64)


def _reset_mutation(choices: IntArray, per_child: float) -> Any:
    """A mutated gene takes a random open broker; about `per_child` genes of a child mutate."""
    from pymoo.core.mutation import Mutation

    class ResetMutation(Mutation):
        def _do(  # type: ignore[override]
            self,
            problem: Any,
            X: Any,  # noqa: N803
            *args: Any,
            random_state: Any = None,
            **kwargs: Any,
        ) -> Any:
            fresh = random_state.integers(0, choices, size=X.shape)
            hit = random_state.random(X.shape) < min(1.0, per_child / X.shape[1])
            return np.where(hit, fresh, X)

    return ResetMutation(prob=1.0)
