"""What is left of every budget while a selection is made."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from mangrove.control.congestion.problem import CongestionProblem, TopicDemand
from mangrove.model.agents.load import Amounts

SLACK = 1e-9
"""So small a part of a budget is nothing: sums of floating-point numbers are no better."""


class Load(NamedTuple):
    """What each message of a topic takes of one slot: so much for each byte of it, and so much for itself."""

    slot: int
    by_byte: float
    by_message: float


class Ledger:
    """The rooms of all brokers on all metrics that are short; a *slot* is one metric of one broker.

    Protected topics have been served when it is made, whether there was room for them or not.
    """

    def __init__(self, problem: CongestionProblem) -> None:
        self.allowed: dict[tuple[str, str], float] = {}
        self._slots: dict[str, tuple[tuple[int, int], ...]] = {}
        """Metric and slot, by broker."""
        self.budgets: list[float] = []
        for broker, budget in problem.budgets.items():
            finite = [metric for metric, amount in enumerate(budget) if amount != math.inf]
            first = len(self.budgets)
            self._slots[broker] = tuple((metric, first + place) for place, metric in enumerate(finite))
            self.budgets += [budget[metric] for metric in finite]
        self.rooms = [0.0 if math.isnan(budget) else budget for budget in self.budgets]
        for topic in problem.topics:
            if topic.protected:
                self._serve(topic)
        self.short = self._shortages()
        least = [SLACK * abs(budget) for budget in self.budgets]
        self.rooms = [
            room if room > nothing else 0.0 for room, nothing in zip(self.rooms, least, strict=True)
        ]

    def loads(self, topic: TopicDemand) -> list[Load]:
        """What a message of this topic takes, by slot; nothing where no slot is touched."""
        loads = []
        slots = self._slots
        for broker, copies in topic.copies.items():
            for metric, slot in slots.get(broker, ()):
                if metric == 0:
                    loads.append(Load(slot, 1.0, 0.0))
                elif metric == 1:
                    if copies > 0:
                        loads.append(Load(slot, copies, 0.0))
                else:
                    loads.append(Load(slot, 0.0, 1.0))
        return loads

    def fits(self, loads: Sequence[Load], messages_s: float, bytes_s: float) -> bool:
        """Whether there is room for so much, in all slots."""
        rooms = self.rooms
        for slot, by_byte, by_message in loads:
            if by_byte * bytes_s + by_message * messages_s > rooms[slot]:
                return False
        return True

    def most(self, loads: Sequence[Load], messages_s: float, size_bytes: float) -> float:
        """As many of these messages as there is room for."""
        rooms = self.rooms
        for slot, by_byte, by_message in loads:
            each = by_byte * size_bytes + by_message
            if each * messages_s > rooms[slot]:
                messages_s = rooms[slot] / each
        return messages_s

    def take(self, loads: Sequence[Load], messages_s: float, bytes_s: float) -> None:
        """Use so much up. Hardly anything that is left is nothing."""
        rooms = self.rooms
        for slot, by_byte, by_message in loads:
            room = rooms[slot] - (by_byte * bytes_s + by_message * messages_s)
            rooms[slot] = room if room > SLACK * self.budgets[slot] else 0.0

    def _serve(self, topic: TopicDemand) -> None:
        loads = self.loads(topic)
        for publisher in topic.publishers:
            self.allowed[topic.topic, publisher.publisher] = publisher.msg_s
            bytes_s = publisher.msg_s * publisher.size_bytes
            for slot, by_byte, by_message in loads:
                self.rooms[slot] -= by_byte * bytes_s + by_message * publisher.msg_s

    def _shortages(self) -> dict[str, Amounts]:
        short = {}
        for broker, slots in self._slots.items():
            lacking = [0.0, 0.0, 0.0]
            for metric, slot in slots:
                lacking[metric] = max(0.0, -self.rooms[slot])
            if any(lacking):
                short[broker] = Amounts(*lacking)
        return short
