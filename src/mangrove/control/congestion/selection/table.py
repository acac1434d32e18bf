"""A problem in arrays, so that a hundred thousand publishers are weighed at once.

A *slot* is one metric of one broker that is short. Publishers stand in the order of the problem, those of a
topic side by side.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from mangrove.control.congestion.problem import CongestionProblem
from mangrove.model.agents.load import Amounts

Numbers = NDArray[np.float64]
Places = NDArray[np.int64]

SLACK = 1e-9
"""So small a part of a budget is nothing: sums of floating-point numbers are no better."""

_INPUT, _OUTPUT, _MATCHING = range(3)


class Table:
    """All publishers and topics of a problem, and what they take of each slot.

    Figures that are infinite, below zero or no numbers count as zero.
    """

    def __init__(self, problem: CongestionProblem) -> None:
        topics = problem.topics
        publishers = [publisher for topic in topics for publisher in topic.publishers]
        self.keys = [(topic.topic, publisher.publisher) for topic in topics for publisher in topic.publishers]
        counts = np.array([len(topic.publishers) for topic in topics], np.int64)
        self.starts: Places = np.concatenate(([0], np.cumsum(counts)))
        """Where the publishers of a topic begin, and end where the next one's begin."""
        self.topic_of: Places = np.repeat(np.arange(len(topics)), counts)
        self.msg_s = _sound([publisher.msg_s for publisher in publishers])
        self.size_bytes = _sound([publisher.size_bytes for publisher in publishers])
        self.utility = np.minimum(_sound([publisher.utility for publisher in publishers]), 1.0)
        self.subscribers = _sound([topic.subscribers for topic in topics])
        self.topic_utility = np.minimum(_sound([topic.utility for topic in topics]), 1.0)
        self.protected = np.array([topic.protected for topic in topics], bool)
        self._set_slots(problem)
        self._set_loads(problem)

    def _set_slots(self, problem: CongestionProblem) -> None:
        self.brokers = list(problem.budgets)
        amounts = np.array([*problem.budgets.values()], np.float64).reshape(-1, 3)
        short = amounts != math.inf
        self.slot_at: Places = np.where(short, np.cumsum(short).reshape(short.shape) - 1, -1)
        """The slot by broker and metric; -1 where it is not short."""
        self.budgets: Numbers = np.nan_to_num(amounts[short], nan=0.0, neginf=0.0)

    def _set_loads(self, problem: CongestionProblem) -> None:
        """A load is one slot that a topic takes of: something for each byte, or for each message."""
        number = {broker: place for place, broker in enumerate(self.brokers)}
        carriers = [topic.copies for topic in problem.topics]
        topic = np.repeat(np.arange(len(carriers)), [len(one) for one in carriers])
        broker = np.array([number.get(name, -1) for one in carriers for name in one], np.int64)
        copies = _sound([amount for one in carriers for amount in one.values()])
        budgeted = broker >= 0
        topic, broker, copies = topic[budgeted], broker[budgeted], copies[budgeted]
        by_byte = np.stack((np.ones(len(topic)), copies, np.zeros(len(topic))), axis=1)
        slot = self.slot_at[broker].reshape(-1, 3)
        taken = slot >= 0
        taken[:, _OUTPUT] &= copies > 0
        row, metric = np.nonzero(taken)
        self.load_topic: Places = topic[row]
        """In rising order, as all `load_…` are."""
        self.load_slot: Places = slot[row, metric]
        self.load_by_byte: Numbers = by_byte[row, metric]
        self.load_by_message: Numbers = np.where(metric == _MATCHING, 1.0, 0.0)

    def topic_sums(self, values: Numbers) -> Numbers:
        """Sums over the publishers of each topic."""
        return sums(self.topic_of, values, len(self.protected))

    def topic_needs(self) -> Numbers:
        """What a topic as a whole would take, load by load."""
        messages_s = self.topic_sums(self.msg_s)
        bytes_s = self.topic_sums(self.msg_s * self.size_bytes)
        topic = self.load_topic
        return self.load_by_byte * bytes_s[topic] + self.load_by_message * messages_s[topic]

    def publisher_loads(self) -> tuple[Places, Places, Numbers]:
        """Publisher, slot, and what one of its messages takes: one entry for each publisher of each load."""
        counts = np.diff(self.starts)[self.load_topic]
        load = np.repeat(np.arange(len(counts)), counts)
        within = np.arange(len(load)) - np.repeat(np.cumsum(counts) - counts, counts)
        publisher = self.starts[self.load_topic[load]] + within
        each = self.load_by_byte[load] * self.size_bytes[publisher] + self.load_by_message[load]
        return publisher, self.load_slot[load], each

    def rooms(self) -> tuple[Numbers, dict[str, Amounts]]:
        """What protected topics leave of each budget, and by how much they exceed some, by broker."""
        served = self.protected[self.load_topic]
        used = sums(self.load_slot[served], self.topic_needs()[served], len(self.budgets))
        left = self.budgets - used
        left[np.abs(left) <= SLACK * np.abs(self.budgets)] = 0.0
        short = {}
        for broker, slots in zip(self.brokers, self.slot_at.tolist(), strict=True):
            lacking = [max(0.0, -float(left[slot])) if slot >= 0 else 0.0 for slot in slots]
            if any(lacking):
                short[broker] = Amounts(*lacking)
        return np.maximum(left, 0.0), short

    def allowed(self, msg_s: Numbers) -> dict[tuple[str, str], float]:
        """As a selection says it."""
        return dict(zip(self.keys, msg_s.tolist(), strict=True))


def sums(places: Places, values: Numbers, count: int) -> Numbers:
    """Sums of the values that belong to each place."""
    return np.bincount(places, weights=values, minlength=count).astype(np.float64)


def _sound(values: Iterable[float]) -> Numbers:
    found = np.array([*values], np.float64)
    found[~((found > 0) & (found < math.inf))] = 0.0
    return found
