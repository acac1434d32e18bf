"""What a connection publishes on mirrored subjects: always twice, or twice while its primary way is in doubt.

A mirror that comes, or comes back, hears first what was said of late: so its way is complete, as far as the
other can be behind.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TypeGuard

from mangrove.broker.client_connection import BrokerAwayError, ClientConnection
from mangrove.broker.message_ids import identity_of
from mangrove.client.migration.paused_wire import PausedWire, PublishingWire
from mangrove.client.mirroring.link import MirrorLink
from mangrove.client.mirroring.mirrored_wire import MirroredTopic, MirroredWire, Suspicion
from mangrove.client.mirroring.newest import BEAT_S, MAX_SUBJECTS, encode
from mangrove.client.mirroring.repetition import Repetition
from mangrove.client.mirroring.window import Said, Window
from mangrove.model.shared_names import MIRROR_LEASE_S, MIRROR_NEWEST, MIRROR_PREFIX
from mangrove.model.subjects import matches, subject_problem
from mangrove.model.topics import Mirror

LINGER_S = 2.0
"""A mirror that another one replaces is published at for so long: subscribers may not be at the new one."""

BEHIND_NS = 300_000_000
"""A primary way that is in order is not further behind: a mirror that joins beside it need not hear more."""


class PublishedTopic(MirroredTopic):
    """A mirrored subject, its mirrors by name, and until when it is published there."""

    def __init__(self, subject: str, window: Window, head_form: bytes) -> None:
        super().__init__(subject, window, head_form)
        self.mode = Mirror.NONE
        self.mirrors: frozenset[str] = frozenset()
        self.lingering: dict[str, float] = {}
        """Mirrors of before, and until when they are published at."""
        self.leased_until = 0.0
        self.told: Said | None = None
        """What subscribers were told of last."""

    def active(self, now: float) -> bool:
        """Whether second copies are sent."""
        return self.mode is Mirror.BOTH or now < self.leased_until


class MirroredPublishers:
    """All mirrored subjects of one connection."""

    def __init__(
        self,
        head: PublishingWire,
        head_form: bytes,
        links: Callable[[], Iterable[MirrorLink]],
        doubts: Suspicion,
        go_on: Callable[[], None],
    ) -> None:
        """`head` is where subjects are published unless they were routed elsewhere.

        `go_on` asks for a call of `say_more` in a moment.
        """
        self._go_on = go_on
        self._repeating: list[Repetition] = []
        self._head = head
        self._head_form = head_form
        self._links = links
        self._doubts = doubts
        self._window = Window()
        self._tell_at = 0.0
        self._topics: dict[str, PublishedTopic] = {}
        self._routes: dict[str, PublishingWire] = {}
        """Where subjects are published that are not published at the head."""
        self.counts: Counter[str] = Counter()
        """Leases, messages said again, requests that were ignored."""

    def __contains__(self, subject: str) -> bool:
        return subject in self._topics

    @property
    def topics(self) -> Iterable[PublishedTopic]:
        """All of them."""
        return self._topics.values()

    @property
    def shortened(self) -> Counter[str]:
        """Messages that were not kept as long as they should be, by reason."""
        return self._window.shortened

    # -- ways -----------------------------------------------------------------------------------------------

    def routed(self, subject: str, wire: PublishingWire) -> PublishingWire:
        """A subject goes to this primary from now on; where it is to be published."""
        if wire is self._head:
            self._routes.pop(subject, None)
        else:
            self._routes[subject] = wire
        topic = self._topics.get(subject)
        return wire if topic is None else MirroredWire(wire, topic, self._doubts)

    def primary(self, subject: str) -> PublishingWire:
        """Where the first copies of a subject go."""
        return self._routes.get(subject, self._head)

    def follow(self, subject: str, mode: Mirror, mirrors: frozenset[str], now: float) -> bool:
        """How a subject is mirrored from now on; whether it must be routed anew."""
        known = self._topics.get(subject)
        if not mode:
            if known is not None:
                del self._topics[subject]
            return known is not None
        topic = known or PublishedTopic(subject, self._window, self._head_form)
        self._topics[subject] = topic
        for gone in topic.mirrors - mirrors:
            topic.lingering[gone] = now + LINGER_S
        news = mirrors - topic.mirrors - topic.lingering.keys()
        topic.mode, topic.mirrors = mode, mirrors
        for name in mirrors:
            topic.lingering.pop(name, None)
        for link in self._links():
            if link.broker in news:
                self._say_again([topic], link, now)
        self._renew(topic, now)
        return known is None

    def mirrors(self) -> set[str]:
        """Brokers that must be connected to."""
        return {name for topic in self._topics.values() for name in (*topic.mirrors, *topic.lingering)}

    def joined(self, link: MirrorLink, now: float) -> None:
        """A mirror is there: it hears what was said last, then all that follows."""
        topics = [topic for topic in self._topics.values() if link.broker in topic.mirrors]
        self._say_again(topics, link, now)
        for topic in topics:
            self._renew(topic, now)

    def parted(self, now: float) -> None:
        """A mirror is gone."""
        for topic in self._topics.values():
            self._renew(topic, now)

    def _renew(self, topic: PublishedTopic, now: float) -> None:
        """Use the mirrors that are there, if it is time to."""
        topic.twins, topic.wires = {}, []
        if not topic.active(now):
            return
        behind = {each.link for each in self._repeating if topic.subject in each.topics and not each.broken}
        for link in self._links():
            wire = link.wire
            if wire is not None and (link.broker in topic.mirrors or link.broker in topic.lingering):
                topic.wires.append(wire)
                if link not in behind:
                    topic.twins[wire] = wire.outlet(MIRROR_PREFIX + topic.subject, topic.head_form)

    # -- saying it again ------------------------------------------------------------------------------------

    def asked(self, pattern: str, broker: str, now: float) -> None:
        """A subscriber at a mirror says that its primary way is dead."""
        if subject_problem(pattern, wildcards=True):
            self.counts["unreadable requests"] += 1
            return
        self.lease(
            [
                topic
                for topic in self._topics.values()
                if broker in topic.mirrors and matches(pattern, topic.subject)
            ],
            now,
        )

    def doubtful(self, wire: object, now: float) -> None:
        """The broker that first copies go to does not answer, or is gone."""
        self.lease([topic for topic in self._topics.values() if self.primary(topic.subject) is wire], now)

    def lease(self, topics: Iterable[PublishedTopic], now: float) -> None:
        """Say these on both ways for a while. What was said of late is said again only when that begins:
        nobody can make a publisher repeat itself more often than once in a lease."""
        begun = []
        for topic in topics:
            if topic.mode is Mirror.STANDBY:
                if not topic.active(now):
                    begun.append(topic)
                topic.leased_until = now + MIRROR_LEASE_S
        if begun:
            self.counts["leases"] += len(begun)
            for link in self._links():
                self._say_again([topic for topic in begun if link.broker in topic.mirrors], link, now)
            for topic in begun:
                self._renew(topic, now)

    def _say_again(self, topics: Iterable[PublishedTopic], link: MirrorLink, now: float) -> None:
        wire = link.wire
        due = [topic for topic in topics if topic.active(now)]
        if wire is None or not due:
            return
        in_doubt = any(topic.mode is Mirror.STANDBY or self.primary_lost(topic) for topic in due)
        since_ns = 0 if in_doubt else time.time_ns() - BEHIND_NS
        named: dict[str, MirroredTopic] = {topic.subject: topic for topic in due}
        repetition = Repetition(link, wire, named, since_ns, self._window.first)
        self._repeating.append(repetition)
        self._say_some(repetition)
        if self._repeating:
            self._go_on()

    def say_more(self, now: float) -> None:
        """Go on with what is being said again; what has caught up is published on both ways from now on."""
        for repetition in list(self._repeating):
            self._say_some(repetition)
            if repetition not in self._repeating:
                for subject in repetition.topics:
                    if subject in self._topics:
                        self._renew(self._topics[subject], now)
        if self._repeating:
            self._go_on()

    def _say_some(self, repetition: Repetition) -> None:
        said = repetition.said
        try:
            over = repetition.broken or repetition.go_on(self._window)
        except BrokerAwayError:
            over = True
            self.counts["too much to say again"] += 1
        self.counts["said again"] += repetition.said - said
        if over:
            self._repeating.remove(repetition)

    # -- time -----------------------------------------------------------------------------------------------

    def tick(self, now: float, now_ns: int) -> None:
        """Time has passed: leases end, mirrors of before are left, subscribers hear what was said last."""
        self._window.forget_older(now_ns)
        if now >= self._tell_at:
            self._tell_at = now + BEAT_S
            self._tell_newest(now)
        for topic in self._topics.values():
            ended = [name for name, until in topic.lingering.items() if now >= until]
            for name in ended:
                del topic.lingering[name]
            if ended or (topic.twins and not topic.active(now)):
                self._renew(topic, now)
            elif topic.active(now) and self.primary_lost(topic) and topic.mode is Mirror.STANDBY:
                topic.leased_until = max(topic.leased_until, now + MIRROR_LEASE_S)

    def _tell_newest(self, now: float) -> None:
        """Of what is said once only: whoever does not get it that way can ask for it."""
        due: dict[str, dict[str, str]] = {}
        for topic in self._topics.values():
            last = topic.last
            if last is None or last is topic.told or topic.active(now):
                continue
            identity = identity_of(last.head or topic.head_form % (last.first, last.at_ns))
            if identity is None:
                continue
            for name in topic.mirrors:
                told = due.setdefault(name, {})
                if len(told) < MAX_SUBJECTS:
                    told[topic.subject] = identity.decode(errors="replace")
                    topic.told = last
        for link in self._links():
            if link.wire is not None and link.broker in due:
                with contextlib.suppress(BrokerAwayError):
                    link.wire.publish(MIRROR_NEWEST, encode(due[link.broker]))

    def primary_lost(self, topic: PublishedTopic) -> bool:
        """Whether the way of the first copies is known to be broken."""
        wire = self.primary(topic.subject)
        return self._doubts.silent(wire) or (is_connection(wire) and not wire.connected)


def is_connection(wire: PublishingWire) -> TypeGuard[ClientConnection]:
    """Whether a subject is published at a broker, and not kept because it moves."""
    return not isinstance(wire, PausedWire)
