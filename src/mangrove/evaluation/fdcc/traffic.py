"""Traffic through a head and its edges: what each broker is asked to carry, what it carries, what is lost.

Publishers reach the head, which sends each edge one copy of each topic that it serves; the edge sends one
to each subscriber. What exceeds a capacity is lost at random among what passes (tail drop): of every topic
the same part. Amounts are means of a second.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mangrove.evaluation.fdcc.workload import EDGES, Floats, Workload

QUEUE_BYTES = float(64 << 20)
"""What waits at a broker whose capacity is exceeded: as much as a broker lets wait by default."""


@dataclass(frozen=True, slots=True)
class Flow:
    """One second's traffic. Loads have a row for each broker, the head first: bytes in, out, messages in."""

    offered: Floats
    """If nothing were lost on the way."""
    carried: Floats
    """What comes through; never more than the capacity."""
    capacity: Floats
    delivered: Floats
    """By publisher: messages to each of its subscribers, in the mean."""
    wait_s: Floats
    """By topic: for how long messages wait at brokers whose capacity is exceeded."""

    @property
    def utilisation(self) -> Floats:
        """As it is measured: at most 1."""
        return np.asarray(self.carried / self.capacity)


class Star:
    """Which edge serves whom."""

    def __init__(self, workload: Workload, served: Floats) -> None:
        """`served`: subscribers by topic and edge."""
        self._workload = workload
        self._served = served
        self._hosted = (served > 0).astype(np.float64)
        self._share = served / np.maximum(1.0, served.sum(axis=1, keepdims=True))
        self._topic_of = workload.topic_of

    def flow(self, rates: Floats, bandwidth_bytes_s: Floats) -> Flow:
        """What becomes of what publishers say: `rates` in messages/s, by publisher."""
        work = self._workload
        topics = len(work.size_bytes)
        said = np.bincount(self._topic_of, weights=rates, minlength=topics)
        said = said * (self._served.sum(axis=1) > 0)
        bytes_said = said * work.size_bytes
        copies = self._hosted.sum(axis=1)
        offered = np.zeros((1 + len(EDGES), 3))
        offered[0] = bytes_said.sum(), float(bytes_said @ copies), said.sum()
        offered[1:, 0] = self._hosted.T @ bytes_said
        offered[1:, 1] = self._served.T @ bytes_said
        offered[1:, 2] = self._hosted.T @ said
        capacity = np.stack((bandwidth_bytes_s, bandwidth_bytes_s, work.matching_msg_s), axis=1)

        taken = _part(offered[0, [0, 2]], capacity[0, [0, 2]])
        sent = _part(taken * offered[0, 1], capacity[0, 1])
        arriving = taken * sent
        carried = np.empty_like(offered)
        carried[0] = taken * offered[0, 0], taken * sent * offered[0, 1], taken * offered[0, 2]
        part, wait = np.empty(len(EDGES)), np.empty(len(EDGES))
        head_wait = _wait(taken, capacity[0, 0]) + _wait(sent, capacity[0, 1])
        for edge in range(len(EDGES)):
            load, room = offered[1 + edge] * arriving, capacity[1 + edge]
            edge_taken = _part(load[[0, 2]], room[[0, 2]])
            edge_sent = _part(edge_taken * load[1], room[1])
            carried[1 + edge] = edge_taken * load[0], edge_taken * edge_sent * load[1], edge_taken * load[2]
            part[edge] = arriving * edge_taken * edge_sent
            wait[edge] = head_wait + _wait(edge_taken, room[0]) + _wait(edge_sent, room[1])
        return Flow(
            offered,
            carried,
            capacity,
            rates * (self._share @ part)[self._topic_of],
            self._share @ wait,
        )


def _part(load: Floats | float, room: Floats | float) -> float:
    """The part of a load that a broker can carry."""
    return float(min(1.0, np.min(np.divide(room, np.maximum(load, 1e-9)))))


def _wait(part: float, room_bytes_s: float) -> float:
    return QUEUE_BYTES / float(room_bytes_s) if part < 1.0 else 0.0
