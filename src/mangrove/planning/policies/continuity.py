"""What a failure need not change: those who were served by a mirror, or by a broker that still works."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from mangrove.planning.policies.placement import Placement, Placer
from mangrove.planning.problem.problem import Problem

# Share of the probability that all brokers are fine which continuity may cost where bounds are broken anyway.
NEXT_TO_NOTHING = 0.01


class Keeping:
    """What a failure need not change: mirrors that take over, and items on brokers that still work."""

    def __init__(
        self,
        problem: Problem,
        allocation: Mapping[str, Sequence[str]],
        mirrors: Mapping[str, str],
        failed: Collection[int],
    ) -> None:
        self.problem = problem
        position = {name: index for index, name in enumerate(problem.brokers)}
        items = {name: index for index, name in enumerate(problem.items)}
        self.staying: dict[int, int] = {}
        self.taking_over: dict[int, int] = {}
        for broker, members in allocation.items():
            for item in members:
                mirror = position.get(mirrors.get(item, ""))
                if item not in items or broker not in position:
                    continue
                if position[broker] not in failed:
                    self.staying[items[item]] = position[broker]
                elif mirror is not None and mirror not in failed:
                    self.taking_over[items[item]] = mirror

    def continued(self, allocation: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
        """Items that are served where their mirror was."""
        where = {item: broker for broker, members in allocation.items() for item in members}
        return tuple(
            name
            for index, name in enumerate(self.problem.items)
            if index in self.taking_over and where[name] == self.problem.brokers[self.taking_over[index]]
        )


def keep_what_can_be(
    problem: Problem,
    alive: list[int],
    holding: dict[int, int],
    placer: Placer,
    keeping: Keeping | None,
    *,
    stay: bool,
) -> tuple[Placement, bool]:
    """The placement that keeps most among those that keep the constraints; True if it is bound by nothing.

    When none keeps the constraints it is the one with the least risk, whatever has to move for it; unless
    mirrors can take over at next to no more risk.
    """
    wishes: list[dict[int, int]] = []
    if keeping is not None:
        wishes += [keeping.staying | keeping.taking_over] if stay else []
        wishes += [keeping.taking_over] if keeping.taking_over else []
    for wish in wishes:
        placement = placer.carry_within_bounds(problem.with_brokers(alive, wish | holding))
        if placement is not None:
            return placer.stand_by(placement), False
    free = placer.carry(problem.with_brokers(alive, holding))
    if free.together.feasible or not wishes:
        return placer.stand_by(free), True
    kept = placer.carry(problem.with_brokers(alive, wishes[-1] | holding))
    least = free.together.assessment.log_joint_ok
    if kept.together.assessment.log_joint_ok >= least - NEXT_TO_NOTHING:
        return placer.stand_by(kept), False
    return placer.stand_by(free), True
