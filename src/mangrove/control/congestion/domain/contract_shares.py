"""Contracts with a rate: what each of a topic's publishers in this domain may say of it."""

from __future__ import annotations

from collections.abc import Mapping

from mangrove.control.clients.placements import Placements
from mangrove.control.congestion.domain.demand import SILENT, Demand
from mangrove.control.congestion.steadiness import Steady
from mangrove.model.agents.registration import ClientRole
from mangrove.model.congestion.rate_limit import RateLimit
from mangrove.model.topics import TopicRules

TOLERANCE = 0.03
"""What a publisher offers is taken to be the same as long as it has changed by less than this part.

It is below `shares.MARGIN`, or who says less than its share would be cut off by it.
"""


class ContractShares:
    """Shares of all topics whose contract has a rate, and that several clients publish.

    Who publishes such a topic alone keeps to its contract without being told.
    """

    def __init__(self, rules: TopicRules, placements: Placements, demand: Demand) -> None:
        self._rules = rules
        self._placements = placements
        self._demand = demand
        self._limited = any(
            contract.rate_msg_s is not None or contract.rate_bytes_s is not None
            for contract in rules.contracts
        )
        self._topics: set[str] = set()
        """Published topics whose contract has a rate."""
        self._steady: Steady[tuple[str, str, int]] = Steady()

    def published(self, topic: str) -> None:
        """A client has begun to publish a topic, or ended."""
        if not self._limited:
            return
        contract = self._rules.contract_of(topic)
        rated = contract.rate_msg_s is not None or contract.rate_bytes_s is not None
        if rated and self._placements.count(ClientRole.PUBLISHER, topic):
            self._topics.add(topic)
        else:
            self._topics.discard(topic)

    def __bool__(self) -> bool:
        return bool(self._topics)

    def limits(self) -> dict[str, dict[str, RateLimit]]:
        """By client and topic."""
        from mangrove.control.congestion.shares import Offer, contract_limits

        found: dict[str, dict[str, RateLimit]] = {}
        keys: set[tuple[str, str, int]] = set()
        for topic in self._topics:
            publishers = self._publishers(topic)
            if len(publishers) < 2:
                continue
            contract = self._rules.contract_of(topic)
            offers = {}
            for client in publishers:
                offering = self._demand.of(client).get(topic, SILENT)
                keys |= {(client, topic, 0), (client, topic, 1)}
                offers[client] = Offer(
                    self._steady.near((client, topic, 0), offering.msg_s, TOLERANCE * offering.msg_s),
                    self._steady.near((client, topic, 1), offering.bytes_s, TOLERANCE * offering.bytes_s),
                )
            limits: Mapping[str, RateLimit] = contract_limits(
                contract.rate_msg_s, contract.rate_bytes_s, offers
            )
            for client, limit in limits.items():
                found.setdefault(client, {})[topic] = limit
        self._steady.keep_only(keys)
        return found

    def _publishers(self, topic: str) -> list[str]:
        clients: dict[str, None] = {}
        for broker in self._placements.brokers(ClientRole.PUBLISHER, topic):
            clients |= dict.fromkeys(
                each.client for each in self._placements.members(ClientRole.PUBLISHER, topic, broker)
            )
        return sorted(clients)
