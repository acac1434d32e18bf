"""Topics that surge in groups, and an account of every message of theirs."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from itertools import pairwise

import msgspec
import numpy as np

GROUPS = 3
TOPICS_OF_A_GROUP = 3
MEAN_MSG_S = 40.0
GROUP_DEVIATION = 0.4
"""Of the factor by which all topics of a group are busier or quieter in a second."""
OWN_DEVIATION = 0.1
MARGIN = 1.0
"""A broker with all topics of one group is overloaded beyond so many deviations."""
TICK_S = 0.02


def topics() -> list[str]:
    """One group after the other in turn, so that a broker that is given every third has a whole group."""
    return [f"group{group}.t{number}" for number in range(TOPICS_OF_A_GROUP) for group in range(GROUPS)]


def group_of(topic: str) -> int:
    """The group of a topic."""
    return int(topic.removeprefix("group").partition(".")[0])


def capacity_msg_s() -> float:
    """Of an edge, such that a whole group overloads it now and then and a mixed lot seldom."""
    mean = TOPICS_OF_A_GROUP * MEAN_MSG_S
    own = TOPICS_OF_A_GROUP * (MEAN_MSG_S * OWN_DEVIATION) ** 2
    return round(mean + MARGIN * float(np.sqrt((mean * GROUP_DEVIATION) ** 2 + own)))


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """What became of all messages."""

    published: int
    lost: int
    duplicated: int
    reordered: int

    @property
    def exact(self) -> bool:
        """Whether each came once, in order."""
        return not (self.lost or self.duplicated or self.reordered)


class SurgingLoad:
    """Publishes numbered messages second by second, and takes in what subscribers get."""

    def __init__(self, publish: Callable[[str, bytes], Awaitable[object]], seed: int) -> None:
        self._publish = publish
        self._random = np.random.default_rng(seed)
        self._topics = topics()
        self.sent: Counter[str] = Counter()
        self._got: dict[str, list[int]] = {topic: [] for topic in self._topics}
        self.running = True

    def got(self, topic: str, data: bytes) -> None:
        """A subscriber has a message."""
        self._got[topic].append(int(data))

    async def run(self) -> None:
        """Until it is stopped; seconds begin with those of the clock, as those of the recorder do."""
        await asyncio.sleep(1.0 - time.time() % 1.0)
        began, due = time.monotonic(), dict.fromkeys(self._topics, 0.0)
        second = 0
        while self.running:
            rates = self._rates()
            while self.running and (elapsed := time.monotonic() - began) < second + 1:
                part = elapsed - second
                for topic, rate in rates.items():
                    while self.sent[topic] < due[topic] + rate * part:
                        await self._send(topic)
                await asyncio.sleep(TICK_S)
            for topic, rate in rates.items():
                due[topic] += rate
            second += 1

    async def _send(self, topic: str) -> None:
        self.sent[topic] += 1
        await self._publish(topic, b"%d" % self.sent[topic])

    def _rates(self) -> dict[str, float]:
        factors = self._random.normal(1.0, GROUP_DEVIATION, GROUPS)
        own = self._random.normal(0.0, OWN_DEVIATION, len(self._topics))
        return {
            topic: MEAN_MSG_S * max(0.0, float(factors[group_of(topic)] + more))
            for topic, more in zip(self._topics, own, strict=True)
        }

    @property
    def all_came(self) -> bool:
        """Whether as many came as were published."""
        return all(len(self._got[topic]) >= count for topic, count in self.sent.items())

    def account(self) -> Account:
        """What became of everything."""
        lost = duplicated = reordered = 0
        for topic, numbers in self._got.items():
            distinct = set(numbers)
            lost += self.sent[topic] - len(distinct)
            duplicated += len(numbers) - len(distinct)
            reordered += sum(later < earlier for earlier, later in pairwise(numbers))
        return Account(published=self.sent.total(), lost=lost, duplicated=duplicated, reordered=reordered)
