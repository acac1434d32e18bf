"""The experiments' inputs: brokers, damage, topics, publishers and what they say (ePEER §5.3.1.2).

The thesis prints the brokers, the damage, the number of topics, the range of sizes and the mix of good,
medium and bad publishers. It does not print how many publishers and subscribers a topic has, their rates,
nor how many keywords anybody has; those are `Ranges`, calibrated as `docs/reproduction.md` tells.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mangrove.evaluation.fdcc.keywords import Quality, Vocabulary, drawn_utilities
from mangrove.evaluation.fdcc.wording import Wording, drawn_wordings

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

HEAD = "Bh"
EDGES = ("B0", "B1", "B2", "B3")
BROKERS = (HEAD, *EDGES)
TOPICS = 100
MATCHING_MSG_S = (20_000, 30_000)
HEAD_MATCHING_MSG_S = 1_000_000.0
BANDWIDTH_MBPS = (300.0, 500.0)
HEAD_BANDWIDTH_MBPS = 1000.0
BYTES_S = 125_000.0
"""In one Mb/s."""
SIZE_BYTES = (200, 2000)
DEADLINE_S = (1.0, 50.0)
QUALITIES = {Quality.GOOD: 0.50, Quality.MEDIUM: 0.25, Quality.BAD: 0.25}

REGISTERED_S = 100
"""One topic's clients register each second; from then on all are there."""
DAMAGE_S = 301
RECOVERY_S = 900
END_S = 1000


@dataclass(frozen=True, slots=True)
class Ranges:
    """What the thesis leaves open, and the damage; each uniform between its two ends."""

    publishers: tuple[int, int] = (1, 10)
    subscribers: tuple[int, int] = (1, 3)
    publisher_msg_s: tuple[float, float] = (20.0, 300.0)
    """Of each publisher; all are scaled to `load`."""
    load: tuple[float, float] = (0.38, 0.42)
    """Output of all edges in equilibrium, by their bandwidth before the damage."""
    damage: tuple[float, float] = (0.1, 0.4)
    """What is left of a broker's bandwidth."""
    sizes_by_topic: bool = True
    """Whether each topic has a size of its own, or every message has a random one (all topics the mean)."""
    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    wording: Wording | None = None
    """With it, publishers and subscribers may use different words for the same."""


@dataclass(frozen=True)
class Workload:
    """One experiment. Arrays go by broker (the head first), by topic, or by publisher."""

    seed: int
    matching_msg_s: Floats
    bandwidth_bytes_s: Floats
    """Each way."""
    damage: Floats
    """What is left of each broker's bandwidth from `DAMAGE_S` to `RECOVERY_S`."""
    subscribers: Ints
    size_bytes: Floats
    deadline_s: Floats
    topic_of: Ints
    """By publisher."""
    quality: tuple[Quality, ...]
    rate_msg_s: Floats
    utilities: tuple[Floats, ...]
    """By topic: subscribers × publishers, the mean of equation 8 over the publisher's messages."""
    taken_for: tuple[Floats, ...]
    """The same, as subscribers see it: what they tell the agents."""

    @property
    def topics(self) -> tuple[str, ...]:
        """Names, in the order in which their clients register."""
        return tuple(f"topic.{number:03d}" for number in range(len(self.size_bytes)))

    @property
    def publisher_utility(self) -> Floats:
        """Equation 2, were every subscriber to hear every publisher; all have the same weight."""
        return np.concatenate([each.mean(axis=0) for each in self.utilities])

    def bandwidth_at(self, second: float, *, damaged: bool = True) -> Floats:
        """Of each broker, each way."""
        if damaged and DAMAGE_S <= second < RECOVERY_S:
            return np.asarray(self.bandwidth_bytes_s * self.damage)
        return self.bandwidth_bytes_s


def draw_workload(seed: int, ranges: Ranges | None = None) -> Workload:
    """The experiment of one seed: the same for every arm."""
    given = ranges or Ranges()
    rng = np.random.default_rng([seed, 505])
    matching = rng.integers(*MATCHING_MSG_S, len(EDGES), endpoint=True).astype(np.float64)
    bandwidth = rng.uniform(*BANDWIDTH_MBPS, len(EDGES)) * BYTES_S
    damage = rng.uniform(*given.damage, len(BROKERS))
    publishers = rng.integers(*given.publishers, TOPICS, endpoint=True)
    subscribers = rng.integers(*given.subscribers, TOPICS, endpoint=True)
    sizes = rng.integers(*SIZE_BYTES, TOPICS, endpoint=True).astype(np.float64)
    if not given.sizes_by_topic:
        sizes = np.full(TOPICS, sum(SIZE_BYTES) / 2)
    deadlines = rng.uniform(*DEADLINE_S, TOPICS)
    topic_of = np.repeat(np.arange(TOPICS), publishers)
    rates = rng.uniform(*given.publisher_msg_s, len(topic_of))
    carried = float((rates * sizes[topic_of] * subscribers[topic_of]).sum())
    rates *= rng.uniform(*given.load) * float(bandwidth.sum()) / carried
    quality = _qualities(len(topic_of), rng)
    if given.wording is None:
        utilities = drawn_utilities(publishers, subscribers, quality, given.vocabulary, rng)
        taken_for = utilities
    else:
        utilities, taken_for = drawn_wordings(
            publishers, subscribers, quality, given.vocabulary, given.wording, rng
        )
    return Workload(
        seed,
        np.concatenate(([HEAD_MATCHING_MSG_S], matching)),
        np.concatenate(([HEAD_BANDWIDTH_MBPS * BYTES_S], bandwidth)),
        damage,
        subscribers,
        sizes,
        deadlines,
        topic_of,
        quality,
        rates,
        utilities,
        taken_for,
    )


def _qualities(count: int, rng: np.random.Generator) -> tuple[Quality, ...]:
    """Half of all publishers good, a quarter medium, a quarter bad, in random order."""
    found: list[Quality] = []
    for quality, share in QUALITIES.items():
        found += [quality] * round(share * count)
    found = (found + [Quality.BAD] * count)[:count]
    return tuple(found[place] for place in rng.permutation(count))
