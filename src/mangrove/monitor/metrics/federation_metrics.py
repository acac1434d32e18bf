"""A snapshot of the federation as metrics."""

from __future__ import annotations

from typing import Protocol

from mangrove.host.web.exposition import exposition
from mangrove.host.web.health import Readiness
from mangrove.host.web.page_server import Page
from mangrove.model.metrics.agent import put_agent, put_brokers
from mangrove.model.metrics.families import Families
from mangrove.model.metrics.gateway import put_gateway
from mangrove.model.metrics.topics import MAX_TOPICS, TopicMetrics
from mangrove.monitor.feed.snapshot import Snapshot


class Watched(Protocol):
    """What has a snapshot of the federation: a `LiveFeed`, or whoever stands in for one."""

    @property
    def snapshot(self) -> Snapshot:
        """The federation as it was last heard."""


class FederationMetrics:
    """Collected from one feed; a domain that is away has no figures, only the mark that it is away."""

    def __init__(self, feed: Watched, *, max_topics: int = MAX_TOPICS) -> None:
        self._feed = feed
        self._max_topics = max_topics
        self._topics: dict[str, TopicMetrics] = {}

    def page(self) -> Page:
        """What a collector gets."""
        return exposition(self.families())

    async def counted(self) -> Families:
        """The same, for a server of pages."""
        return self.families()

    def readiness(self) -> Readiness:
        """Whether there is a federation to be collected from, and all of it is heard."""
        snapshot = self._feed.snapshot
        heard = {f"{name} is heard": each.connected for name, each in snapshot.presence.items()}
        return Readiness(
            process="monitor", checks={"a federation runs": snapshot.runtime is not None, **heard}
        )

    def families(self) -> Families:
        """All samples of this moment."""
        families, snapshot = Families(), self._feed.snapshot
        families.put("federation_healthy", _healthy(snapshot))
        for name, presence in snapshot.presence.items():
            families.put("domain_heard", presence.connected, name)
            families.put("domain_heard_timestamp_seconds", presence.seen_at, name)
            families.put("domain_updates_lost_total", presence.lost, name)
        for domain in snapshot.status.domains if snapshot.status is not None else ():
            name = domain.domain
            if not snapshot.presence[name].connected:
                continue
            put_gateway(families, name, domain.gateway)
            put_agent(families, name, domain.agent)
            put_brokers(families, name, domain.brokers)
            for host in domain.hosts:
                for process, runs in (*((p, 1) for p in host.running), *((p, 0) for p in host.down)):
                    families.put("process_up", runs, name, host.host, process)
            if domain.gateway is not None and name in snapshot.topics:
                topics = self._topics.setdefault(name, TopicMetrics(self._max_topics))
                topics.put(families, snapshot.topics[name])
        return families


def _healthy(snapshot: Snapshot) -> bool:
    heard = all(each.connected for each in snapshot.presence.values())
    return snapshot.status is not None and snapshot.status.healthy and heard
