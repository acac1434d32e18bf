"""The load profile of a domain: fed by registrations and reports, asked for one broker's bundles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from msgspec.structs import replace

from mangrove.control.offloading.problem import Bundle
from mangrove.control.profile.bundles import (
    AudienceOf,
    Flow,
    NeighboursFed,
    TopicMembers,
    publisher_bundles,
    subscriber_bundles,
)
from mangrove.control.profile.deadlines import contract_deadline_s
from mangrove.control.profile.plain_clients import PlainClients, PlainLoad
from mangrove.control.profile.traffic import ClientTraffic, Stream, report_problem
from mangrove.control.stimuli import PlainClientsSeen
from mangrove.model.agents.load import BrokerLoad
from mangrove.model.agents.registration import MIRRORED_KEY, ClientRole, Report, Wish
from mangrove.model.balancing import Balancing
from mangrove.model.shared_names import MIRROR_PREFIX
from mangrove.model.topics import TopicRules

MAX_STREAMS = 1_000_000
DISBELIEF = 1.5
"""A client that reports so many times what its broker carried in all is not believed."""
DISBELIEF_BYTES_S = 100_000
"""The same, in addition: brokers and clients do not measure at the same moments."""
MIN_FACTOR = 0.75
"""How far reports are scaled down when they add up to more than their broker carried: about as far as small
messages of the SDK need it. A larger difference comes from load that changes between the two measurements."""


Brokers = dict[str, dict[str, TopicMembers]]


class LoadProfile:
    """Every wish of the domain's SDK clients with its broker and traffic, and what plain clients take.

    A report costs as much as it names wishes; sums are made when a broker's bundles are asked for.
    """

    def __init__(self, balancing: Balancing, rules: TopicRules) -> None:
        self.refused: Counter[str] = Counter()
        """Reports, or parts of them, by reason."""
        self._window = balancing.window
        self._rules = rules
        self._clients: dict[str, ClientTraffic] = {}
        self._streams = 0
        self._members: dict[ClientRole, dict[str, dict[str, TopicMembers]]] = {
            role: {} for role in ClientRole
        }
        """By role, broker and topic."""
        self._plain: dict[str, PlainClients] = {}

    def __len__(self) -> int:
        return self._streams

    def place(self, client: str, wish: Wish, broker: str) -> bool:
        """A client's wish is served by a broker from now on; False, and counted, when the profile is full.

        A wish that is registered again keeps its traffic, unless it is about something else.
        """
        traffic = self._clients.get(client)
        stream = None if traffic is None else traffic.streams.get(wish.key)
        if stream is not None and (stream.wish.role, stream.wish.subject) == (wish.role, wish.subject):
            stream.wish = wish
            self._put(stream, broker)
            return True
        if stream is not None:
            self.end(client, wish.key)
        if self._streams >= MAX_STREAMS:
            self.refused["profile is full"] += 1
            return False
        if traffic is None:
            traffic = self._clients[client] = ClientTraffic(client)
        stream = traffic.streams[wish.key] = Stream(traffic, wish, "")
        if wish.role is ClientRole.PUBLISHER:
            traffic.published[wish.subject] = stream
        self._streams += 1
        self._put(stream, broker)
        return True

    def mirror(self, client: str, wish: Wish, broker: str) -> None:
        """A subscription has every message a second time from this broker, or, if empty, no longer.

        Such copies cost a mirror its input, matching and output; they stay there when subscribers move.
        """
        key = wish.key + MIRRORED_KEY
        if broker:
            subject = MIRROR_PREFIX + wish.subject
            self.place(client, replace(wish, key=key, subject=subject, movable=False), broker)
        else:
            self.end(client, key)

    def moved(self, client: str, key: str, broker: str) -> bool:
        """A wish is served by another broker; False if it is not known."""
        traffic = self._clients.get(client)
        stream = None if traffic is None else traffic.streams.get(key)
        if stream is None:
            return False
        self._put(stream, broker)
        return True

    def end(self, client: str, key: str) -> None:
        """A wish is given up."""
        traffic = self._clients.get(client)
        stream = None if traffic is None else traffic.streams.pop(key, None)
        if traffic is None or stream is None:
            return
        self._take_out(stream)
        if traffic.published.get(stream.wish.subject) is stream:
            del traffic.published[stream.wish.subject]
        self._streams -= 1

    def leave(self, client: str) -> None:
        """A client is gone, with all that it wished."""
        traffic = self._clients.pop(client, None)
        for stream in () if traffic is None else traffic.streams.values():
            self._take_out(stream)
            self._streams -= 1

    def report(self, report: Report) -> str:
        """Take a client's report in; why it was refused, or nothing."""
        traffic = self._clients.get(report.client)
        problem = _client_problem(traffic, report) or report_problem(report)
        if problem:
            self.refused[problem] += 1
        elif traffic is not None and (unknown := traffic.take(report, self._window)):
            self.refused["not registered"] += unknown
        return problem

    def plain_clients_seen(self, seen: PlainClientsSeen, now: float) -> None:
        """A broker's page of connections."""
        refused = self._plain.setdefault(seen.broker, PlainClients()).take(seen, now)
        if refused:
            self.refused["plain client"] += refused

    def plain_clients(self, broker: str) -> tuple[PlainLoad, ...]:
        """The plain clients of a broker, those that take most of its output first."""
        plain = self._plain.get(broker)
        return () if plain is None else plain.loads

    def topics(self, broker: str) -> Mapping[str, object]:
        """What a broker serves to SDK subscribers: the keys of a mapping that must not be changed."""
        return self._members[ClientRole.SUBSCRIBER].get(broker, {})

    def rate(self, client: str, key: str) -> tuple[float, float]:
        """Messages and bytes in a second of one wish; nothing is known of others."""
        traffic = self._clients.get(client)
        stream = None if traffic is None else traffic.streams.get(key)
        return (0.0, 0.0) if stream is None else stream.smoothed(self._window)

    def subscribers(
        self, broker: str, audience: AudienceOf, measured: BrokerLoad | None = None
    ) -> tuple[Bundle, ...]:
        """The bundles that an edge can shed. What it was `measured` to send is stronger than reports."""
        topics = self._members[ClientRole.SUBSCRIBER].get(broker, {})
        plain = self.plain_clients(broker)
        plain_bytes_s = sum(load.bytes_s for load in plain)
        flows = self._flows(topics, None if measured is None else measured.bytes_out_s, plain_bytes_s)
        return tuple(subscriber_bundles(topics, plain, flows.get, audience))

    def publishers(
        self,
        broker: str,
        audience: AudienceOf,
        neighbours_fed: NeighboursFed,
        measured: BrokerLoad | None = None,
    ) -> tuple[Bundle, ...]:
        """The bundles that a head can shed. What it was `measured` to take in is stronger than reports."""
        topics = self._members[ClientRole.PUBLISHER].get(broker, {})
        flows = self._flows(topics, None if measured is None else measured.bytes_in_s, 0.0)
        return tuple(publisher_bundles(topics, flows.get, audience, neighbours_fed))

    def _flows(
        self, topics: Mapping[str, TopicMembers], measured_bytes_s: float | None, plain_bytes_s: float
    ) -> dict[Stream, Flow]:
        """The flow of each stream of these topics; of those that are not believed, none.

        Clients count other bytes than brokers do (the lines between messages). If all together report more
        than the broker carried, each is taken to have reported too much by the same factor.
        """
        window = self._window
        flows = {
            stream: stream.smoothed(window)
            for members in topics.values()
            for stream in members.streams.values()
        }
        if not measured_bytes_s:
            return flows
        limit = DISBELIEF * measured_bytes_s + DISBELIEF_BYTES_S
        believed = {stream: flow for stream, flow in flows.items() if flow[1] <= limit}
        if len(believed) < len(flows):
            self.refused["more than its broker carried"] += len(flows) - len(believed)
        told_bytes_s = plain_bytes_s + sum(flow[1] for flow in believed.values())
        if told_bytes_s <= measured_bytes_s:
            return believed
        factor = max(MIN_FACTOR, measured_bytes_s / told_bytes_s)
        return {stream: (flow[0], flow[1] * factor) for stream, flow in believed.items()}

    def _put(self, stream: Stream, broker: str) -> None:
        if stream.broker == broker:
            return
        self._take_out(stream)
        stream.broker = broker
        if broker:
            topics = self._members[stream.wish.role].setdefault(broker, {})
            topic = stream.wish.subject
            members = topics.get(topic)
            if members is None:
                members = topics[topic] = TopicMembers(contract_deadline_s(self._rules, topic))
            members.streams[stream.client.name, stream.wish.key] = stream

    def _take_out(self, stream: Stream) -> None:
        if not stream.broker:
            return
        brokers = self._members[stream.wish.role]
        topics = brokers[stream.broker]
        members = topics[stream.wish.subject]
        del members.streams[stream.client.name, stream.wish.key]
        if not members.streams:
            del topics[stream.wish.subject]
            if not topics:
                del brokers[stream.broker]
        stream.broker = ""


def _client_problem(traffic: ClientTraffic | None, report: Report) -> str:
    if traffic is None:
        return "not registered" if report.received or report.published else ""
    return "stale" if report.sequence <= traffic.sequence else ""
