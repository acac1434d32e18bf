"""Primaries and mirrors of one state together (thesis §4.6.1, GEMOM §IV).

Mirrors that are always sent load their brokers now, so they are placed with the primaries: mirrors for given
primaries, then primaries for these mirrors, in turn while it gains. Mirrors that stand by load nothing until
their primary's broker, or its whole host, has failed: they are placed for that state, into the room that is
left there, together with the items that must find another broker then.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mangrove.model.topics import Mirror
from mangrove.planning.judgement.result import Result, concluded
from mangrove.planning.policies.copies import NOWHERE, with_copies
from mangrove.planning.problem.problem import Problem
from mangrove.planning.solvers.registry import SolverName, best_effort
from mangrove.planning.solvers.stop import Stop

# Turns between mirrors and primaries: most of what is gained comes with the first two.
MAX_TURNS = 4
MIN_GAIN = 1e-6


@dataclass(frozen=True, slots=True)
class Placement:
    """Where items and mirrors are, by positions of the problem's brokers.

    `alone` judges the primaries, `together` also the mirrors that are always sent: it has them as items
    behind those of the problem. Without any it is `alone`.
    """

    problem: Problem
    mirrors: tuple[int, ...]
    alone: Result
    together: Result
    outages: dict[int, Result]
    """What is left after the failure of each group of brokers for which mirrors stand by."""

    @property
    def primaries(self) -> tuple[int, ...]:
        return self.alone.assignment

    @property
    def mirror_names(self) -> dict[str, str]:
        """Item → mirror, for items that have one."""
        pairs = zip(self.problem.items, self.mirrors, strict=True)
        return {item: self.problem.brokers[broker] for item, broker in pairs if broker != NOWHERE}

    @property
    def unmirrored(self) -> tuple[str, ...]:
        """Items that ask for a mirror and have none."""
        asking = self.problem.asking(Mirror.STANDBY, Mirror.BOTH)
        return tuple(self.problem.items[item] for item in asking if self.mirrors[item] == NOWHERE)


@dataclass(frozen=True, slots=True)
class Placer:
    """Places with one solver and seed."""

    solver: SolverName
    stop: Stop
    seed: int

    def place(self, problem: Problem, primaries: Sequence[int] | None = None) -> Placement:
        """Primaries (unless given) and mirrors on the brokers of the problem."""
        if primaries is None:
            alone = best_effort(problem, self.solver, self.stop, self.seed)
        else:
            alone = concluded(problem, primaries, solver="given", seed=self.seed, steps=0, score_bound=np.inf)
        mirrors = [NOWHERE] * problem.item_count
        groups = problem.groups()
        if len(set(groups)) < 2:
            return Placement(problem, tuple(mirrors), alone, alone, {})
        alone, together, copied = self._with_mirrors_always_sent(problem, alone, fixed=primaries is not None)
        for item, broker in zip(copied, together.assignment[problem.item_count :], strict=True):
            if groups[broker] != groups[alone.assignment[item]]:
                mirrors[item] = broker
        outages = self._stand_by(problem, alone.assignment, mirrors)
        return Placement(problem, tuple(mirrors), alone, together, outages)

    def after(
        self,
        problem: Problem,
        primaries: Sequence[int],
        mirrors: Sequence[int],
        failed: Collection[int],
    ) -> Result:
        """Without `failed`: mirrors take over, and items without one go where risk is least.

        Brokers that work keep what they have. The result is about the working brokers alone.
        """
        alive = [broker for broker in range(problem.broker_count) if broker not in failed]
        position = {broker: place for place, broker in enumerate(alive)}
        pinned: dict[int, int] = {}
        for item, pair in enumerate(zip(primaries, mirrors, strict=True)):
            serving = next((broker for broker in pair if broker in position), None)
            if serving is not None:
                pinned[item] = serving
        remaining = problem.with_brokers(alive, pinned)
        copied = [
            item
            for item in problem.asking(Mirror.BOTH)
            if primaries[item] in position and mirrors[item] in position
        ]
        if copied:
            held = dict(remaining.constraints.pinned)
            held |= {problem.item_count + k: position[mirrors[item]] for k, item in enumerate(copied)}
            remaining = with_copies(remaining, copied, held)
        return best_effort(remaining, self.solver, self.stop, self.seed)

    def _with_mirrors_always_sent(
        self, problem: Problem, alone: Result, *, fixed: bool
    ) -> tuple[Result, Result, list[int]]:
        """Primaries, primaries and copies, and which items were copied."""
        copied, stuck = _can_be_copied(problem, alone.assignment)
        together = self._mirrors_for(problem, copied, alone.assignment) if copied else alone
        if copied and not fixed:
            primaries, together = self._in_turns(problem, copied, together)
            if primaries != alone.assignment:
                alone = _moved(alone, primaries)
        if stuck:
            reason = "; ".join(
                f"mirrored.{problem.items[item]}: constraints leave no broker apart from its primary for it"
                for item in stuck
            )
            known = f"; {together.reason}" if together.reason else ""
            together = replace(
                together, reason=reason + known, infeasibility_proven=True, proven_optimal=False
            )
        return alone, together, copied

    def _in_turns(
        self, problem: Problem, copied: list[int], together: Result
    ) -> tuple[tuple[int, ...], Result]:
        count = problem.item_count
        for _ in range(MAX_TURNS):
            primaries = self._primaries_for(problem, copied, together.assignment[count:])
            if not _better(primaries, together):
                break
            mirrors = self._mirrors_for(problem, copied, primaries.assignment[:count])
            together = mirrors if _better(mirrors, primaries) else primaries
        # Each half was solved with the other one fixed: nothing is known about the best of both.
        whole = with_copies(problem, copied, problem.constraints.pinned)
        judged = concluded(
            whole,
            together.assignment,
            solver=together.solver,
            seed=self.seed,
            steps=together.steps,
            score_bound=np.inf,
        )
        return together.assignment[:count], judged

    def _mirrors_for(self, problem: Problem, copied: list[int], primaries: Sequence[int]) -> Result:
        pinned = {item: int(broker) for item, broker in enumerate(primaries)}
        apart = [
            (problem.item_count + place, broker)
            for place, item in enumerate(copied)
            for broker in _together(problem, primaries[item])
        ]
        return self._solved(with_copies(problem, copied, pinned, apart))

    def _primaries_for(self, problem: Problem, copied: list[int], mirrors: Sequence[int]) -> Result:
        pinned = dict(problem.constraints.pinned)
        pinned |= {problem.item_count + place: int(broker) for place, broker in enumerate(mirrors)}
        apart = [
            (item, broker)
            for item, mirror in zip(copied, mirrors, strict=True)
            for broker in _together(problem, mirror)
        ]
        return self._solved(with_copies(problem, copied, pinned, apart))

    def _solved(self, problem: Problem) -> Result:
        return best_effort(problem, self.solver, self.stop, self.seed)

    def _stand_by(self, problem: Problem, primaries: Sequence[int], mirrors: list[int]) -> dict[int, Result]:
        """Mirrors of standby items are noted in `mirrors`; they load nothing as long as nothing fails."""
        groups = problem.groups()
        standby = problem.asking(Mirror.STANDBY)
        outages: dict[int, Result] = {}
        chosen: dict[int, int] = {}
        for group in sorted({groups[primaries[item]] for item in standby}):
            failed = [broker for broker, its in enumerate(groups) if its == group]
            alive = [broker for broker, its in enumerate(groups) if its != group]
            outages[group] = self.after(problem, primaries, mirrors, failed)
            for item in standby:
                if primaries[item] in failed:
                    chosen[item] = alive[outages[group].assignment[item]]
        for item, broker in chosen.items():
            mirrors[item] = broker
        return outages


def _together(problem: Problem, broker: int) -> list[int]:
    """Brokers that fail with this one."""
    groups = problem.groups()
    return [other for other in range(problem.broker_count) if groups[other] == groups[broker]]


def _can_be_copied(problem: Problem, primaries: Sequence[int]) -> tuple[list[int], list[int]]:
    """Items that ask for copies at all times: those with a broker for them, and those without."""
    unpinned = replace(problem, constraints=replace(problem.constraints, pinned={}))
    open_ = unpinned.allowed()
    groups = np.array(problem.groups())
    copied: list[int] = []
    stuck: list[int] = []
    for item in problem.asking(Mirror.BOTH):
        elsewhere = groups != groups[primaries[item]]
        (copied if (open_[item] & elsewhere).any() else stuck).append(item)
    return copied, stuck


def _better(one: Result, other: Result) -> bool:
    """Keeps its constraints where the other does not, or is worth noticeably more."""
    if one.feasible != other.feasible:
        return one.feasible
    gain = one.assessment.score - other.assessment.score
    return gain > MIN_GAIN * abs(other.assessment.score) + 1e-300


def _moved(result: Result, primaries: tuple[int, ...]) -> Result:
    """The same problem with other primaries; what could at most be reached stays known."""
    judged = concluded(
        result.problem,
        primaries,
        solver=result.solver,
        seed=result.seed,
        steps=result.steps,
        score_bound=np.inf,
        warnings=result.warnings,
    )
    return replace(judged, bound=max(result.bound, judged.value)) if not judged.proven_optimal else judged
