"""Topics by importance, as long as they fit (ePEER §5.2.2).

Of a topic that does not fit as a whole the most useful publishers are taken, and the first that does not fit
says what there is room for. That uses a budget up; smaller topics further down that do not need it are still
taken, unless `stop_at_first`: then nobody is who needs any budget that a topic in vain has asked for before.
"""

from __future__ import annotations

import numpy as np

from mangrove.control.congestion.importance import topic_importances
from mangrove.control.congestion.problem import CongestionProblem, Selection
from mangrove.control.congestion.selection.table import SLACK, Numbers, Table


def greedy(problem: CongestionProblem) -> Selection:
    """What everybody may say when the most important topics are served first."""
    table = Table(problem)
    importance = topic_importances(table)
    rooms, short = table.rooms()
    filling = _Filling(problem, table, rooms)
    filling.fill(by_rank(problem, table, importance))
    return Selection(
        allowed=table.allowed(filling.allowed),
        importance=importance_by_topic(problem, importance),
        short=short,
    )


def by_rank(problem: CongestionProblem, table: Table, importance: Numbers) -> list[int]:
    """Places of the topics that may be limited, the most important first; equal ones by name."""
    topics = problem.topics
    ranks = np.array(
        [
            value if topic.rank is None else topic.rank
            for topic, value in zip(topics, importance.tolist(), strict=True)
        ]
    )
    places = np.nonzero(~table.protected)[0]
    places = places[np.argsort(-ranks[places], kind="stable")]
    differs = np.nonzero(np.diff(ranks[places]))[0] + 1
    firsts, ends = np.concatenate(([0], differs)), np.concatenate((differs, [len(places)]))
    order: list[int] = places.tolist()
    for equal in np.nonzero(ends - firsts > 1)[0].tolist():
        first, end = int(firsts[equal]), int(ends[equal])
        order[first:end] = sorted(order[first:end], key=lambda place: topics[place].topic)
    return order


def importance_by_topic(problem: CongestionProblem, importance: Numbers) -> dict[str, float]:
    """As a selection says it."""
    return dict(zip((topic.topic for topic in problem.topics), importance.tolist(), strict=True))


class _Filling:
    """Budgets on their way to be used up."""

    def __init__(self, problem: CongestionProblem, table: Table, rooms: Numbers) -> None:
        self.allowed = table.msg_s.copy()
        self._stop_at_first = problem.stop_at_first
        self._publishers = [topic.publishers for topic in problem.topics]
        self._table = table
        self._rooms: list[float] = rooms.tolist()
        self._nothing: list[float] = (SLACK * np.abs(table.budgets)).tolist()
        self._slots: list[int] = table.load_slot.tolist()
        self._needs: list[float] = table.topic_needs().tolist()
        ends = np.searchsorted(table.load_topic, np.arange(len(self._publishers) + 1))
        self._ends: list[int] = ends.tolist()
        self._closed = [False] * len(self._rooms)
        """Slots of which nothing is given any more (`stop_at_first`)."""

    def fill(self, order: list[int]) -> None:
        """Serve topics in this order."""
        rooms, slots, needs, ends, closed = self._rooms, self._slots, self._needs, self._ends, self._closed
        nothing = self._nothing
        stopped = np.zeros(len(self._publishers), bool)
        for place in order:
            loads = range(ends[place], ends[place + 1])
            fits = True
            for load in loads:
                slot = slots[load]
                if needs[load] > rooms[slot] or closed[slot]:
                    fits = False
                    break
            if fits:
                for load in loads:
                    slot = slots[load]
                    room = rooms[slot] - needs[load]
                    rooms[slot] = room if room > nothing[slot] else 0.0
                continue
            if any(rooms[slots[load]] <= 0.0 or closed[slots[load]] for load in loads):
                stopped[place] = True
            else:
                self._divide(place, loads)
            if self._stop_at_first:
                for load in loads:
                    closed[slots[load]] = True
        self.allowed[stopped[self._table.topic_of]] = 0.0

    def _divide(self, place: int, loads: range) -> None:
        """Of a topic that does not fit, the most useful publishers and a part of the next."""
        table, rooms = self._table, self._rooms
        by_byte, by_message = table.load_by_byte, table.load_by_message
        first = int(table.starts[place])
        publishers = self._publishers[place]
        names = [publisher.publisher for publisher in publishers]
        utility = table.utility
        for one in sorted(range(len(names)), key=lambda one: (-utility[first + one], names[one])):
            msg_s = wanted = float(table.msg_s[first + one])
            size_bytes = float(table.size_bytes[first + one])
            costs = [
                (self._slots[load], float(by_byte[load] * size_bytes + by_message[load])) for load in loads
            ]
            for slot, each in costs:
                if each * msg_s > rooms[slot]:
                    msg_s = rooms[slot] / each
            for slot, each in costs:
                room = rooms[slot] - each * msg_s
                rooms[slot] = room if room > self._nothing[slot] else 0.0
            self.allowed[first + one] = min(msg_s, wanted)
