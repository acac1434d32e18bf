"""One way to call every solver, and the choice between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from typing import Any

import numpy as np

from mangrove.errors import InputError
from mangrove.planning.judgement.result import Result, concluded
from mangrove.planning.problem.problem import Problem
from mangrove.planning.solvers import exact, genetic, round_robin, search, tie_break
from mangrove.planning.solvers.stop import Stop

# Up to here `auto` tries to prove the optimum, within a number of nodes that takes some seconds.
AUTO_EXACT_ITEMS = 14
AUTO_EXACT_NODES = 400_000


class SolverName(Enum):
    """Solvers by the names of the command line."""

    AUTO = "auto"
    EXACT = "exact"
    GENETIC = "genetic"
    SEARCH = "search"
    ROUND_ROBIN = "round-robin"
    CYCLIC = "cyclic"


BASELINES = frozenset({SolverName.ROUND_ROBIN, SolverName.CYCLIC})


def solve(problem: Problem, solver: SolverName, stop: Stop, seed: int, params: Any = None) -> Result:
    """Solve with the named solver; `params` is its own parameter object, or None for the defaults.

    Among allocations that tie in the objective one whose largest risk is least is looked for, whatever the
    solver (`tie_break`); only round robin is left as it is, since it is what others are compared with.
    """
    if problem.scenarios is not None:
        return _by_scenarios(problem, solver, stop, seed, params)
    if solver is SolverName.AUTO:
        result = _auto(problem, stop, seed)
    else:
        run, defaults = _SOLVERS[solver]
        result = run(problem, stop, seed, defaults if params is None else params)
    return result if solver in BASELINES else tie_break.settled(result, stop)


def best_effort(problem: Problem, solver: SolverName, stop: Stop, seed: int, params: Any = None) -> Result:
    """Solve; when the risk bounds cannot be kept, the least total risk under all other constraints.

    For states that must be lived with, such as a failure: the result still says what it breaks, but its
    allocation is the one to run, where the closest to the bounds could sacrifice one broker for another.
    """
    result = solve(problem, solver, stop, seed, params)
    bounds = problem.constraints
    if result.feasible or not (bounds.max_risk < 1).any():
        return result
    unbounded = replace(problem, constraints=replace(bounds, max_risk=np.ones(problem.broker_count)))
    least = solve(unbounded, solver, stop, seed, params)
    if not least.feasible:
        return result
    return concluded(
        problem,
        least.assignment,
        solver=least.solver,
        seed=seed,
        steps=result.steps + least.steps,
        score_bound=-np.inf,
        infeasible=result.infeasibility_proven,
    )


def _by_scenarios(problem: Problem, solver: SolverName, stop: Stop, seed: int, params: Any) -> Result:
    """Tails are continuous and never end, so there are no ties to settle."""
    if solver not in (*BASELINES, SolverName.SEARCH, SolverName.AUTO):
        raise InputError(
            f"the solver {solver.value} knows the normal model alone, not scenarios",
            hint="use --solver search with --risk empirical",
        )
    run, defaults = _SOLVERS[SolverName.SEARCH if solver is SolverName.AUTO else solver]
    if solver in BASELINES and params is None:
        defaults = replace(defaults, with_bound=False)
    return run(problem, stop, seed, defaults if params is None else params)


def _auto(problem: Problem, stop: Stop, seed: int) -> Result:
    """`exact` where it can be expected to finish, else `search`; the result names the one that answered.

    An unfinished `exact` leaves its bound behind: it is better than the one `search` would report.
    """
    free = int((problem.allowed().sum(axis=1) > 1).sum())
    if free > AUTO_EXACT_ITEMS:
        return search.solve(problem, stop, seed, search.SearchParams())
    proof = exact.solve(problem, stop, seed, exact.ExactParams(max_nodes=AUTO_EXACT_NODES))
    if proof.proven_optimal or proof.infeasibility_proven:
        return proof
    found = search.solve(problem, stop, seed, search.SearchParams(start=proof.assignment))
    return replace(found, bound=min(found.bound, proof.bound))


Solver = Callable[[Problem, Stop, int, Any], Result]

_SOLVERS: dict[SolverName, tuple[Solver, Any]] = {
    SolverName.EXACT: (exact.solve, exact.ExactParams()),
    SolverName.GENETIC: (genetic.solve, genetic.GeneticParams()),
    SolverName.SEARCH: (search.solve, search.SearchParams()),
    SolverName.ROUND_ROBIN: (round_robin.solve, round_robin.RoundRobinParams()),
    SolverName.CYCLIC: (round_robin.solve, round_robin.RoundRobinParams(cyclic=True)),
}
