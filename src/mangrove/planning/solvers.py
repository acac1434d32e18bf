"""One way to call every solver, and the choice between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from typing import Any

from mangrove.planning import exact, genetic, round_robin, search
from mangrove.planning.problem import Problem
from mangrove.planning.result import Result
from mangrove.planning.stop import Stop

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


def solve(problem: Problem, solver: SolverName, stop: Stop, seed: int, params: Any = None) -> Result:
    """Solve with the named solver; `params` is its own parameter object, or None for the defaults."""
    if solver is SolverName.AUTO:
        return _auto(problem, stop, seed)
    run, defaults = _SOLVERS[solver]
    return run(problem, stop, seed, defaults if params is None else params)


def _auto(problem: Problem, stop: Stop, seed: int) -> Result:
    """`exact` where it can be expected to finish, else `search`; the result names the one that answered.

    An unfinished `exact` leaves its bound behind: it is better than the one `search` would report.
    """
    free = int((problem.allowed().sum(axis=1) > 1).sum())
    if free > AUTO_EXACT_ITEMS:
        return solve(problem, SolverName.SEARCH, stop, seed)
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
