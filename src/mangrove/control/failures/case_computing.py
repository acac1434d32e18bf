"""Computes the case of a state that nobody prepared (GEMOM §III): by `search`, within a bounded time.

Loads numerics: the agent's shell imports this in the thread in which it is called, and nowhere else.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mangrove.control.plans.figures import problem_of
from mangrove.errors import InputError
from mangrove.model.plans.case_request import CaseRequest
from mangrove.model.plans.plan import PlanCase
from mangrove.model.topics import Mirror
from mangrove.planning.policies.case_base import Case, CaseKind, State, compute_case
from mangrove.planning.policies.plan_building import plan_case
from mangrove.planning.problem.problem import AllocationConstraints, Problem
from mangrove.planning.solvers.registry import SolverName
from mangrove.planning.solvers.stop import Stop

VARIATION = 0.25
"""Standard deviation by mean of a topic's rate, where only the mean was measured."""
KINDS = {1: CaseKind.SINGLE_FAILURE, 2: CaseKind.DOUBLE_FAILURE}
SEED = 1


def computed(request: CaseRequest, stop: Stop) -> PlanCase:
    """What was in force goes on where it can; mirrors of what failed take its place. Raises `InputError`."""
    problem = _problem(request)
    failed = tuple(broker for broker in request.failed if broker in problem.brokers)
    state = State(KINDS.get(len(failed), CaseKind.DOUBLE_FAILURE), failed)
    case = compute_case(
        problem,
        state,
        seed=SEED,
        solver=SolverName.SEARCH,
        stop=stop,
        before=_before(request, problem),
        stay=True,
    )
    return plan_case(case)


def _problem(request: CaseRequest) -> Problem:
    modes = set(request.mirrored)
    if request.figures is not None:
        problem = problem_of(request.figures)
        if set(problem.brokers) != set(request.brokers):
            raise InputError("figures: they are about other brokers")
    else:
        rates = np.array(list(request.rates_msg_s.values()), dtype=np.float64)
        if not rates.size:
            raise InputError("rates: nothing was measured")
        problem = Problem(
            items=tuple(request.rates_msg_s),
            brokers=request.brokers,
            mean_rate_msg_s=rates,
            covariance=np.diag((VARIATION * rates) ** 2 + rates),
            capacity_msg_s=np.array(request.capacities_msg_s, dtype=np.float64),
            service_time_s=None,
            replication=np.zeros(rates.size),
            volume=rates,
            reward=rates,
            penalty=rates,
            constraints=AllocationConstraints.none(len(request.brokers)),
        )
    hosts = dict(zip(request.brokers, request.hosts, strict=True))
    return replace(
        problem,
        mirrored=tuple(Mirror.BOTH if item in modes else Mirror.NONE for item in problem.items),
        hosts=tuple(hosts[broker] for broker in problem.brokers),
    )


def _before(request: CaseRequest, problem: Problem) -> Case | None:
    """What was in force, if it places every item."""
    placed = {item: request.before.get(item) for item in problem.items}
    if any(placing is None or placing.primary not in problem.brokers for placing in placed.values()):
        return None
    allocation: dict[str, list[str]] = {broker: [] for broker in problem.brokers}
    mirrors: dict[str, str] = {}
    for item, placing in placed.items():
        assert placing is not None
        allocation[placing.primary].append(item)
        if placing.mirror in problem.brokers:
            mirrors[item] = placing.mirror
    return Case(
        state=State(CaseKind.NORMAL),
        off=(),
        allocation=allocation,
        risk={},
        joint_ok=1.0,
        feasible=True,
        reason=None,
        solver="",
        proven=False,
        released_pins=(),
        seed=SEED,
        mirrors=mirrors,
    )
