"""Primaries and mirrors of one state together (thesis §4.6.1, GEMOM §IV).

Mirrors that are always sent load their brokers now, so they are placed with the primaries: mirrors for given
primaries, then primaries for these mirrors, in turn while it gains. Mirrors that stand by load nothing until
their primary's broker, or its whole host, has failed: they are placed for that state, into the room that is
left there, together with the items that must find another broker then.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from mangrove.model.topics import Mirror
from mangrove.planning.judgement.result import Result, concluded
from mangrove.planning.judgement.ties import tie_width
from mangrove.planning.policies.copies import NOWHERE, with_copies
from mangrove.planning.problem.problem import Problem
from mangrove.planning.solvers.registry import AUTO_EXACT_ITEMS, SolverName, best_effort, solve
from mangrove.planning.solvers.search import SearchParams, default_rounds
from mangrove.planning.solvers.stop import Stop

# Turns between mirrors and primaries: most of what is gained comes with the first two.
MAX_TURNS = 4
MIN_GAIN = 1e-6
QUICK = SearchParams(rounds=4, with_bound=False)


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
    outages: dict[int, Result] = field(default_factory=dict)
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
    """Places with one solver and seed.

    `quick` is for decisions that cannot wait: few rounds of search whatever the solver, one turn, no bounds.
    """

    solver: SolverName
    stop: Stop
    seed: int
    quick: bool = False

    def place(self, problem: Problem, primaries: Sequence[int] | None = None) -> Placement:
        """Primaries (unless given) and mirrors on the brokers of the problem."""
        return self.stand_by(self.carry(problem, primaries))

    def carry(self, problem: Problem, primaries: Sequence[int] | None = None) -> Placement:
        """What carries messages now: primaries, and mirrors that are always sent."""
        if primaries is None:
            alone = self._solved(problem)
        else:
            alone = concluded(problem, primaries, solver="given", seed=self.seed, steps=0, score_bound=np.inf)
        return self._with_copies(alone, fixed=primaries is not None)

    def carry_within_bounds(self, problem: Problem) -> Placement | None:
        """As `carry`, or None when constraints are not kept: no effort goes into the least risk then."""
        alone = self._tried(problem)
        if not alone.feasible:
            return None
        placement = self._with_copies(alone, fixed=False)
        return placement if placement.together.feasible else None

    def stand_by(self, placement: Placement) -> Placement:
        """The same with mirrors of standby items: they load nothing as long as nothing fails."""
        problem, primaries = placement.problem, placement.primaries
        groups = problem.groups()
        standby = problem.asking(Mirror.STANDBY) if len(set(groups)) > 1 else []
        mirrors = list(placement.mirrors)
        outages: dict[int, Result] = {}
        for group in sorted({groups[primaries[item]] for item in standby}):
            failed = [broker for broker, its in enumerate(groups) if its == group]
            alive = [broker for broker, its in enumerate(groups) if its != group]
            outages[group] = self.after(problem, primaries, placement.mirrors, failed)
            for item in standby:
                if primaries[item] in failed:
                    mirrors[item] = alive[outages[group].assignment[item]]
        return replace(placement, mirrors=tuple(mirrors), outages=outages)

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
        return self._solved(remaining)

    def _with_copies(self, alone: Result, *, fixed: bool) -> Placement:
        """Mirrors that are always sent, for these primaries or, unless `fixed`, for others that suit both."""
        problem, groups = alone.problem, alone.problem.groups()
        if len(set(groups)) < 2:
            return Placement(problem, (NOWHERE,) * problem.item_count, alone, alone)
        copied, stuck = _can_be_copied(problem, alone.assignment)
        together = self._mirrors_for(problem, copied, alone.assignment) if copied else alone
        if copied and not fixed and _worse(together, alone):
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
        mirrors = [NOWHERE] * problem.item_count
        for item, broker in zip(copied, together.assignment[problem.item_count :], strict=True):
            if groups[broker] != groups[alone.assignment[item]]:
                mirrors[item] = broker
        return Placement(problem, tuple(mirrors), alone, together)

    def _in_turns(
        self, problem: Problem, copied: list[int], together: Result
    ) -> tuple[tuple[int, ...], Result]:
        count = problem.item_count
        for _ in range(1 if self.quick else MAX_TURNS):
            primaries = self._primaries_for(problem, copied, together.assignment)
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

    def _primaries_for(self, problem: Problem, copied: list[int], present: tuple[int, ...]) -> Result:
        """Primaries for the mirrors of `present`, which has both, sought from there."""
        mirrors = present[problem.item_count :]
        pinned = dict(problem.constraints.pinned)
        pinned |= {problem.item_count + place: int(broker) for place, broker in enumerate(mirrors)}
        apart = [
            (item, broker)
            for item, mirror in zip(copied, mirrors, strict=True)
            for broker in _together(problem, mirror)
        ]
        whole = with_copies(problem, copied, pinned, apart)
        free = int((whole.allowed().sum(axis=1) > 1).sum())
        many = self.solver is SolverName.AUTO and free > AUTO_EXACT_ITEMS
        if self.quick or many or self.solver is SolverName.SEARCH:
            rounds = QUICK.rounds if self.quick else max(3, default_rounds(whole) // 4)
            params = SearchParams(rounds=rounds, start=present, with_bound=False)
            return best_effort(whole, SolverName.SEARCH, self.stop, self.seed, params)
        return self._solved(whole)

    def _solved(self, problem: Problem) -> Result:
        return best_effort(problem, *self._how())

    def _tried(self, problem: Problem) -> Result:
        return solve(problem, *self._how())

    def _how(self) -> tuple[SolverName, Stop, int, SearchParams | None]:
        if self.quick:
            return SolverName.SEARCH, self.stop, self.seed, QUICK
        return self.solver, self.stop, self.seed, None


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
    score = other.assessment.score
    gain = one.assessment.score - score
    return gain > max(MIN_GAIN * abs(score), tie_width(other.problem, score))


def _worse(together: Result, alone: Result) -> bool:
    """Whether copies cost anything: no other primaries are worth looking for when they do not."""
    score = alone.assessment.score
    tied = abs(score - together.assessment.score) <= tie_width(alone.problem, score)
    return not (together.feasible and tied)


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
