"""Who subscribes to what at a broker, from nats-server's `/connz?subs=detail`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import msgspec

from mangrove.broker.nats.monitoring import fetch
from mangrove.model.endpoints import BrokerEndpoints
from mangrove.model.shared_names import TAP_NAME
from mangrove.model.subjects import is_internal, matches

PAGE = 1024
MOST_CONNECTIONS = 16 * PAGE


class _Subscription(msgspec.Struct):
    subject: str = ""
    sid: str = ""
    msgs: int = 0


class _Connection(msgspec.Struct):
    cid: int = 0
    kind: str = "Client"
    name: str = ""
    subscriptions_list_detail: list[_Subscription] = []


class _Connz(msgspec.Struct):
    connections: list[_Connection] = []
    total: int = 0


@dataclass(slots=True)
class Subscriptions:
    """Subscriptions at a broker: how many have each pattern, and what each has been handed so far."""

    count: Counter[str] = field(default_factory=Counter)
    handed: dict[tuple[int, str], tuple[str, int]] = field(default_factory=dict)
    """(connection, subscription id) → pattern and messages"""

    def matching(self, topic: str) -> tuple[int, int]:
        """Subscriptions and distinct patterns that match a topic."""
        patterns = [pattern for pattern in self.count if matches(pattern, topic)]
        return sum(self.count[pattern] for pattern in patterns), len(patterns)


async def subscriptions(broker: BrokerEndpoints) -> Subscriptions | None:
    """All subscriptions of clients at a broker, the tap's and internal ones left out; None if it is away."""
    if broker.monitor_url is None:
        return None
    found = Subscriptions()
    offset = 0
    while offset < MOST_CONNECTIONS:
        page = await fetch(f"{broker.monitor_url}/connz?subs=detail&limit={PAGE}&offset={offset}")
        if page is None:
            return None
        try:
            connz = msgspec.json.decode(page, type=_Connz)
        except msgspec.DecodeError:
            return None
        for connection in connz.connections:
            # Leaf nodes are on the page too: edges, which are asked themselves, and the gateway, whose
            # patterns are what other domains want.
            if connection.name == TAP_NAME or connection.kind != "Client":
                continue
            for each in connection.subscriptions_list_detail:
                if not is_internal(each.subject):
                    found.count[each.subject] += 1
                    found.handed[connection.cid, each.sid] = (each.subject, each.msgs)
        offset += PAGE
        if offset >= connz.total:
            break
    return found
