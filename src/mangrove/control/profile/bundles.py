"""All clients of a topic at a broker, with what exactly their move frees and costs (ePEER §4.4.3)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping

from mangrove.control.offloading.problem import Audience, Bundle, Member
from mangrove.control.profile.plain_clients import PlainLoad
from mangrove.control.profile.topic_streams import Inflow, Inflows, largest
from mangrove.control.profile.traffic import Stream
from mangrove.model.agents.load import Amounts

REMOTE = (Audience.REMOTE, Audience.BOTH)
LOCAL = (Audience.LOCAL, Audience.BOTH)

AudienceOf = Callable[[str], Audience]
"""Where the other side of a topic is."""
NeighboursFed = Callable[[str], int]
"""How many neighbour heads a head sends a topic to."""


class TopicMembers:
    """The wishes of one topic at one broker, and the topic's delay requirement without any of their own."""

    __slots__ = ("deadline_s", "streams")

    def __init__(self, deadline_s: float) -> None:
        self.deadline_s = deadline_s
        self.streams: dict[tuple[str, str], Stream] = {}
        """By client and key."""

    def strictest_s(self, members: Iterable[Stream]) -> float:
        """The delay requirement of the most urgent of these members."""
        return min(map(self._requirement_s, members), default=self.deadline_s)

    def _requirement_s(self, member: Stream) -> float:
        own_ms = member.wish.deadline_ms
        return self.deadline_s if own_ms is None else own_ms / 1000


Flow = tuple[float, float]
"""Messages and bytes in a second."""
Rate = Callable[[Stream], Flow | None]
"""The flow of a stream; None if what its client reports is not believed."""


def subscriber_bundles(
    topics: Mapping[str, TopicMembers], plain: Iterable[PlainLoad], rate: Rate, audience: AudienceOf
) -> Iterator[Bundle]:
    """The bundles of an edge, those that carry something; queue groups and plain clients stay.

    Input and matching end only with the last subscriber: a topic that somebody who stays also has, itself or
    under a wider pattern, frees output alone.
    """
    staying: dict[str, list[Flow]] = defaultdict(list)
    for load in plain:
        for pattern, flow in load.patterns.items():
            staying[pattern].append(flow)
    moving: dict[str, list[tuple[Stream, Flow]]] = {}
    for topic, members in topics.items():
        moving[topic], fixed = _split(members, rate)
        if fixed:
            staying[topic] += fixed
    inflows = {
        topic: largest(staying.get(topic, ()), (flow for _, flow in free)) for topic, free in moving.items()
    }
    for pattern, flows in staying.items():
        inflows.setdefault(pattern, largest(flows))
    ends = Inflows(inflows)
    for topic, free in moving.items():
        if not any(flow[0] for _, flow in free):
            continue
        output = sum(flow[1] for _, flow in free)
        inflow = inflows[topic]
        ending = Inflow() if topic in staying else ends.ending_with(topic)
        yield Bundle(
            topic=topic,
            audience=audience(topic),
            deadline_s=topics[topic].strictest_s(stream for stream, _ in free),
            load=Amounts(ending.bytes_s, output, ending.messages_s),
            stream=Amounts(inflow.bytes_s, 0.0, inflow.messages_s),
            output=output,
            members=tuple(
                Member(stream.client.name, stream.wish.key, Amounts(0.0, flow[1], 0.0))
                for stream, flow in free
            ),
        )


def _split(members: TopicMembers, rate: Rate) -> tuple[list[tuple[Stream, Flow]], list[Flow]]:
    """Who can be moved, with their flows, and the flows of those who stay; a queue group shares one."""
    free: list[tuple[Stream, Flow]] = []
    fixed: list[Flow] = []
    groups: dict[str, Flow] = {}
    for stream in members.streams.values():
        believed = rate(stream)
        flow = believed or (0.0, 0.0)
        if stream.wish.queue:
            before = groups.get(stream.wish.queue, (0.0, 0.0))
            groups[stream.wish.queue] = (before[0] + flow[0], before[1] + flow[1])
        elif believed is None or not stream.wish.movable:
            fixed.append(flow)
        else:
            free.append((stream, flow))
    return free, [*fixed, *groups.values()]


def publisher_bundles(
    topics: Mapping[str, TopicMembers], rate: Rate, audience: AudienceOf, neighbours_fed: NeighboursFed
) -> Iterator[Bundle]:
    """The bundles of a head, those that carry something. Publishers that cannot be moved stay.

    Who takes them feeds the same neighbours, and this head too where the topic has local subscribers.
    """
    for topic, members in topics.items():
        free = [
            (stream, flow)
            for stream in members.streams.values()
            if stream.wish.movable and (flow := rate(stream)) is not None
        ]
        messages_s = sum(flow[0] for _, flow in free)
        if not messages_s:
            continue
        bytes_s = sum(flow[1] for _, flow in free)
        where, fed = audience(topic), neighbours_fed(topic)
        copies = (fed if where in REMOTE else 0) + (1 if where in LOCAL else 0)
        yield Bundle(
            topic=topic,
            audience=where,
            deadline_s=members.strictest_s(stream for stream, _ in free),
            load=publisher_relief(where, fed, messages_s, bytes_s),
            stream=Amounts(bytes_s, 0.0, messages_s),
            output=bytes_s * copies,
            members=tuple(
                Member(stream.client.name, stream.wish.key, publisher_relief(where, fed, *flow))
                for stream, flow in free
            ),
        )


def publisher_relief(audience: Audience, fed: int, messages_s: float, bytes_s: float) -> Amounts:
    """What a head is relieved of when publishers go to the head of another domain.

    What local subscribers want comes back from there: such a topic frees no input. Output is freed by as many
    copies as went to neighbour heads; those to the domain's own edges stay.
    """
    returns = audience in LOCAL
    copies = fed if audience in REMOTE else 0
    return Amounts(0.0 if returns else bytes_s, bytes_s * copies, 0.0 if returns else messages_s)
