"""What of a broker's capacity the publishers that can be limited may use."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from mangrove.control.congestion.steadiness import Steady
from mangrove.control.congestion.surroundings import TopicOffer
from mangrove.control.load.capacity import MARGIN, load_of
from mangrove.model.agents.load import Amounts, BrokerLoad, Metric
from mangrove.model.balancing import Balancing

TOLERANCE = 0.02
"""Of a capacity: what others use is taken to be the same as long as it has changed by less."""
FALL = 0.3
"""What others use is taken to be more at once, and less by this part of the difference at a time."""
AFTER_S = 6.0
"""Also while limits change all the time, what others use is looked at so often."""


class Budgets:
    """Watches what others use: what was measured, less what publishers that can be limited account for.

    Brokers and clients do not measure at the same moments. While limits have just changed, the difference is
    no background but the change; then it is left as it was.
    """

    def __init__(self, balancing: Balancing) -> None:
        self._balancing = balancing
        self._background: Steady[tuple[str, Metric]] = Steady()
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
                others = max(0.0, measured.of(metric) - said[broker].of(metric))
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
        return max(0.0, (share - MARGIN) * capacity - others)

    def forget(self) -> None:
        """Nobody is limited: the next look begins anew."""
        self._background.clear()
        self._looked_at.clear()


def carried(offers: Iterable[TopicOffer], brokers: Iterable[str]) -> dict[str, Amounts]:
    """What these publishers' messages that got through come to at each broker."""
    sums = {broker: [0.0, 0.0, 0.0] for broker in brokers}
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
    return {broker: Amounts(*amounts) for broker, amounts in sums.items()}
