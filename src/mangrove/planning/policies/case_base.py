"""Policies computed before they are needed: the case base (thesis §4.3.1).

A case is an allocation for one state of the domain: which brokers are down, and how high the load is. The
states are the normal one, every single and every double failure, and low loads, at which the fewest brokers
that keep the risk bound stay on. Each case is computed by a plain function of plain arguments, so that any
`map`, of a process pool or of a cluster, can spread the work.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from functools import partial
from itertools import combinations, islice
from typing import Any

import msgspec
import numpy as np

from mangrove.errors import InputError
from mangrove.planning.judgement.result import Result
from mangrove.planning.problem.problem import Problem
from mangrove.planning.solvers.registry import SolverName, best_effort, solve
from mangrove.planning.solvers.stop import Never, Stop

FORMAT_VERSION = 2
# Shares of the load for which a policy with fewer brokers is worth having, where none are named.
LOW_LOADS = (0.25, 0.5, 0.75)
# Sets of brokers tried at one count when looking for the fewest that suffice.
MAX_TRIES = 64


class CaseKind(Enum):
    """Why a state is in the case base."""

    NORMAL = "normal"
    SINGLE_FAILURE = "single-failure"
    DOUBLE_FAILURE = "double-failure"
    HOST_FAILURE = "host-failure"
    LOW_LOAD = "low-load"


class State(msgspec.Struct, frozen=True):
    """Brokers that have failed, and the load as a multiple of the problem's rates."""

    kind: CaseKind
    failed: tuple[str, ...] = ()
    load: float = 1.0


class Case(msgspec.Struct, frozen=True):
    """The policy for a state. `off` lists working brokers that the policy leaves without items."""

    state: State
    off: tuple[str, ...]
    allocation: dict[str, list[str]]
    risk: dict[str, float]
    joint_ok: float
    feasible: bool
    reason: str | None
    solver: str
    proven: bool
    """The allocation is optimal; for a low load also that fewer brokers cannot keep the bounds."""
    released_pins: tuple[str, ...]
    """Items pinned to a failed broker, which had to go elsewhere."""
    seed: int
    mirrors: dict[str, str] = {}
    """Item → mirror, for items that ask for one."""
    unmirrored: tuple[str, ...] = ()
    """Items that ask for a mirror and have none: nothing is left to put it on."""
    continued: tuple[str, ...] = ()
    """Items whose primary has failed and whose mirror has taken its place."""

    @property
    def unavailable(self) -> frozenset[str]:
        """Brokers that the policy does not need."""
        return frozenset(self.state.failed) | frozenset(self.off)


class CaseBase(msgspec.Struct, frozen=True):
    """All cases of one problem. `problem` is its digest: a case base serves no other."""

    version: int
    problem: str
    brokers: tuple[str, ...]
    items: tuple[str, ...]
    cases: tuple[Case, ...]

    def retrieve(self, failed: Iterable[str], load: float = 1.0) -> Retrieval | None:
        """The case of the state, or else the nearest one that covers it.

        A case covers a state when its policy needs no broker that has failed and was made for at least this
        load. Nearest: keeps its constraints, then leaves the fewest working brokers unused, then is made for
        the least excess of load. None when nothing covers the state (three failures, or a higher load).
        """
        down = frozenset(failed)
        if unknown := sorted(down - set(self.brokers)):
            raise InputError(f"failed: there is no broker {', '.join(unknown)}")
        for case in self.cases:
            if frozenset(case.state.failed) == down and case.state.load == load:
                return Retrieval(case, exact=True)
        covering = [case for case in self.cases if case.unavailable >= down and case.state.load >= load]
        if not covering:
            return None
        nearest = min(
            covering, key=lambda c: (not c.feasible, len(c.unavailable - down), c.state.load - load)
        )
        return Retrieval(nearest, exact=False)


class Retrieval(msgspec.Struct, frozen=True):
    """A case, and whether it was made for exactly the state asked for."""

    case: Case
    exact: bool


def digest(problem: Problem) -> str:
    """Fingerprint of everything that decides an allocation."""
    sha = hashlib.sha256()
    bounds = problem.constraints
    arrays = [problem.mean_rate_msg_s, problem.covariance, problem.replication, problem.volume]
    arrays += [problem.reward, problem.penalty, bounds.max_risk, bounds.max_items, bounds.max_volume]
    arrays += [a for a in (problem.capacity_msg_s, problem.service_time_s) if a is not None]
    for array in arrays:
        sha.update(np.ascontiguousarray(array).tobytes() + b"|")
    rest = (
        problem.items,
        problem.brokers,
        problem.objective.value,
        problem.penalty_per_message,
        problem.utilisation_threshold,
        bounds.max_delay_s,
        bounds.max_replication,
        sorted(bounds.pinned.items()),
        sorted(bounds.forbidden),
    )
    sha.update(repr(rest).encode())
    return sha.hexdigest()


def states(problem: Problem, low_loads: Sequence[float] = (), *, double: bool = True) -> list[State]:
    """The states worth a case. At least one broker must be left."""
    brokers = problem.brokers
    found = [State(CaseKind.NORMAL)]
    if len(brokers) > 1:
        found += [State(CaseKind.SINGLE_FAILURE, (broker,)) for broker in brokers]
    if double and len(brokers) > 2:
        found += [State(CaseKind.DOUBLE_FAILURE, pair) for pair in combinations(brokers, 2)]
    return found + [State(CaseKind.LOW_LOAD, (), load) for load in low_loads]


Mapper = Callable[[Callable[[State], Case], Sequence[State]], Iterable[Case]]


def build(
    problem: Problem,
    wanted: Sequence[State],
    seed: int,
    solver: SolverName = SolverName.AUTO,
    mapper: Mapper = map,
    stop: Stop | None = None,
) -> CaseBase:
    """Compute all cases. `mapper` may be the `map` of a pool of workers: everything passed is plain data."""
    compute = partial(compute_case, problem, seed=seed, solver=solver, stop=stop or Never())
    cases = tuple(mapper(compute, wanted))
    return CaseBase(FORMAT_VERSION, digest(problem), problem.brokers, problem.items, cases)


def compute_case(
    problem: Problem, state: State, *, seed: int, solver: SolverName = SolverName.AUTO, stop: Stop
) -> Case:
    """The policy for one state."""
    failed = {problem.brokers.index(name) for name in state.failed}
    if not failed < set(range(problem.broker_count)):
        raise InputError("failed: at least one broker must be left")
    alive = [broker for broker in range(problem.broker_count) if broker not in failed]
    pinned = problem.constraints.pinned
    holding = {item: broker for item, broker in pinned.items() if broker not in failed}
    released = tuple(problem.items[item] for item in sorted(set(pinned) - set(holding)))
    scaled = problem if state.load == 1.0 else problem.scaled(state.load)
    if state.kind is CaseKind.LOW_LOAD:
        result, fewest = _fewest_brokers(scaled, alive, holding, seed, solver, stop)
    else:
        result, fewest = best_effort(scaled.with_brokers(alive, holding), solver, stop, seed), True
    used = result.problem.brokers
    loads = dict(zip(used, result.assessment.loads, strict=True))
    return Case(
        state=state,
        off=tuple(problem.brokers[b] for b in alive if problem.brokers[b] not in used),
        allocation=result.allocation,
        risk={broker: load.risk for broker, load in loads.items()},
        joint_ok=result.assessment.joint_ok,
        feasible=result.feasible,
        reason=result.reason,
        solver=result.solver,
        proven=result.proven_optimal and fewest,
        released_pins=released,
        seed=seed,
    )


def _fewest_brokers(
    problem: Problem, alive: list[int], pinned: dict[int, int], seed: int, solver: SolverName, stop: Stop
) -> tuple[Result, bool]:
    """The smallest set of brokers that keeps the constraints; True when no smaller one can.

    Without an answer at any size the result is that of all brokers, with its reason.
    """
    needed = set(pinned.values())
    reach = problem.utilisation_threshold * problem.best_capacity_msg_s
    total = float(problem.mean_rate_msg_s.sum())
    # A broker whose mean exceeds its reach is overloaded more often than not.
    strict = bool((problem.constraints.max_risk < 0.5).all())
    certain = True
    for count in range(max(1, len(needed)), len(alive) + 1):
        groups = list(islice(_groups(problem, alive, pinned, count), MAX_TRIES + 1))
        certain = certain and len(groups) <= MAX_TRIES
        for group in groups[:MAX_TRIES]:
            if not needed <= set(group) or (strict and float(reach[group].sum()) < total):
                continue
            result = solve(problem.with_brokers(group, pinned), solver, stop, seed)
            if result.feasible:
                return result, certain
            certain = certain and result.infeasibility_proven
    return best_effort(problem.with_brokers(alive, pinned), solver, stop, seed), False


def _groups(problem: Problem, alive: list[int], pinned: dict[int, int], count: int) -> Iterator[list[int]]:
    """Sets of `count` brokers, one of each kind of equal sets, those with the largest brokers first."""
    classes = problem.with_brokers(alive, pinned).broker_classes()
    members: dict[int, list[int]] = {}
    for broker, kind in zip(alive, classes, strict=True):
        members.setdefault(int(kind), []).append(broker)
    capacity = problem.best_capacity_msg_s
    ordered = sorted(members.values(), key=lambda brokers: -float(capacity[brokers[0]]))

    def choose(position: int, left: int) -> Iterator[list[int]]:
        if left == 0:
            yield []
        elif position < len(ordered):
            here = ordered[position]
            for taken in range(min(len(here), left), -1, -1):
                for rest in choose(position + 1, left - taken):
                    yield here[:taken] + rest

    return choose(0, count)


def encode(base: CaseBase) -> bytes:
    """The case base as JSON."""
    return msgspec.json.encode(base)


def decode(data: bytes) -> CaseBase:
    """Read a case base; refuses other versions and damaged documents."""
    try:
        version = msgspec.json.decode(data, type=_Version).version
        if version != FORMAT_VERSION:
            raise InputError(
                f"version: {version}; this release reads {FORMAT_VERSION}",
                hint="compute it again: mangrove plan cases PROBLEM.json --output CASES.json",
            )
        return msgspec.json.decode(data, type=CaseBase)
    except msgspec.MsgspecError as error:
        raise InputError(f"not a case base: {error}") from error


class _Version(msgspec.Struct):
    version: int


def case_base_document(base: CaseBase) -> dict[str, Any]:
    """The case base as plain data."""
    plain: dict[str, Any] = msgspec.to_builtins(base)
    return plain
