"""Documents for browsers: made once for each version and subject, however many look at them."""

from __future__ import annotations

import msgspec

from mangrove.errors import MangroveError
from mangrove.model.federation import Federation
from mangrove.model.plans.account import PlansTold
from mangrove.monitor.feed.snapshot import Snapshot
from mangrove.monitor.view.brokers import brokers
from mangrove.monitor.view.danger import DangerView, danger
from mangrove.monitor.view.delays import DelayHistory
from mangrove.monitor.view.load import LoadMeter
from mangrove.monitor.view.network import NetworkView, network
from mangrove.monitor.view.past import PastRoute, network_at, routes_at
from mangrove.monitor.view.plans import plans
from mangrove.monitor.view.sight import ContractNames, Sight
from mangrove.monitor.view.story import NOTABLE, StoryView, explaining, marks, notable, story
from mangrove.monitor.view.topics import TopicTable
from mangrove.monitor.view.wording import Grade, name_key, worst
from mangrove.monitor.web.feed_seam import Feed

TOLD_EVENTS = 5_000
"""How far back the slider and the past reach, in events."""
MAX_PAST_ROUTES = 500
MAX_TOGETHER = 8
_SERVING = (Grade.GOOD, Grade.DOUBT)
PAGES = ("map", "topics", "topic", "brokers", "story", "plans")


class Headline(msgspec.Struct, frozen=True, kw_only=True):
    """What stands above every page."""

    federation: str
    grade: Grade
    sites: tuple[int, int]
    links: tuple[int, int]
    topics: tuple[int, int]
    """Those that serve, of all."""


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """The time slider."""

    first: float
    last: float
    marks: tuple[tuple[float, str, str], ...]


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """What a browser gets."""

    page: str
    version: int
    at: float
    problem: str = ""
    """Why there is nothing to show, and what to do."""
    head: Headline | None = None
    view: object = None
    span: Span | None = None


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """The map at an earlier moment."""

    at: float
    view: NetworkView
    routes: tuple[PastRoute, ...]


class Renderer:
    """Views of the feed's present snapshot. All that is costly is kept until the next version."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._meter = LoadMeter()
        self._history = DelayHistory()
        self._version = -1
        self._snapshot = Snapshot()
        self._sight: Sight | None = None
        self._network: NetworkView | None = None
        self._table: TopicTable | None = None
        self._head: Headline | None = None
        self._names: tuple[Federation, ContractNames] | None = None
        self.plans: dict[str, PlansTold | None] = {}
        """Asked for while somebody looks at them."""

    def refresh(self) -> int:
        """Take up the feed's present version."""
        snapshot = self._feed.snapshot
        if snapshot.version == self._version:
            return self._version
        self._version, self._snapshot = snapshot.version, snapshot
        self._sight = self._network = self._table = self._head = None
        if snapshot.runtime is None or snapshot.status is None:
            return self._version
        self._meter.look(snapshot.status, snapshot.at)
        federation = snapshot.runtime.federation
        if self._names is None or self._names[0] is not federation:
            self._names = federation, ContractNames(federation.topics)
        self._sight = Sight(
            federation,
            snapshot.status,
            at=snapshot.at,
            silent={
                name: each.problem or "it is not heard"
                for name, each in snapshot.presence.items()
                if not each.connected
            },
            loads=self._meter.links,
            sent_s={
                name: {topic: rate.sent for topic, rate in rates.items()}
                for name, rates in snapshot.rates.items()
            },
            delivered_s={
                name: {topic: rate.delivered for topic, rate in rates.items()}
                for name, rates in snapshot.rates.items()
            },
            totals=snapshot.topics,
            names=self._names[1],
        )
        self._history.look(self._sight)
        return self._version

    @property
    def version(self) -> int:
        """What documents are of."""
        return self._version

    @property
    def sight(self) -> Sight | None:
        """The present look; None: there is no federation."""
        return self._sight

    @property
    def snapshot(self) -> Snapshot:
        """What it is made of."""
        return self._snapshot

    def network(self) -> NetworkView | None:
        """The map."""
        if self._network is None and self._sight is not None:
            self._network = network(self._sight)
        return self._network

    def table(self) -> TopicTable | None:
        """All topics."""
        if self._table is None and self._sight is not None:
            self._table = TopicTable(self._sight, self._history)
        return self._table

    def document(self, page: str, subject: str) -> bytes:
        """What those who look at a page, and at one thing on it, get."""
        head = self._headline()
        problem = self._snapshot.problem if head is None else ""
        if head is None and not problem:
            problem = "waiting for the federation …"
        return msgspec.json.encode(
            Document(
                page=page,
                version=self._version,
                at=self._snapshot.at,
                problem=problem,
                head=head,
                view=None if head is None else self._view(page, subject),
                span=self._span() if page == "map" and head is not None else None,
            )
        )

    def topics(self, search: str) -> bytes:
        """Topics that contain a text."""
        table = self.table()
        return msgspec.json.encode(None if table is None else table.view(search))

    def past(self, at: float) -> bytes:
        """The map at a moment."""
        now = self.network()
        if now is None:
            return b"null"
        events = self._feed.events(last=TOLD_EVENTS)
        routes = tuple(
            msgspec.structs.replace(each, topic=name_key(each.topic))
            for each in routes_at(events, at)[:MAX_PAST_ROUTES]
        )
        return msgspec.json.encode(Past(at=at, view=network_at(now, events, at), routes=routes))

    def danger(self, latitude: float, longitude: float, radius_km: float) -> bytes:
        """What a disaster would do."""
        if self._sight is None:
            return msgspec.json.encode(DangerView(problem="there is no federation to ask"))
        return msgspec.json.encode(danger(self._sight, latitude, longitude, radius_km))

    def story(self, subject: str) -> StoryView:
        """All that led to an event and followed from it; of a thing, of what explains it; else the latest."""
        if not subject:
            return story(self._feed.events(last=200))
        if subject == NOTABLE:
            return story(notable(self._feed.events(last=TOLD_EVENTS)), subject)
        if subject.startswith("event:"):
            chosen = [subject.removeprefix("event:")]
        else:
            chosen = [each.id for each in explaining(self._feed.events(last=TOLD_EVENTS), subject)]
        if not chosen:
            return StoryView(about=subject[:120], lines=(), problem="nothing is told of it")
        try:
            related = {each.id: each for name in chosen[-MAX_TOGETHER:] for each in self._feed.story(name)}
        except MangroveError as error:
            return StoryView(about=subject[:120], lines=(), problem=error.message[:200])
        return story(sorted(related.values(), key=lambda each: each.at), subject, chosen)

    def _view(self, page: str, subject: str) -> object:
        assert self._sight is not None
        table = self.table()
        assert table is not None
        match page:
            case "map":
                return self.network()
            case "topics":
                return table.view()
            case "topic":
                return table.topic(subject)
            case "brokers":
                return brokers(self._sight)
            case "plans":
                return plans(self.plans)
            case _:
                return self.story(subject)

    def _headline(self) -> Headline | None:
        seen, table = self.network(), self.table()
        if self._head is None and seen is not None and table is not None:
            counts = table.counts
            grades = [Grade(grade) for grade, count in counts.items() if count]
            self._head = Headline(
                federation=seen.federation,
                grade=worst([seen.grade, *(each for each in grades if each is not Grade.UNKNOWN)]),
                sites=(sum(each.grade in _SERVING for each in seen.sites), len(seen.sites)),
                links=(sum(each.grade in _SERVING for each in seen.links), len(seen.links)),
                topics=(sum(counts.values()) - counts[Grade.BAD.value], sum(counts.values())),
            )
        return self._head

    def _span(self) -> Span:
        events = self._feed.events(last=TOLD_EVENTS)
        first = events[0].at if events else self._snapshot.at
        return Span(first=first, last=self._snapshot.at, marks=marks(events))
