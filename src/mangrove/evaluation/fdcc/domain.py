"""The star as congestion control sees it: loads, what publishers say or would say, and opinions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mangrove.control.congestion.opinions import Opinions
from mangrove.control.congestion.surroundings import PublisherOffer, TopicOffer
from mangrove.evaluation.fdcc.brokers import Brokers
from mangrove.evaluation.fdcc.traffic import Flow
from mangrove.evaluation.fdcc.workload import EDGES, HEAD, Floats, Workload
from mangrove.model.agents.load import Amounts, BrokerLoad
from mangrove.model.agents.usefulness import Vote
from mangrove.model.events.event_log import EventId

Key = tuple[str, str]
"""Topic and publisher."""


class Domain:
    """`CongestionSurroundings` in virtual time; votes go through the production code."""

    def __init__(self, workload: Workload, served: Floats, brokers: Brokers, opinions: Opinions) -> None:
        self.rates: Floats = workload.rate_msg_s.copy()
        """What each publisher says, under the limits in force."""
        self._workload = workload
        self._brokers = brokers
        self._opinions = opinions
        self._declared: dict[str, EventId | None] = {}
        self._heard: Floats = np.zeros(len(workload.topic_of))
        first = np.searchsorted(workload.topic_of, np.arange(len(workload.topics)))
        last = np.searchsorted(workload.topic_of, np.arange(len(workload.topics)), side="right")
        self._publishers = [range(int(one), int(two)) for one, two in zip(first, last, strict=True)]
        self.keys: list[Key] = [
            (topic, f"p{number}")
            for topic, numbers in zip(workload.topics, self._publishers, strict=True)
            for number in numbers
        ]
        """By publisher."""
        self._copies: list[Mapping[str, float]] = [
            {HEAD: float((row > 0).sum())}
            | {name: float(row[edge]) for edge, name in enumerate(EDGES) if row[edge] > 0}
            for row in served
        ]

    def vote(self, flow: Flow, now: float) -> None:
        """A second has passed: every subscriber says what it thinks of those whom it has heard."""
        before = np.floor(self._heard)
        self._heard += flow.delivered
        heard = (np.floor(self._heard) - before).astype(int).tolist()
        for topic, numbers, opinions in zip(
            self._workload.topics, self._publishers, self._workload.taken_for, strict=True
        ):
            for subscriber, row in enumerate(opinions.tolist()):
                votes = {
                    self.keys[number][1]: Vote(heard[number], utility)
                    for number, utility in zip(numbers, row, strict=True)
                    if heard[number]
                }
                if votes:
                    self._opinions.heard(f"{topic}/{subscriber}", 1.0, topic, votes, now)

    # -- what congestion control asks for -------------------------------------------------------------------

    def loads(self, now: float) -> Mapping[str, BrokerLoad]:
        """How all brokers are."""
        return self._brokers.loads(now)

    def declared(self, now: float) -> Mapping[str, EventId | None]:
        """Those of whom it is evident."""
        return self._declared

    def declare(self, load: BrokerLoad, tried: Sequence[str], now: float) -> None:
        """A broker must lose more than anybody can take."""
        self._declared[load.broker] = None

    def settle(self, short: Sequence[str]) -> None:
        """Brokers that congestion control no longer knows as short are declared no more."""
        self._declared = {broker: event for broker, event in self._declared.items() if broker in short}

    def room_elsewhere(self, load: BrokerLoad, now: float) -> Amounts:
        """None: the thesis has control begin when some brokers are overloaded (`e:2523-2525`), and moves
        nobody in this experiment."""
        return Amounts()

    def offers(self, now: float) -> Sequence[TopicOffer]:
        """All topics; none is protected."""
        work, opinions = self._workload, self._opinions
        found = []
        for place, (topic, numbers) in enumerate(zip(work.topics, self._publishers, strict=True)):
            names = [self.keys[number][1] for number in numbers]
            publishers = tuple(
                PublisherOffer(
                    publisher=name,
                    utility=opinions.utility(topic, name, now),
                    offered_msg_s=float(work.rate_msg_s[number]),
                    said_msg_s=float(self.rates[number]),
                    size_bytes=float(work.size_bytes[place]),
                )
                for name, number in zip(names, numbers, strict=True)
            )
            found.append(
                TopicOffer(
                    topic=topic,
                    utility=opinions.topic_utility(topic, names, now),
                    subscribers=int(work.subscribers[place]),
                    publishers=publishers,
                    copies=self._copies[place],
                )
            )
        return found
