"""A head and four edges as the agents' load detectors see them: counters that grow, capacities that may
fall."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mangrove.control.load.detector import LoadDetector
from mangrove.evaluation.fdcc.traffic import Flow
from mangrove.evaluation.fdcc.workload import BROKERS, HEAD, Floats, Workload
from mangrove.model.agents.load import Amounts, BrokerLoad, BrokerSample
from mangrove.model.balancing import Balancing

_ROUNDING = 1e-3
"""Counters are whole numbers; sums of parts of a second are so but for rounding."""


class Brokers:
    """Production detectors over simulated counters."""

    def __init__(self, workload: Workload, balancing: Balancing) -> None:
        self._matching = workload.matching_msg_s
        self.detectors = {
            name: LoadDetector(name, "head" if name == HEAD else "edge", capacity, balancing)
            for name, capacity in zip(BROKERS, self._amounts(workload.bandwidth_bytes_s), strict=True)
        }
        self._counted = np.zeros((len(BROKERS), 3))
        self._known: dict[str, BrokerLoad] = {}

    def _amounts(self, bandwidth_bytes_s: Floats) -> list[Amounts]:
        return [
            Amounts(float(each), float(each), float(matching))
            for each, matching in zip(bandwidth_bytes_s, self._matching, strict=True)
        ]

    def set_bandwidth(self, bandwidth_bytes_s: Floats) -> None:
        """What brokers can carry from now on, as an operator or a testbed tells the agent."""
        for name, capacity in zip(BROKERS, self._amounts(bandwidth_bytes_s), strict=True):
            self.detectors[name].capacity = capacity

    def carry(self, flow: Flow, span_s: float) -> None:
        """Let traffic flow for a while."""
        self._counted += flow.carried * span_s

    def measure(self, now: float) -> Mapping[str, BrokerLoad]:
        """Have every detector take a sample."""
        for number, (name, detector) in enumerate(self.detectors.items()):
            bytes_in, bytes_out, messages_in = (int(each + _ROUNDING) for each in self._counted[number])
            sample = BrokerSample(
                broker=name,
                started="0",
                messages_in=messages_in,
                messages_out=messages_in,
                bytes_in=bytes_in,
                bytes_out=bytes_out,
            )
            self._known[name] = detector.sample(sample, now)
        return self._known

    def loads(self, now: float) -> Mapping[str, BrokerLoad]:
        """How all brokers are."""
        return self._known or {name: detector.load(now) for name, detector in self.detectors.items()}
