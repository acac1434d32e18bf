"""What a connection hears at mirrors: every mirrored subscription, without those of queue groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from mangrove.broker.client_connection import BrokerAwayError, ClientConnection, Subscribed
from mangrove.client.legs import Legs
from mangrove.client.message import Message, Respond
from mangrove.client.mirroring.link import MirrorLink
from mangrove.client.mirroring.mirrored_wire import Suspicion
from mangrove.client.mirroring.newest import Awaited, decode
from mangrove.client.mirroring.planes import Plane
from mangrove.client.subscription import Subscription
from mangrove.model.shared_names import MIRROR_AGAIN, MIRROR_LEASE_S, MIRROR_NEWEST, MIRROR_PREFIX
from mangrove.model.subjects import matches
from mangrove.model.topics import Mirror

LINGER_S = 2.0
RENEW_S = MIRROR_LEASE_S / 3
_PLAIN = len(MIRROR_PREFIX)


class HeardTopic:
    """One subscription and its mirrors: the one of the directory, and that of before for a while."""

    def __init__(self, subscription: Subscription) -> None:
        self.subscription = subscription
        self.mode = Mirror.NONE
        self.mirror = ""
        self.lingering: dict[str, float] = {}
        self.handles: dict[MirrorLink, tuple[ClientConnection, Subscribed]] = {}
        self.asked_at = -MIRROR_LEASE_S
        self.awaited = Awaited()
        self.looked_at = 0.0
        self.primary_seen = 0
        self.mirrored_seen = 0

    @property
    def mirrors(self) -> set[str]:
        """Where it is heard."""
        return {self.mirror, *self.lingering} - {""}


class MirroredSubscribers:
    """All mirrored subscriptions of one connection."""

    def __init__(
        self, legs: Legs, respond: Respond, links: Callable[[], Iterable[MirrorLink]], doubts: Suspicion
    ) -> None:
        self._legs = legs
        self._respond = respond
        self._links = links
        self._doubts = doubts
        self._topics: dict[Subscription, HeardTopic] = {}
        self.counts: Counter[str] = Counter()
        """Requests to say things again."""

    @property
    def topics(self) -> Iterable[HeardTopic]:
        """All of them."""
        return self._topics.values()

    def follow(self, subscription: Subscription, mode: Mirror, mirror: str, now: float) -> None:
        """Where a subscription is heard a second time from now on, if anywhere."""
        topic = self._topics.get(subscription)
        if topic is None:
            if not mode or subscription.queue:
                return
            topic = self._topics[subscription] = HeardTopic(subscription)
        if topic.mirror and topic.mirror != mirror:
            topic.lingering[topic.mirror] = now + LINGER_S
        topic.mode, topic.mirror = mode, mirror
        topic.lingering.pop(mirror, None)
        if mirror:
            subscription.mirror()
            for link in self._links():
                if link.broker == mirror:
                    self._serve(topic, link, now)

    def end(self, subscription: Subscription) -> None:
        """A subscription is over."""
        topic = self._topics.pop(subscription, None)
        if topic is not None:
            for link in list(topic.handles):
                self._leave(topic, link)

    def mirrors(self) -> set[str]:
        """Brokers that must be connected to."""
        return {name for topic in self._topics.values() for name in topic.mirrors}

    def joined(self, link: MirrorLink, now: float) -> None:
        """A mirror is there."""
        for topic in self._topics.values():
            if link.broker in topic.mirrors:
                self._serve(topic, link, now)

    def parted(self, link: MirrorLink, now: float) -> None:
        """A mirror is gone; nothing waits for what it would have brought."""
        for topic in self._topics.values():
            if topic.handles.pop(link, None) is not None and not topic.handles:
                topic.subscription.plane_lost(Plane.MIRROR, now)

    def _serve(self, topic: HeardTopic, link: MirrorLink, now: float) -> None:
        wire = link.wire
        if wire is None or link in topic.handles:
            return
        subscription = topic.subscription
        primary_lives = self._primary_lives(subscription)
        if primary_lives and not topic.handles:
            subscription.plane_joins(Plane.MIRROR, now)
        pattern = MIRROR_PREFIX + subscription.subject
        handle = wire.subscribe(pattern, _sink_of(subscription), form=_plain_message, origin=self._respond)
        topic.handles[link] = wire, handle
        if not primary_lives:
            self._ask(topic, now)

    def _leave(self, topic: HeardTopic, link: MirrorLink) -> None:
        wire, handle = topic.handles.pop(link)
        wire.unsubscribe(handle)

    def told_newest(self, data: bytes, now: float) -> None:
        """A publisher has told what it said last."""
        try:
            newest = decode(data)
        except ValueError:
            self.counts["unreadable tellings"] += 1
            return
        for topic in self._topics.values():
            if topic.mode is Mirror.STANDBY:
                for subject, identity in newest:
                    if matches(topic.subscription.subject, subject):
                        topic.awaited.wait_for(subject, identity, now)

    # -- when the primary way is in doubt -------------------------------------------------------------------

    def doubtful(self, wire: ClientConnection, now: float) -> None:
        """A broker that serves subscriptions does not answer, or is gone."""
        for subscription in self._legs.at(wire):
            topic = self._topics.get(subscription)
            if topic is not None and topic.handles:
                subscription.plane_lost(Plane.PRIMARY, now)
                self._ask(topic, now)

    def trusted(self, wire: ClientConnection, now: float) -> None:
        """A connection has a broker again: what comes through it may be ahead of the mirror."""
        for subscription in self._legs.at(wire):
            topic = self._topics.get(subscription)
            if topic is not None and topic.handles:
                subscription.plane_joins(Plane.PRIMARY, now, answers=topic.mode is Mirror.STANDBY)

    def _ask(self, topic: HeardTopic, now: float) -> None:
        """Have publishers say again what they said last, if they say things once only."""
        if topic.mode is not Mirror.STANDBY:
            return
        topic.asked_at = now
        for wire, _ in topic.handles.values():
            try:
                wire.publish(MIRROR_AGAIN, topic.subscription.subject.encode())
                self.counts["asked again"] += 1
            except BrokerAwayError:
                self.counts["could not ask"] += 1

    def _primary_lives(self, subscription: Subscription) -> bool:
        leg = self._legs.of(subscription)
        return leg is None or (leg.wire.connected and not self._doubts.silent(leg.wire))

    def tick(self, now: float) -> None:
        """Time has passed: mirrors of before are left, evidence that lasts is told again."""
        for topic in self._topics.values():
            topic.subscription.planes_timer(now)
            for name in [name for name, until in topic.lingering.items() if now >= until]:
                del topic.lingering[name]
                for link in [each for each in topic.handles if each.broker == name]:
                    self._leave(topic, link)
            if topic.mode is Mirror.STANDBY:
                behind = self._behind(topic, now)
                broken = behind or not self._primary_lives(topic.subscription)
                if broken and now >= topic.asked_at + RENEW_S:
                    self._ask(topic, now)

    def _behind(self, topic: HeardTopic, now: float) -> bool:
        """Whether what was published does not come, or comes by the mirror alone."""
        for subject, identity in topic.awaited.waiting():
            if topic.subscription.knows(subject, identity):
                topic.awaited.came(subject, identity)
        behind = topic.awaited.overdue(now)
        if behind:
            topic.awaited.clear()
            self.counts["primary behind"] += 1
        if now >= topic.looked_at + RENEW_S:
            mirrored = topic.subscription.mirrored.messages
            primary = topic.subscription.messages - mirrored
            behind |= primary == topic.primary_seen and mirrored > topic.mirrored_seen
            topic.looked_at, topic.primary_seen, topic.mirrored_seen = now, primary, mirrored
        return behind


def _plain_message(subject: str, data: bytes, head: bytes, reply: str, origin: Respond) -> Message:
    """A second copy as subscribers see it: on the subject that they know."""
    return Message(subject[_PLAIN:], data, head, reply, origin)


def _sink_of(subscription: Subscription) -> Callable[[list[Message], int], None]:
    """Where second copies go; patterns that begin with a wildcard also match what publishers are asked and
    tell."""
    if not subscription.subject.startswith(("*", ">")):
        return subscription.feed_mirrored
    not_meant = (MIRROR_AGAIN[_PLAIN:], MIRROR_NEWEST[_PLAIN:])

    def feed(messages: list[Message], size_bytes: int) -> None:
        subscription.feed_mirrored([each for each in messages if each.subject not in not_meant], size_bytes)

    return feed
