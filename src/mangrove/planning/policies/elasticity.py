"""Whether a domain has more brokers than its load needs, or fewer (thesis §3.3.3).

Pure questions about one moment. When to act on an answer, and how long it must have been the same, is the
caller's affair.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from mangrove.errors import InputError
from mangrove.planning.policies.fewest_brokers import fewest_brokers
from mangrove.planning.policies.placement import Placement, Placer
from mangrove.planning.problem.problem import Problem


@dataclass(frozen=True, slots=True)
class Spare:
    """Brokers that can be switched off, and where everything is then; none when the bounds need them all."""

    off: tuple[str, ...]
    placement: Placement
    certain: bool
    """Whether no smaller set of brokers would do."""


@dataclass(frozen=True, slots=True)
class Growth:
    """Brokers to add so that the bounds are kept; `enough` is False when not even all of them do."""

    added: tuple[str, ...]
    placement: Placement
    enough: bool

    @property
    def reason(self) -> str:
        """Which bounds are broken even so; empty when none is."""
        return self.placement.together.reason or ""


def spare_brokers(problem: Problem, placer: Placer, kept: Collection[str] = ()) -> Spare:
    """The most brokers that can be off at the problem's load while the bounds hold.

    Brokers in `kept` stay on, as do those with pinned items; items that ask keep a mirror apart.
    """
    _require_bounds(problem)
    if unknown := sorted(set(kept) - set(problem.brokers)):
        raise InputError(f"kept: there is no broker {', '.join(unknown)}")
    stay_on = [problem.brokers.index(name) for name in kept]
    alive = list(range(problem.broker_count))
    placement, certain = fewest_brokers(problem, alive, dict(problem.constraints.pinned), placer, stay_on)
    used = set(placement.problem.brokers)
    off = tuple(name for name in problem.brokers if name not in used)
    return Spare(off, placement, certain and placement.together.feasible)


def brokers_wanted(
    problem: Problem, placer: Placer, like: str, names: Collection[str], host: str = ""
) -> Growth:
    """How many of the brokers `names`, each equal to `like`, must be added for the bounds to hold.

    They are added in their order, one by one. None is when the brokers at hand do; `host` is where they would
    run (that of `like` unless said).
    """
    _require_bounds(problem)
    if like not in problem.brokers:
        raise InputError(f"like: there is no broker {like!r}")
    added: list[str] = []
    placement = placer.place(problem)
    for name in names:
        if placement.together.feasible:
            break
        added.append(name)
        placement = placer.place(with_brokers_added(problem, like, added, host))
    return Growth(tuple(added), placement, placement.together.feasible)


def with_brokers_added(problem: Problem, like: str, names: Collection[str], host: str = "") -> Problem:
    """The problem with further brokers, all equal to `like` in capacity, bounds and what is forbidden."""
    if clash := sorted(set(names) & set(problem.brokers)):
        raise InputError(f"there is a broker {', '.join(clash)} already")
    model = problem.brokers.index(like)
    rows = np.concatenate([np.arange(problem.broker_count), np.full(len(names), model, dtype=np.int64)])
    bounds = problem.constraints
    new = range(problem.broker_count, problem.broker_count + len(names))
    barred = {(item, each) for item, broker in bounds.forbidden if broker == model for each in new}
    hosts = problem.hosts + (host or problem.hosts[model],) * len(names) if problem.hosts else ()
    return replace(
        problem,
        brokers=problem.brokers + tuple(names),
        capacity_msg_s=None if problem.capacity_msg_s is None else problem.capacity_msg_s[rows],
        service_time_s=None if problem.service_time_s is None else problem.service_time_s[rows],
        hosts=hosts,
        constraints=replace(
            bounds,
            max_risk=bounds.max_risk[rows],
            max_items=bounds.max_items[rows],
            max_volume=bounds.max_volume[rows],
            forbidden=bounds.forbidden | barred,
        ),
    )


def _require_bounds(problem: Problem) -> None:
    if not problem.constraints.bind_brokers:
        raise InputError(
            "constraints: nothing says how few brokers do", hint="set constraints.max_risk in the problem"
        )
