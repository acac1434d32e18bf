"""A domain of four edges in virtual time: traffic, counters and clients, as the agents' code sees a real one.

It gives `Surroundings` to the session coordinator and counters to the load detectors; what it knows beyond
that (where each subscriber really is, what waits in a queue) only the experiment sees.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from mangrove.control.clients.placements import WishId
from mangrove.control.load.detector import LoadDetector
from mangrove.control.offloading.problem import Audience, Bundle, Member
from mangrove.evaluation.drd.setting import Setting
from mangrove.evaluation.drd.workload import BANDWIDTH_BYTES_S, EDGES, Floats, Workload
from mangrove.model.agents.load import Amounts, BrokerLoad, BrokerSample, ClusterLoad
from mangrove.model.agents.registration import Assignment
from mangrove.model.balancing import Balancing
from mangrove.model.events.event_log import EventId

_ROUNDING = 1e-3
"""Counters are whole numbers; sums of parts of a second are so but for rounding."""


class Cluster:
    """Edges with subscribers, and a head that feeds them one copy of each topic that they serve."""

    def __init__(self, workload: Workload, setting: Setting, balancing: Balancing) -> None:
        bandwidth = math.inf if setting.matching_only else BANDWIDTH_BYTES_S
        self.workload = workload
        self.topics = workload.topics
        self.now = 0.0
        self.detectors = {
            name: LoadDetector(name, "edge", Amounts(bandwidth, bandwidth, capacity), balancing)
            for name, capacity in zip(EDGES, workload.capacity_msg_s, strict=True)
        }
        self._index = {topic: number for number, topic in enumerate(self.topics)}
        self._edge = {name: number for number, name in enumerate(EDGES)}
        self._capacity = np.array([[bandwidth, bandwidth, each] for each in workload.capacity_msg_s])
        self._served: dict[tuple[int, int], dict[int, None]] = {}
        """Topic and edge → the subscribers there, in order."""
        self._at: dict[tuple[int, int], int] = {}
        """Topic and subscriber → edge."""
        self._counts = np.zeros((len(self.topics), len(EDGES)))
        self._rates: Floats = np.zeros(len(self.topics))
        self._load = np.zeros((len(EDGES), 3))
        self._counted = np.zeros((len(EDGES), 4))
        self._waiting = np.zeros((len(EDGES), 3))
        self._stale = True
        self._known: dict[str, BrokerLoad] = {}
        """What the detectors said at `_known_at`, of those that were asked since something changed."""
        self._known_at = -1.0

    # -- traffic --------------------------------------------------------------------------------------------

    def set_rates(self, rates: Floats) -> None:
        """Publishers have another rate from now on."""
        self._rates = rates
        self._stale = True

    def run_to(self, now: float) -> None:
        """Let traffic flow; what an edge cannot take waits there."""
        span_s = now - self.now
        if span_s <= 0:
            return
        self._refresh()
        messages_out = (self._counts.T @ self._rates) * span_s
        self._counted[:, 0] += self._load[:, 2] * span_s
        self._counted[:, 1] += messages_out
        self._counted[:, 2] += self._load[:, 0] * span_s
        self._counted[:, 3] += self._load[:, 1] * span_s
        surplus = np.where(np.isfinite(self._capacity), self._load - self._capacity, -math.inf) * span_s
        self._waiting = np.maximum(0.0, self._waiting + surplus)
        self.now = now

    def exchanged(self) -> list[int]:
        """Messages in and out of each edge since the beginning."""
        return [int(each + _ROUNDING) for each in self._counted[:, :2].sum(axis=1)]

    def drain_s(self, broker: str) -> float:
        """How long an edge needs for what waits in it."""
        edge = self._edge[broker]
        return float(np.max(self._waiting[edge] / self._capacity[edge]))

    def measure(self, now: float) -> list[BrokerLoad]:
        """Have every detector take a sample."""
        self._known = {
            name: detector.sample(self._sample(name), now) for name, detector in self.detectors.items()
        }
        self._known_at = now
        return list(self._known.values())

    def _sample(self, broker: str) -> BrokerSample:
        """What an edge has counted, as its monitoring page says it."""
        messages_in, messages_out, bytes_in, bytes_out = (
            int(each + _ROUNDING) for each in self._counted[self._edge[broker]]
        )
        return BrokerSample(
            broker=broker,
            started="0",
            messages_in=messages_in,
            messages_out=messages_out,
            bytes_in=bytes_in,
            bytes_out=bytes_out,
            connections=int(self._counts[:, self._edge[broker]].sum()),
        )

    def _refresh(self) -> None:
        if not self._stale:
            return
        bytes_s = self._rates * self.workload.size_bytes
        hosted = (self._counts > 0).T
        self._load = np.stack((hosted @ bytes_s, self._counts.T @ bytes_s, hosted @ self._rates), axis=1)
        self._stale = False

    # -- clients --------------------------------------------------------------------------------------------

    def place(self, topic: str, subscriber: int, broker: str) -> None:
        """A subscriber is served at an edge from now on."""
        number, edge = self._index[topic], self._edge[broker]
        before = self._at.get((number, subscriber))
        if before == edge:
            return
        if before is not None:
            del self._served[number, before][subscriber]
            self._counts[number, before] -= 1
        self._served.setdefault((number, edge), {})[subscriber] = None
        self._at[number, subscriber] = edge
        self._counts[number, edge] += 1
        self._stale = True

    def serving(self, topic: str) -> tuple[str, ...]:
        """The edges that serve a topic."""
        row = self._counts[self._index[topic]]
        return tuple(name for name, edge in self._edge.items() if row[edge] > 0)

    def at(self, client: str) -> str:
        """Where a client is served."""
        topic, _, subscriber = client.rpartition("/")
        return EDGES[self._at[self._index[topic], int(subscriber)]]

    def deadline_s(self, topic: str) -> float:
        """A topic's delay requirement."""
        return float(self.workload.deadline_s[self._index[topic]])

    # -- what the sessions ask for --------------------------------------------------------------------------

    def loads(self, now: float) -> Mapping[str, BrokerLoad]:
        """How all edges are; the head's capacity is such that it never binds."""
        if now != self._known_at:
            self._known, self._known_at = {}, now
        for name, detector in self.detectors.items():
            if name not in self._known:
                self._known[name] = detector.load(now)
        return {name: self._known[name] for name in self.detectors}

    def set_busy(self, broker: str, session: str) -> bool:
        """An edge takes part in a session."""
        self._known.pop(broker, None)
        return self.detectors[broker].set_busy(session)

    def clear_busy(self, broker: str, session: str) -> None:
        """It no longer does."""
        self._known.pop(broker, None)
        self.detectors[broker].clear_busy(session)

    def changed_by(self, broker: str) -> EventId | None:
        """No events are kept of states."""
        return None

    def bundles(self, broker: str, now: float, *, publishers: bool) -> Sequence[Bundle]:
        """The topics of an edge with their rates of this second, which a profile would know a second
        later."""
        edge = self._edge[broker]
        found: list[Bundle] = []
        for number in np.nonzero(self._counts[:, edge])[0].tolist():
            topic, rate = self.topics[number], float(self._rates[number])
            bytes_s = rate * float(self.workload.size_bytes[number])
            each = Amounts(0.0, bytes_s, 0.0)
            members = tuple(
                Member(f"{topic}/{subscriber}", topic, each) for subscriber in self._served[number, edge]
            )
            output = bytes_s * len(members)
            found.append(
                Bundle(
                    topic=topic,
                    audience=Audience.LOCAL,
                    deadline_s=float(self.workload.deadline_s[number]),
                    load=Amounts(bytes_s, output, rate),
                    stream=Amounts(bytes_s, 0.0, rate),
                    output=output,
                    members=members,
                )
            )
        return found

    def topics_at(self, broker: str) -> frozenset[str]:
        """What an edge serves."""
        return frozenset(self.topics[number] for number in np.nonzero(self._counts[:, self._edge[broker]])[0])

    def members(self, topic: str, broker: str, *, publishers: bool) -> Iterable[WishId]:
        """Subscribers of a topic at an edge."""
        served = self._served.get((self._index[topic], self._edge[broker]), {})
        return [(f"{topic}/{subscriber}", topic) for subscriber in served]

    def assignment(self, topic: str, broker: str) -> Assignment:
        """Where they go."""
        return Assignment(broker=broker, url="", epoch=0)

    def follow(self, topic: str, now: float, decision: EventId | None) -> None:
        """There is no directory to keep."""

    def may_leave(self, topic: str, members: Iterable[WishId] = ()) -> bool:
        """The thesis's experiment has one cluster."""
        return False

    def neighbours(self, now: float) -> Mapping[str, ClusterLoad]:
        """None."""
        return {}

    def pause_s(self, peer: str) -> float:
        """Nothing is sent to other domains."""
        return 0.0
