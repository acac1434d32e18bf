"""What the domain's gateway has asked of a broker, from nats-server's `/leafz?subs=1`."""

from __future__ import annotations

import msgspec

from mangrove.broker.nats.monitoring import PageTooLargeError, fetch
from mangrove.model.endpoints import BrokerEndpoints
from mangrove.model.subjects import REPLY_PREFIX, is_internal
from mangrove.model.unreadable import UNREADABLE


class _Leaf(msgspec.Struct):
    subscriptions_list: list[str] = []


class _Leafz(msgspec.Struct):
    leafs: list[_Leaf] = []


async def leaf_subscriptions(broker: BrokerEndpoints) -> list[frozenset[str]]:
    """The subjects that each leaf-node connection of a broker asks for; empty if the broker does not tell."""
    try:
        page = await fetch(f"{broker.monitor_url}/leafz?subs=1")
        leafz = _Leafz() if page is None else msgspec.json.decode(page, type=_Leafz)
    except (PageTooLargeError, *UNREADABLE):
        return []
    return [frozenset(leaf.subscriptions_list) for leaf in leafz.leafs]


async def gateway_subscriptions(broker: BrokerEndpoints) -> frozenset[str] | None:
    """What other domains want of a broker, as far as it has heard; None if no gateway is behind any leaf.

    A gateway is known by its subscription to replies. An edge hears of it through its head broker, together
    with what the rest of its own domain wants.
    """
    for subjects in await leaf_subscriptions(broker):
        if f"{REPLY_PREFIX}>" in subjects:
            return frozenset(subject for subject in subjects if not is_internal(subject))
    return None
