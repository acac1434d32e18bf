"""The first 100 seconds: the clients of one topic register in each, and the agents' distribution places
them."""

from __future__ import annotations

import numpy as np

from mangrove.control.distribution import Candidate, Distributor, Newcomer
from mangrove.evaluation.fdcc.brokers import Brokers
from mangrove.evaluation.fdcc.traffic import Star
from mangrove.evaluation.fdcc.workload import EDGES, REGISTERED_S, Floats, Workload
from mangrove.model.balancing import Balancing, Placement


def registered(workload: Workload, balancing: Balancing) -> Floats:
    """Subscribers by topic and edge once all are there: the same for every arm."""
    brokers = Brokers(workload, balancing)
    distributor = Distributor(balancing, Placement.LAN, workload.seed)
    served: Floats = np.zeros((len(workload.topics), len(EDGES)))
    brokers.measure(0.0)
    for second in range(REGISTERED_S):
        topic = workload.topics[second]
        loads = brokers.loads(float(second))
        for _ in range(int(workload.subscribers[second])):
            serving = tuple(name for edge, name in enumerate(EDGES) if served[second, edge] > 0)
            candidates = [
                Candidate(loads[name], int((served[:, edge] > 0).sum())) for edge, name in enumerate(EDGES)
            ]
            place = distributor.assign(Newcomer(topic, serving), candidates, float(second))
            served[second, EDGES.index(place.broker)] += 1
        brokers.carry(Star(workload, served).flow(workload.rate_msg_s, workload.bandwidth_bytes_s), 1.0)
        brokers.measure(second + 1.0)
    return served
