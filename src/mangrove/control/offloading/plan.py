"""The account that a method keeps while it chooses: what is still needed, what room is left where."""

from __future__ import annotations

from mangrove.control.offloading.problem import Acceptor, Bundle, Choice, Member, Move, Problem, cost_at
from mangrove.model.agents.load import Amounts, Metric

_TOLERANCE = 1e-9
"""Of a need: what rounding leaves of it is nothing."""


def by_headroom(acceptors: tuple[Acceptor, ...]) -> list[Acceptor]:
    """Acceptors in the order in which they are tried: the most headroom first; ties by room, then by name."""
    return sorted(acceptors, key=lambda one: (-one.headroom, -one.room.matching, one.domain, one.broker))


class Plan:
    """Moves chosen so far.

    An acceptor's room is never exceeded on any metric, and no topic is led to two brokers.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.acceptors = by_headroom(problem.acceptors)
        self.rooms = [one.room for one in self.acceptors]
        self.need: dict[Metric, float] = {metric: need for metric, need in problem.need.items() if need > 0}
        self.moves: list[Move] = []
        self.moved: set[str] = set()
        self._least = {metric: need * _TOLERANCE for metric, need in self.need.items()}

    def met(self) -> bool:
        """Whether nothing more need go."""
        return not self.need

    def helps(self, relief: Amounts) -> bool:
        """Whether it relieves what is still overloaded."""
        return any(relief.of(metric) > 0 for metric in self.need)

    def place(self, bundle: Bundle) -> int | None:
        """The first acceptor, the most headroom first, that has room for the whole bundle."""
        for index, acceptor in enumerate(self.acceptors):
            if cost_at(acceptor, bundle).fits(self.rooms[index]):
                return index
        return None

    def take(self, bundle: Bundle, index: int, why: str) -> None:
        """Move the whole bundle."""
        cost = cost_at(self.acceptors[index], bundle)
        self._add(
            Move(bundle.topic, self.acceptors[index], bundle.members, True, bundle.load, cost, why), index
        )

    def take_members(self, bundle: Bundle, members: tuple[Member, ...], index: int, why: str) -> None:
        """Move some of a bundle's subscribers; the source goes on to serve the topic."""
        output = sum(member.load.output for member in members)
        relief = Amounts(0.0, output, 0.0)
        cost = self.part_cost(bundle, index).plus(relief)
        self._add(Move(bundle.topic, self.acceptors[index], members, False, relief, cost, why), index)

    def part_cost(self, bundle: Bundle, index: int) -> Amounts:
        """What an acceptor pays for the first of a topic's subscribers, besides output."""
        return Amounts() if bundle.topic in self.acceptors[index].topics else bundle.stream

    def _add(self, move: Move, index: int) -> None:
        assert move.topic not in self.moved, f"{move.topic} is led to two brokers"
        self.moves.append(move)
        self.moved.add(move.topic)
        self.rooms[index] = self.rooms[index].minus(move.cost)
        for metric in tuple(self.need):
            self.need[metric] -= move.relief.of(metric)
            if self.need[metric] <= self._least[metric]:
                del self.need[metric]

    def choice(self) -> Choice:
        """What was chosen, and what of the need it leaves."""
        return Choice(tuple(self.moves), dict(self.need))


def relief_text(relief: Amounts, metrics: tuple[Metric, ...]) -> str:
    """What a move relieves, for people: `matching by 812 msg/s`."""
    return " and ".join(
        f"{metric.value} by {amount_text(relief.of(metric), metric)}"
        for metric in metrics
        if relief.of(metric) > 0
    )


def amount_text(amount: float, metric: Metric) -> str:
    """An amount with its unit."""
    if metric is Metric.MATCHING:
        return f"{amount:,.0f} msg/s"
    return f"{amount / 1e6:,.2f} MB/s" if amount >= 1e5 else f"{amount / 1e3:,.1f} kB/s"


def deadline_text(deadline_s: float) -> str:
    """A delay requirement, for people."""
    return "no deadline" if deadline_s == float("inf") else f"deadline {deadline_s:g} s"
