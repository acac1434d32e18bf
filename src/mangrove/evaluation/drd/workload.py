"""The experiments' inputs: brokers, topics and bursts, drawn from one seed (ePEER §4.5.1.2).

The thesis prints the brokers, the number of topics, the range of delay requirements, the sizes of sensor
data and the bursts. It does not print how many publishers and subscribers a topic has, nor their rates;
those are `Ranges`, calibrated so that an edge is overloaded after the second burst but seldom before, as
its figures are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

EDGES = ("B0", "B1", "B2", "B3")
TOPICS = 100
CAPACITY_MSG_S = (20_000, 30_000)
HEAD_CAPACITY_MSG_S = 1_000_000
BANDWIDTH_BYTES_S = 125e6
DEADLINE_S = (1.0, 50.0)
SIZE_BYTES = (200, 1000)
BURST_FACTOR = 1.5

REGISTERED_S = 100
"""One topic's clients register each second; from then on all are there."""
BURSTS_S = (301, 401)
BURST_END_S = 900
END_S = 1000


@dataclass(frozen=True, slots=True)
class Ranges:
    """What the thesis leaves open; each uniform between its two ends."""

    publishers: tuple[int, int] = (1, 10)
    subscribers: tuple[int, int] = (1, 5)
    publisher_msg_s: tuple[float, float] = (20.0, 300.0)
    """Of each publisher of a topic; a topic has the rate of all its publishers together."""
    utilisation: tuple[float, float] = (0.78, 0.82)
    """Of all edges' matching in equilibrium: the rates drawn are scaled to it."""
    burst_topics: tuple[int, int] = (10, 15)


@dataclass(frozen=True)
class Workload:
    """One experiment. Arrays go by topic."""

    seed: int
    capacity_msg_s: tuple[float, ...]
    """Of the edges."""
    publishers: Ints
    subscribers: Ints
    rate_msg_s: Floats
    """In equilibrium."""
    size_bytes: Floats
    deadline_s: Floats
    bursts: tuple[tuple[int, ...], ...]
    """The topics of each burst; no topic is in two."""
    ranges: Ranges = field(default_factory=Ranges)

    @property
    def topics(self) -> tuple[str, ...]:
        """Names, in the order in which their clients register."""
        return tuple(f"topic.{number:03d}" for number in range(len(self.rate_msg_s)))

    def rates_at(self, second: int) -> Floats:
        """Messages/s of each topic from one second to the next; time begins with second 1."""
        rates = self.rate_msg_s.copy()
        for begin, topics in zip(BURSTS_S, self.bursts, strict=True):
            if begin <= second < BURST_END_S:
                rates[list(topics)] *= BURST_FACTOR
        return np.asarray(np.round(rates))

    def irregular(self) -> Iterator[Floats]:
        """The same second by second, with as many messages as a Poisson process has."""
        rng = np.random.default_rng([self.seed, 406])
        for second in range(1, END_S + 1):
            yield rng.poisson(self.rates_at(second)).astype(np.float64)


def draw_workload(seed: int, ranges: Ranges | None = None) -> Workload:
    """The experiment of one seed: the same for every method."""
    given = ranges or Ranges()
    rng = np.random.default_rng([seed, 405])
    capacity = rng.integers(CAPACITY_MSG_S[0], CAPACITY_MSG_S[1], len(EDGES), endpoint=True)
    publishers = rng.integers(*given.publishers, TOPICS, endpoint=True)
    subscribers = rng.integers(*given.subscribers, TOPICS, endpoint=True)
    rates = publishers * rng.uniform(*given.publisher_msg_s, TOPICS)
    rates *= rng.uniform(*given.utilisation) * float(capacity.sum()) / float(rates.sum())
    sizes = rng.integers(*SIZE_BYTES, TOPICS, endpoint=True).astype(np.float64)
    deadlines = rng.uniform(*DEADLINE_S, TOPICS)
    counts = rng.integers(*given.burst_topics, len(BURSTS_S), endpoint=True)
    shuffled = rng.permutation(TOPICS)
    first = tuple(sorted(int(topic) for topic in shuffled[: counts[0]]))
    second = tuple(sorted(int(topic) for topic in shuffled[counts[0] : counts.sum()]))
    return Workload(
        seed,
        tuple(float(one) for one in capacity),
        publishers,
        subscribers,
        rates,
        sizes,
        deadlines,
        (first, second),
        given,
    )
