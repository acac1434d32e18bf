"""Policies computed before they are needed: the case base (thesis §4.3.1).

A case is an allocation for one state of the domain: which brokers are down, and how high the load is; with
mirrors for the items that ask. The states are the normal one, every single and every double failure, the
failure of every host, and low loads, at which the fewest brokers that keep the risk bound stay on. Each case
is computed by a plain function of plain arguments, so that any `map`, of a process pool or of a cluster, can
spread the work.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from functools import partial
from itertools import combinations
from typing import Any

import msgspec
import numpy as np

from mangrove.errors import InputError
from mangrove.model.topics import Mirror
from mangrove.planning.policies.continuity import Keeping, keep_what_can_be
from mangrove.planning.policies.fewest_brokers import fewest_brokers
from mangrove.planning.policies.placement import Placer
from mangrove.planning.problem.problem import Problem
from mangrove.planning.solvers.registry import SolverName
from mangrove.planning.solvers.stop import Never, Stop

FORMAT_VERSION = 2
# Shares of the load for which a policy with fewer brokers is worth having, where none are named.
LOW_LOADS = (0.25, 0.5, 0.75)


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
        [mode.value for mode in problem.mirrored],
        problem.hosts,
    )
    sha.update(repr(rest).encode())
    return sha.hexdigest()


def states(problem: Problem, low_loads: Sequence[float] = (), *, double: bool = True) -> list[State]:
    """The states worth a case, each once. At least one broker must be left."""
    brokers = problem.brokers
    wanted = [State(CaseKind.NORMAL)]
    wanted += [State(CaseKind.SINGLE_FAILURE, (broker,)) for broker in brokers]
    if len(set(problem.hosts)) > 1:
        wanted += [State(CaseKind.HOST_FAILURE, members) for members in _hosts(problem)]
    if double:
        wanted += [State(CaseKind.DOUBLE_FAILURE, pair) for pair in combinations(brokers, 2)]
    found: dict[frozenset[str], State] = {}
    for state in wanted:
        if len(state.failed) < len(brokers):
            found.setdefault(frozenset(state.failed), state)
    return [*found.values(), *(State(CaseKind.LOW_LOAD, (), load) for load in low_loads)]


def _hosts(problem: Problem) -> list[tuple[str, ...]]:
    """The brokers of each host."""
    members: dict[str, list[str]] = {}
    for broker, host in zip(problem.brokers, problem.hosts, strict=True):
        members.setdefault(host, []).append(broker)
    return [tuple(each) for each in members.values()]


Mapper = Callable[[Callable[[State], Case], Sequence[State]], Iterable[Case]]


def build(
    problem: Problem,
    wanted: Sequence[State],
    seed: int,
    solver: SolverName = SolverName.AUTO,
    mapper: Mapper = map,
    stop: Stop | None = None,
    *,
    stay: bool = False,
) -> CaseBase:
    """Compute all cases. `mapper` may be the `map` of a pool of workers: everything passed is plain data.

    The case of the normal state comes first where others begin with it: see `compute_case`.
    """
    compute = partial(compute_case, problem, seed=seed, solver=solver, stop=stop or Never(), stay=stay)
    if stay or problem.asking(Mirror.STANDBY, Mirror.BOTH):
        normal = compute(State(CaseKind.NORMAL))
        rest = [state for state in wanted if state.kind is not CaseKind.NORMAL]
        others = iter(tuple(mapper(partial(compute, before=normal), rest)))
        cases = tuple(normal if state.kind is CaseKind.NORMAL else next(others) for state in wanted)
    else:
        cases = tuple(mapper(compute, wanted))
    return CaseBase(FORMAT_VERSION, digest(problem), problem.brokers, problem.items, cases)


def compute_case(
    problem: Problem,
    state: State,
    *,
    seed: int,
    solver: SolverName = SolverName.AUTO,
    stop: Stop,
    before: Case | None = None,
    stay: bool = False,
    quick: bool = False,
) -> Case:
    """The policy for one state; `quick` where a decision waits for it (see `Placer`).

    `before` is what was in force when brokers failed. Mirrors of failed primaries then take their place, and
    with `stay` items on working brokers stay there; both only as long as the constraints can be kept so.
    """
    failed = {problem.brokers.index(name) for name in state.failed}
    if not failed < set(range(problem.broker_count)):
        raise InputError("failed: at least one broker must be left")
    alive = [broker for broker in range(problem.broker_count) if broker not in failed]
    pinned = problem.constraints.pinned
    holding = {item: broker for item, broker in pinned.items() if broker not in failed}
    released = tuple(problem.items[item] for item in sorted(set(pinned) - set(holding)))
    scaled = problem if state.load == 1.0 else problem.scaled(state.load)
    placer = Placer(solver, stop, seed, quick)
    keeping = (
        Keeping(problem, before.allocation, before.mirrors, failed) if before is not None and failed else None
    )
    if state.kind is CaseKind.LOW_LOAD:
        placement, proven = fewest_brokers(scaled, alive, holding, placer)
    else:
        placement, proven = keep_what_can_be(scaled, alive, holding, placer, keeping, stay=stay)
    together = placement.together
    used = placement.problem.brokers
    return Case(
        state=state,
        off=tuple(problem.brokers[b] for b in alive if problem.brokers[b] not in used),
        allocation=placement.alone.allocation,
        risk={broker: load.risk for broker, load in zip(used, together.assessment.loads, strict=True)},
        joint_ok=together.assessment.joint_ok,
        feasible=together.feasible,
        reason=together.reason,
        solver=together.solver,
        proven=together.proven_optimal and proven,
        released_pins=released,
        seed=seed,
        mirrors=placement.mirror_names,
        unmirrored=placement.unmirrored,
        continued=() if keeping is None else keeping.continued(placement.alone.allocation),
    )


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
