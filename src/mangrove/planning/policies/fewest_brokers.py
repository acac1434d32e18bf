"""The fewest brokers that keep the constraints: what low load allows to switch off (thesis §4.3.1)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import islice

from mangrove.model.topics import Mirror
from mangrove.planning.policies.placement import Placement, Placer
from mangrove.planning.problem.problem import Problem

# Sets of brokers tried at one count when looking for the fewest that suffice.
MAX_TRIES = 64


def fewest_brokers(
    problem: Problem,
    alive: list[int],
    pinned: dict[int, int],
    placer: Placer,
    kept: Collection[int] = (),
) -> tuple[Placement, bool]:
    """The smallest set of brokers that keeps the constraints, mirrors included; True when no smaller one can.

    Brokers with pinned items, and those in `kept`, stay on. Where items ask for mirrors, so many brokers stay
    on that each can have one. Without an answer at any size it is the placement of all brokers.
    """
    needed = set(pinned.values()) | set(kept)
    reach = problem.utilisation_threshold * problem.best_capacity_msg_s
    total = float(problem.mean_rate_msg_s.sum())
    # A broker whose mean exceeds its reach is overloaded more often than not.
    strict = bool((problem.constraints.max_risk < 0.5).all())
    apart = bool(problem.asking(Mirror.STANDBY, Mirror.BOTH)) and len(alive) > 1
    side = dict(zip(alive, problem.with_brokers(alive, pinned).groups(), strict=True))
    sides = 2 if apart else 1
    certain = True
    for count in range(max(1, len(needed), sides), len(alive) + 1):
        every = _sets(problem, alive, pinned, needed, side if apart else {}, count)
        groups = list(islice(every, MAX_TRIES + 1))
        certain = certain and len(groups) <= MAX_TRIES
        for group in groups[:MAX_TRIES]:
            if not needed <= set(group) or (strict and float(reach[group].sum()) < total):
                continue
            if len({side[broker] for broker in group}) < sides:
                continue
            placement = placer.carry(problem.with_brokers(group, pinned))
            if placement.together.feasible:
                return placer.stand_by(placement), certain
            certain = certain and placement.together.infeasibility_proven
    return placer.place(problem.with_brokers(alive, pinned)), False


def _sets(
    problem: Problem,
    alive: list[int],
    pinned: dict[int, int],
    needed: Collection[int],
    side: Mapping[int, int],
    count: int,
) -> Iterator[list[int]]:
    """Sets of `count` brokers, one of each kind of equal sets, those with the largest brokers first.

    Equal brokers are not the same thing where one of them must stay, or where they are on different sides.
    """
    within = problem.with_brokers(alive, pinned)
    several = len(set(side.values())) < len(side)
    members: dict[tuple[int, int, int], list[int]] = {}
    for broker, kind in zip(alive, within.broker_classes(), strict=True):
        where = side[broker] if several else 0
        members.setdefault((int(kind), where, broker if broker in needed else -1), []).append(broker)
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
