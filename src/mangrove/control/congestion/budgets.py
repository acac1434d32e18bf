"""What of a broker's capacity the publishers that can be limited may use."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from mangrove.control.congestion.steadiness import Steady
from mangrove.control.congestion.surroundings import TopicOffer
from mangrove.control.load.capacity import MARGIN, load_of
from mangrove.model.agents.load import Amounts, BrokerLoad, Metric
from mangrove.model.balancing import Balancing

TOLERANCE = 0.02
"""Of a capacity: what others use is taken to be the same as long as it has changed by less."""
FALL = 0.3
"""What others use is taken to be more at once, and less by this part of the difference at a time."""
ALL_MESSAGES = 0.1
"""If the messages differ by less than this part, no others use the broker: then bytes differ by overhead."""
MAX_OVERHEAD = 4.0
"""Times what clients tell of their messages' sizes: that much heads may add, and no more is believed."""
AFTER_S = 6.0
"""Also while limits change all the time, what others use is looked at so often."""


class Budgets:
    """Watches what others use: what was measured, less what publishers that can be limited account for.

    Brokers and clients do not measure at the same moments. While limits have just changed, the difference is
    no background but the change; then it is left as it was. Brokers count heads of messages too, clients do
    not: what differs in bytes but not in messages is overhead, which falls with what is said.
    """

    def __init__(self, balancing: Balancing) -> None:
        self._balancing = balancing
        self._background: Steady[tuple[str, Metric]] = Steady()
        self._overheads: Steady[tuple[str, Metric]] = Steady()
        self._looked_at: dict[str, float] = {}

    def look(
        self, loads: Mapping[str, BrokerLoad], offers: Iterable[TopicOffer], now: float, changed_at: float
    ) -> None:
        """Loads were measured; limits last changed at `changed_at`."""
        said = carried(offers, loads)
        settled_at = changed_at + (self._balancing.window + 1) * self._balancing.period_s
        for broker, load in loads.items():
            looked_at = self._looked_at.get(broker)
            if looked_at is not None and now < min(settled_at, looked_at + AFTER_S):
                continue
            if not load.utilisation:
                continue
            self._looked_at[broker] = now
            measured = load_of(load)
            for metric, capacity in load.capacity.items():
                mine = said[broker]
                if (overhead := _overhead(load, mine, metric)) is not None:
                    self._overheads.near((broker, metric), overhead, TOLERANCE * overhead)
                accounted = self._overhead(broker, metric) * mine.amounts.of(metric)
                others = max(0.0, measured.of(metric) - accounted)
                known = self._background.get((broker, metric))
                if known is not None and others < known:
                    others = known + FALL * (others - known)
                self._background.near((broker, metric), others, FALL * TOLERANCE * capacity)

    def of(self, load: BrokerLoad, share: float) -> Amounts:
        """What is left of a share of a broker's capacity, after what others use; infinite where unknown."""
        return Amounts(*(self._left(load, metric, share) for metric in Metric))

    def _left(self, load: BrokerLoad, metric: Metric, share: float) -> float:
        capacity = load.capacity.get(metric)
        if capacity is None:
            return math.inf
        others = self._background.get((load.broker, metric)) or 0.0
        left = (share - MARGIN) * capacity - others
        return max(0.0, left / self._overhead(load.broker, metric))

    def utilisation(self, load: BrokerLoad, amounts: Amounts) -> dict[Metric, float]:
        """Of a broker's capacity, by metric, if publishers said so much, and others what they do."""
        return {
            metric: (
                (self._background.get((load.broker, metric)) or 0.0)
                + amounts.of(metric) * self._overhead(load.broker, metric)
            )
            / capacity
            for metric, capacity in load.capacity.items()
        }

    def _overhead(self, broker: str, metric: Metric) -> float:
        """How many times what clients tell of it a message is to a broker."""
        return self._overheads.get((broker, metric)) or 1.0

    def forget(self) -> None:
        """Nobody is limited: the next look begins anew."""
        self._background.clear()
        self._overheads.clear()
        self._looked_at.clear()


class Carried(NamedTuple):
    """What publishers' messages come to at one broker."""

    amounts: Amounts
    messages_out_s: float


def carried(offers: Iterable[TopicOffer], brokers: Iterable[str]) -> dict[str, Carried]:
    """What these publishers' messages that got through come to at each broker."""
    sums = {broker: [0.0, 0.0, 0.0, 0.0] for broker in brokers}
    for offer in offers:
        messages_s = bytes_s = 0.0
        for publisher in offer.publishers:
            messages_s += publisher.said_msg_s
            bytes_s += publisher.said_msg_s * publisher.size_bytes
        for broker, copies in offer.copies.items():
            if (amounts := sums.get(broker)) is not None:
                amounts[0] += bytes_s
                amounts[1] += bytes_s * copies
                amounts[2] += messages_s
                amounts[3] += messages_s * copies
    return {broker: Carried(Amounts(*amounts[:3]), amounts[3]) for broker, amounts in sums.items()}


def _overhead(load: BrokerLoad, said: Carried, metric: Metric) -> float | None:
    """How many times larger messages are to a broker than to clients; None if others use it too."""
    if metric is Metric.MATCHING:
        return None
    out = metric is Metric.OUTPUT
    measured_msg_s = load.messages_out_s if out else load.messages_in_s
    said_msg_s = said.messages_out_s if out else said.amounts.matching
    said_bytes_s = said.amounts.of(metric)
    if said_bytes_s <= 0.0 or abs(said_msg_s - measured_msg_s) > ALL_MESSAGES * measured_msg_s:
        return None
    a_message = load_of(load).of(metric) / measured_msg_s
    return min(MAX_OVERHEAD, max(1.0, a_message * said_msg_s / said_bytes_s))
