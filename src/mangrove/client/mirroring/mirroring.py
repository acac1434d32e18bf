"""The mirrors of one connection: which it needs, whether they are there, what follows if a broker fails."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import msgspec

from mangrove.broker.client_connection import ClientConnection, RawMessage
from mangrove.client.legs import Legs
from mangrove.client.message import Respond
from mangrove.client.migration.paused_wire import PublishingWire
from mangrove.client.mirroring.link import MirrorLink, Open
from mangrove.client.mirroring.publishers import MirroredPublishers, is_connection
from mangrove.client.mirroring.pulse import TICK_S, Pulses
from mangrove.client.mirroring.repetition import PAUSE_S
from mangrove.client.mirroring.subscribers import MirroredSubscribers
from mangrove.client.subscription import Subscription
from mangrove.model.agents.directory import DirectoryRecord
from mangrove.model.congestion.terms import TopicTerms
from mangrove.model.mirrors.modes import MirrorModes, told_modes
from mangrove.model.patterns.cover import has_wildcard
from mangrove.model.patterns.trie import SubjectTrie
from mangrove.model.shared_names import MIRROR_AGAIN, MIRROR_NEWEST
from mangrove.model.subjects import matches
from mangrove.model.topics import Mirror

NOBODY = "no agent has named a mirror"
REPORT_S = 1.0
"""The same suspicion is told at most so often."""


class MirrorState(msgspec.Struct, frozen=True):
    """How one topic of a connection is mirrored at the moment."""

    mode: Mirror
    mirrors: tuple[str, ...]
    """Brokers that have its second copies, or could."""
    away: tuple[str, ...] = ()
    """Those of them that are not there: without others, the primary is alone."""
    problem: str = ""


class Mirroring:
    """Follows the directory; without an agent nothing is mirrored."""

    def __init__(
        self,
        legs: Legs,
        respond: Respond,
        head: ClientConnection,
        head_form: bytes,
        *,
        terms: Iterable[TopicTerms],
        directory: Mapping[str, DirectoryRecord],
        url_of: Callable[[str], str],
        open_: Open,
        route: Callable[[str, PublishingWire], None],
        suspect: Callable[[str, str], None],
        name_of: Callable[[ClientConnection], str],
    ) -> None:
        """`route` puts a subject's way in force; `suspect` tells an agent of a broker, and why."""
        self._legs = legs
        self._directory = directory
        self._url_of = url_of
        self._open = open_
        self._route = route
        self._suspect = suspect
        self._name_of = name_of
        self._links: dict[str, MirrorLink] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._modes = told_modes(terms)
        self._known: set[str] = set()
        """Mirrored topics."""
        self._records: SubjectTrie[str] = SubjectTrie()
        """Of those, the ones that have subscribers."""
        self._subscribed: dict[Subscription, None] = {}
        self._published: set[str] = set()
        self._pulses = Pulses(self._fell_silent, self._spoke_again)
        self._told: dict[str, float] = {}
        self._lost = 0
        self._timer: asyncio.TimerHandle | None = None
        self._repeating: asyncio.TimerHandle | None = None
        self._closed = False
        """The connection is closed: what ends or is told afterwards brings no mirror back."""
        self.publishers = MirroredPublishers(
            head, head_form, self._links.values, self._pulses, self._repeat_soon
        )
        self.subscribers = MirroredSubscribers(legs, respond, self._links.values, self._pulses)

    # -- what is to be mirrored -----------------------------------------------------------------------------

    def published(self, subject: str) -> None:
        """A subject is published on from now on."""
        self._published.add(subject)
        self._set_published([subject])

    def subscribed(self, subscription: Subscription) -> None:
        """A subscription is served."""
        self._subscribed[subscription] = None
        self._set_subscribed([subscription])

    def ended(self, subscription: Subscription) -> None:
        """It is no longer."""
        self._subscribed.pop(subscription, None)
        self.subscribers.end(subscription)
        self._hold_links()

    def records_changed(self, records: Iterable[DirectoryRecord]) -> None:
        """The directory says something new."""
        changed = [each for each in records if each.mode or each.topic in self._known]
        if not changed:
            return
        for record in changed:
            if record.mode:
                self._known.add(record.topic)
            else:
                self._known.discard(record.topic)
            if record.mode and record.edges:
                self._records.add(record.topic, record.topic)
            else:
                self._records.remove(record.topic, record.topic)
        topics = {each.topic for each in changed}
        patterns = list(filter(has_wildcard, topics))
        self._set_published(
            subject
            for subject in self._published
            if subject in topics or any(matches(pattern, subject) for pattern in patterns)
        )
        self._set_subscribed([each for each in self._subscribed if each.subject in topics])

    def _set_published(self, subjects: Iterable[str]) -> None:
        now = _now()
        for subject in list(subjects):
            own = self._directory.get(subject)
            mode = Mirror.NONE if own is None else own.mode
            mirrors: frozenset[str] = frozenset()
            if own is not None and mode:
                over = [self._directory.get(topic) for topic in self._records.match(subject)]
                mirrors = frozenset(each.mirror for each in over if each is not None and each.mirror)
                mirrors = mirrors or frozenset({own.mirror} - {""})
            if self.publishers.follow(subject, mode, mirrors, now):
                self._route(subject, self.publishers.primary(subject))
        self._hold_links()

    def _set_subscribed(self, subscriptions: Iterable[Subscription]) -> None:
        now = _now()
        for subscription in subscriptions:
            record = self._directory.get(subscription.subject)
            mode, mirror = (Mirror.NONE, "") if record is None else (record.mode, record.mirror)
            self.subscribers.follow(subscription, mode, mirror, now)
        self._hold_links()

    def _hold_links(self) -> None:
        """Connect to the mirrors that are needed, and let go of the others."""
        if self._closed:
            return
        needed = self.publishers.mirrors() | self.subscribers.mirrors()
        for broker in needed - self._links.keys():
            url = self._url_of(broker)
            if url:
                self._links[broker] = MirrorLink(broker, url, self._open, self)
        for broker in self._links.keys() - needed:
            self._let_go(self._links.pop(broker))
        if self._links and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(TICK_S, self._tick)

    def _let_go(self, link: MirrorLink) -> None:
        task = link.end()
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    # -- mirrors come and go --------------------------------------------------------------------------------

    def joined(self, link: MirrorLink) -> None:
        """See `MirrorLinkOwner`."""
        assert link.wire is not None

        def asked(messages: list[RawMessage], size_bytes: int) -> None:
            for message in messages:
                self.publishers.asked(message.data[:1024].decode(errors="replace"), link.broker, _now())

        def told(messages: list[RawMessage], size_bytes: int) -> None:
            for message in messages:
                self.subscribers.told_newest(message.data, _now())

        now = _now()
        self.subscribers.joined(link, now)
        link.wire.subscribe(MIRROR_AGAIN, asked)
        link.wire.subscribe(MIRROR_NEWEST, told)
        self.publishers.joined(link, now)

    def parted(self, link: MirrorLink, evidence: str) -> None:
        """See `MirrorLinkOwner`."""
        now = _now()
        self._lost += 1
        self.publishers.parted(now)
        self.subscribers.parted(link, now)
        self._tell(link.broker, evidence, now)

    # -- what happens to primaries --------------------------------------------------------------------------

    def wire_lost(self, wire: ClientConnection) -> None:
        """A connection has lost its broker."""
        if self._links:
            self._doubt(wire, "closed")

    def wire_back(self, wire: ClientConnection) -> None:
        """It has one again, perhaps another."""
        self.subscribers.trusted(wire, _now())

    def _fell_silent(self, wire: ClientConnection) -> None:
        link = next((each for each in self._links.values() if each.wire is wire), None)
        if link is not None:
            link.silent()
        else:
            self._doubt(wire, "silent")

    def _spoke_again(self, wire: ClientConnection) -> None:
        self.subscribers.trusted(wire, _now())

    def _doubt(self, wire: ClientConnection, evidence: str) -> None:
        now = _now()
        self.subscribers.doubtful(wire, now)
        self.publishers.doubtful(wire, now)
        if wire in self._primaries():
            self._tell(self._name_of(wire), evidence, now)

    def _tell(self, broker: str, evidence: str, now: float) -> None:
        if broker and now >= self._told.get(broker, -REPORT_S) + REPORT_S:
            self._told[broker] = now
            self._suspect(broker, evidence)

    def _primaries(self) -> set[ClientConnection]:
        """Connections that mirrored topics are published or served at first."""
        legs = (self._legs.of(topic.subscription) for topic in self.subscribers.topics)
        wires = {leg.wire for leg in legs if leg is not None}
        for topic in self.publishers.topics:
            wire = self.publishers.primary(topic.subject)
            if is_connection(wire):
                wires.add(wire)
        return wires

    def _tick(self) -> None:
        self._timer = None
        if not self._links:
            return
        now = _now()
        mirrors = [link.wire for link in self._links.values() if link.wire is not None]
        self._pulses.tick([*self._primaries(), *mirrors], now)
        self.subscribers.tick(now)
        self.publishers.tick(now, time.time_ns())
        self._hold_links()
        if self._timer is None and self._links:
            self._timer = asyncio.get_running_loop().call_later(TICK_S, self._tick)

    def _repeat_soon(self) -> None:
        if self._repeating is None and not self._closed:
            self._repeating = asyncio.get_running_loop().call_later(PAUSE_S, self._repeat)

    def _repeat(self) -> None:
        self._repeating = None
        self.publishers.say_more(_now())

    # -- what others ask ------------------------------------------------------------------------------------

    async def ready(self) -> None:
        """Wait until all mirrors that are needed are there."""
        for link in list(self._links.values()):
            await link.in_force()

    def states(self) -> dict[str, MirrorState]:
        """How each topic is mirrored, or should be."""
        topics = [*self._published, *(each.subject for each in self._subscribed if not each.queue)]
        found = unmirrored(self._modes, topics)
        for heard in self.subscribers.topics:
            found[heard.subscription.subject] = self._state(heard.mode, {heard.mirror} - {""})
        for published in self.publishers.topics:
            found[published.subject] = self._state(published.mode, published.mirrors)
        return found

    def _state(self, mode: Mirror, mirrors: Iterable[str]) -> MirrorState:
        names = tuple(sorted(mirrors))
        away = tuple(name for name in names if (link := self._links.get(name)) is None or link.wire is None)
        problem = "" if names else "there is no second broker"
        return MirrorState(mode, names, away, problem)

    @property
    def counts(self) -> Counter[str]:
        """What was done, and what could not be."""
        counts = self.publishers.counts + self.subscribers.counts
        counts.update({f"window: {reason}": many for reason, many in self.publishers.shortened.items()})
        counts["mirrors lost"] = self._lost
        return counts

    async def close(self) -> None:
        """Let go of all mirrors, for good."""
        self._closed = True
        for timer in (self._timer, self._repeating):
            if timer is not None:
                timer.cancel()
        self._timer = self._repeating = None
        links = list(self._links.values())
        self._links.clear()
        self.publishers.parted(_now())
        for link in links:
            self._let_go(link)
        for task in list(self._closing):
            with contextlib.suppress(asyncio.CancelledError):
                await task


def unmirrored(modes: MirrorModes, topics: Iterable[str]) -> dict[str, MirrorState]:
    """Topics whose contracts want a mirror that nobody has named yet."""
    return {topic: MirrorState(mode, (), (), NOBODY) for topic in topics if (mode := modes.of(topic))}


def _now() -> float:
    return asyncio.get_running_loop().time()
