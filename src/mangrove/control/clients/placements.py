"""Which wish is served where: by topic and broker, for subscribers and publishers apart."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from mangrove.model.agents.registration import ClientRole, Wish

WishId = tuple[str, str]
"""A client and its key of the wish."""


class Served(msgspec.Struct):
    """One wish of a client, and the broker that serves it."""

    client: str
    wish: Wish
    broker: str
    """Empty as long as nothing was decided; of another domain, if the wish is served there."""

    @property
    def id(self) -> WishId:
        """Names it among all wishes of the domain."""
        return self.client, self.wish.key

    @property
    def topic(self) -> str:
        """What the directory knows it by."""
        return self.wish.subject


_Places = dict[str, dict[str, dict[WishId, Served]]]


class Placements:
    """An index of wishes; every change costs the same however many there are."""

    def __init__(self) -> None:
        self._places: dict[ClientRole, _Places] = {role: {} for role in ClientRole}
        self.counts: dict[ClientRole, int] = dict.fromkeys(ClientRole, 0)

    def add(self, served: Served) -> None:
        """Take a wish in."""
        topic = self._places[served.wish.role].setdefault(served.topic, {})
        topic.setdefault(served.broker, {})[served.id] = served
        self.counts[served.wish.role] += 1

    def remove(self, served: Served) -> None:
        """Take a wish out."""
        topics = self._places[served.wish.role]
        brokers = topics[served.topic]
        members = brokers[served.broker]
        del members[served.id]
        self.counts[served.wish.role] -= 1
        if not members:
            del brokers[served.broker]
            if not brokers:
                del topics[served.topic]

    def move(self, served: Served, broker: str) -> None:
        """A wish is served elsewhere."""
        self.remove(served)
        served.broker = broker
        self.add(served)

    def members(self, role: ClientRole, topic: str, broker: str) -> list[Served]:
        """The wishes for a topic at a broker."""
        return list(self._places[role].get(topic, {}).get(broker, {}).values())

    def brokers(self, role: ClientRole, topic: str) -> dict[str, int]:
        """Brokers that serve a topic, with the number of wishes at each."""
        return {broker: len(members) for broker, members in self._places[role].get(topic, {}).items()}

    def count(self, role: ClientRole, topic: str) -> int:
        """Wishes for a topic, wherever they are served."""
        return sum(map(len, self._places[role].get(topic, {}).values()))

    def topics(self, role: ClientRole) -> Iterator[str]:
        """Every topic that somebody wishes for."""
        return iter(self._places[role])

    def problems(self) -> list[str]:
        """Invariants that do not hold; for tests."""
        return [
            f"{served.id} is at {served.broker} and indexed under {topic} at {broker}"
            for topics in self._places.values()
            for topic, brokers in topics.items()
            for broker, members in brokers.items()
            for served in members.values()
            if (served.topic, served.broker) != (topic, broker)
        ]
