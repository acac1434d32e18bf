"""Allocation solvers side by side: search against genetic, proofs by exact, and a large problem.

Times are of one process on one core, taken in one run; the ratios are what counts. Generated workloads of
the published experiment (mixed correlations), from the seed.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

RACES = ((100, 3), (400, 10))
LARGE = (2000, 40)
PROOF = (12, 4)
MIN_SPEEDUP = 10.0
MAX_LARGE_S = 20.0
MAX_PROOF_S = 10.0


def run(seed: int, quick: bool) -> dict[str, object]:
    """Measure. `quick` leaves out the 400 × 10 race and takes a large problem of a quarter of the size."""
    # One core: read by the linear algebra library when numpy is first loaded, which is below.
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = "1"
    return {
        "one_core": "numpy" not in sys.modules,
        "races": [_race(items, brokers, seed) for items, brokers in (RACES[:1] if quick else RACES)],
        "large": _large(*((LARGE[0] // 4, LARGE[1] // 4) if quick else LARGE), seed),
        "proof": _proof(*PROOF, seed),
    }


def _problem(items: int, brokers: int, seed: int) -> Any:
    from mangrove.evaluation.allocation import Correlation, Setting, generate

    return generate(seed, Correlation.MIXED, Setting(items=items, brokers=brokers))


def _race(items: int, brokers: int, seed: int) -> dict[str, Any]:
    """Genetic to its own end; then search until it is at least as good, and search to its own end."""
    from mangrove.planning.solvers import genetic, search
    from mangrove.planning.solvers.stop import Never, Progress

    problem = _problem(items, brokers, seed)
    # The first call of each loads and warms what it needs.
    genetic.solve(problem, Never(), seed, genetic.GeneticParams(generations=2, with_bound=False))
    search.solve(problem, Never(), seed, search.SearchParams(rounds=1, with_bound=False))
    started = time.perf_counter()
    evolved = genetic.solve(problem, Never(), seed, genetic.GeneticParams(with_bound=False))
    genetic_s = time.perf_counter() - started
    params = search.SearchParams(with_bound=False)

    def as_good(progress: Progress) -> bool:
        return progress.score >= evolved.assessment.score

    started = time.perf_counter()
    matched = search.solve(problem, as_good, seed, params)
    search_s = time.perf_counter() - started
    started = time.perf_counter()
    full = search.solve(problem, Never(), seed, params)
    full_s = time.perf_counter() - started
    return {
        "items": items,
        "brokers": brokers,
        "genetic_joint_ok": evolved.assessment.joint_ok,
        "genetic_s": genetic_s,
        "search_joint_ok": matched.assessment.joint_ok,
        "search_s": search_s,
        "speedup": genetic_s / search_s,
        "search_full_joint_ok": full.assessment.joint_ok,
        "search_full_s": full_s,
    }


def _large(items: int, brokers: int, seed: int) -> dict[str, Any]:
    from mangrove.planning.solvers import search
    from mangrove.planning.solvers.registry import SolverName, solve
    from mangrove.planning.solvers.stop import Never

    problem = _problem(items, brokers, seed)
    started = time.perf_counter()
    result = solve(problem, SolverName.SEARCH, Never(), seed, search.SearchParams())
    seconds = time.perf_counter() - started
    baseline = solve(problem, SolverName.ROUND_ROBIN, Never(), seed)
    return {
        "items": items,
        "brokers": brokers,
        "seconds": seconds,
        "joint_ok": result.assessment.joint_ok,
        "bound": result.bound,
        "round_robin_joint_ok": baseline.assessment.joint_ok,
    }


def _proof(items: int, brokers: int, seed: int) -> dict[str, Any]:
    """Exact on equal and on unequal brokers, where no symmetry helps."""
    from dataclasses import replace

    import numpy as np

    from mangrove.planning.solvers.registry import SolverName, solve
    from mangrove.planning.solvers.stop import Never

    outcome: dict[str, Any] = {"items": items, "brokers": brokers}
    equal = _problem(items, brokers, seed)
    unequal = replace(equal, service_time_s=equal.service_time_s * np.linspace(0.8, 1.2, brokers)[:, None])
    for name, problem in (("equal", equal), ("unequal", unequal)):
        started = time.perf_counter()
        result = solve(problem, SolverName.EXACT, Never(), seed)
        outcome[name] = {
            "seconds": time.perf_counter() - started,
            "proven_optimal": result.proven_optimal,
            "joint_ok": result.assessment.joint_ok,
            "nodes": result.steps,
        }
    return outcome


def missed(result: dict[str, Any]) -> list[str]:
    """Bars that were not reached."""
    lines: list[str] = []
    for race in result["races"]:
        size = f"{race['items']} x {race['brokers']}"
        if race["search_joint_ok"] < race["genetic_joint_ok"]:
            lines.append(f"{size}: search did not reach the joint probability of genetic")
        if race["speedup"] < MIN_SPEEDUP:
            lines.append(
                f"{size}: search was {race['speedup']:.1f} times as fast, the bar is {MIN_SPEEDUP:g}"
            )
    large = result["large"]
    if large["seconds"] >= MAX_LARGE_S:
        lines.append(f"large: {large['seconds']:.1f} s, the bar is {MAX_LARGE_S:g} s")
    for name in ("equal", "unequal"):
        proof = result["proof"][name]
        if not proof["proven_optimal"] or proof["seconds"] >= MAX_PROOF_S:
            lines.append(f"exact, {name} brokers: not proven in {MAX_PROOF_S:g} s")
    return lines


def render(result: dict[str, Any], console: Console) -> None:
    """Show the measurements."""
    from mangrove.cli.tables.table import Table, number_column

    headings = ("size", "genetic", "in s", "search", "in s", "times as fast", "search to its end", "in s")
    table = Table("search against genetic", *map(number_column, headings))
    for race in result["races"]:
        table.add(
            f"{race['items']} x {race['brokers']}",
            f"{race['genetic_joint_ok']:.6f}",
            f"{race['genetic_s']:.2f}",
            f"{race['search_joint_ok']:.6f}",
            f"{race['search_s']:.3f}",
            f"{race['speedup']:.0f}",
            f"{race['search_full_joint_ok']:.6f}",
            f"{race['search_full_s']:.2f}",
        )
    table.show(console)
    large = result["large"]
    console.print(
        f"{large['items']} x {large['brokers']}: {large['joint_ok']:.6f} in {large['seconds']:.2f} s, "
        f"bound {large['bound']:.6f}, round robin {large['round_robin_joint_ok']:.6f}"
    )
    for name in ("equal", "unequal"):
        proof = result["proof"][name]
        console.print(
            f"exact, {result['proof']['items']} x {result['proof']['brokers']} {name} brokers: "
            f"{'proven' if proof['proven_optimal'] else 'not proven'} in {proof['seconds']:.2f} s, "
            f"{proof['nodes']} nodes"
        )
