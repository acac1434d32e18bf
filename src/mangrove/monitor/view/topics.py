"""Topics: what their contracts ask for beside what they get, the most troubled first."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property

import msgspec

from mangrove.model.status import NO_CONTRACT, Arrival, RouteStatus, WayStatus
from mangrove.model.topics import Contract
from mangrove.monitor.view.delays import DelayHistory, Sample
from mangrove.monitor.view.sight import Messages, Sight
from mangrove.monitor.view.wording import Grade, name_key, sentence, worst

MAX_ROWS = 300
MAX_WAYS = 100
MAX_SUBJECTS = 20
NEAR_DEADLINE = 0.9
MOSTLY, NEARLY_ALL = 0.9, 0.99
"""Of frames in time: fewer are trouble, and a reason for doubt."""


class TopicRow(msgspec.Struct, frozen=True, kw_only=True):
    """One contract: asked against given."""

    topic: str
    """As pages show it and ask by it."""
    grade: Grade
    word: str
    trouble: float
    """What rows are sorted by, the largest first."""
    deadline_ms: float | None = None
    predicted_ms: float | None = None
    observed_ms: float | None = None
    """Smoothed, of the slowest way."""
    p50_ms: float | None = None
    """Of the recent frames of the way whose median is highest; frames are messages that left together."""
    p99_ms: float | None = None
    in_time: float | None = None
    """The share of frames that came before their deadline in the last minutes; None: none came."""
    frames: int = 0
    """All since the gateways started; so are the following, which are of frames, too, or of messages."""
    copies: int = 0
    late: int = 0
    lost: int = 0
    """Messages that gateways dropped."""
    sent: int = 0
    """Messages that left their domains."""
    delivered: int = 0
    """Messages that gateways handed to their domains: one that goes to three is counted three times."""
    paths: int = 0
    """The fewest that a destination has; 0: nobody asks for it in another domain."""
    paths_asked: int = 1
    sent_s: float = 0.0
    delivered_s: float = 0.0
    ways: int = 0
    """Pairs of domains between which it travels."""


class TopicsView(msgspec.Struct, frozen=True, kw_only=True):
    """Rows, and how many there are in all."""

    rows: tuple[TopicRow, ...]
    total: int
    matching: int
    counts: dict[str, int]
    """Of all topics, by grade."""


class WayView(msgspec.Struct, frozen=True, kw_only=True):
    """A topic from one domain to another."""

    source: str
    destination: str
    paths: tuple[tuple[str, ...], ...]
    by_table: bool
    predicted_ms: float | None
    observed_ms: float | None
    p50_ms: float | None
    p99_ms: float | None
    in_time: float | None
    """Since the gateways started."""
    late: int
    copies: int
    resiliency: float | None
    unmet: str
    grade: Grade


class TopicView(msgspec.Struct, frozen=True, kw_only=True):
    """A topic's page."""

    row: TopicRow
    contract: dict[str, str]
    """What it asks for, as people read it."""
    ways: tuple[WayView, ...]
    more_ways: int
    history: tuple[Sample, ...]
    drops: dict[str, int]
    subjects: tuple[tuple[str, float], ...]
    """The busiest literal topics under it, with messages in a second."""


class _Seen:
    """All that gateways say of one contract's topics."""

    def __init__(self) -> None:
        self.routes: list[tuple[str, RouteStatus]] = []
        self.ways: list[tuple[str, WayStatus]] = []
        self.arrivals: list[tuple[str, Arrival]] = []
        self.drops: dict[str, int] = {}


class TopicTable:
    """All topics of one sight; made once, whoever looks at whichever of them."""

    def __init__(self, sight: Sight, history: DelayHistory) -> None:
        self._sight = sight
        self._history = history
        self._contracts = {each.match: each for each in reversed(sight.federation.topics.contracts)}
        self._seen = _gathered(sight)
        names = dict.fromkeys((*(each.match for each in sight.federation.topics.contracts), *self._seen))
        self._names = {name_key(name): name for name in names}
        self._rows = sorted(map(self._row, names), key=lambda row: (-row.trouble, row.topic))

    @cached_property
    def counts(self) -> dict[str, int]:
        """Of all topics, by grade."""
        found = {grade.value: 0 for grade in Grade}
        for row in self._rows:
            found[row.grade.value] += 1
        return found

    def view(self, search: str = "") -> TopicsView:
        """The most troubled, of those that contain `search`."""
        wanted = search.casefold().strip()[:100]
        found = [row for row in self._rows if wanted in row.topic.casefold()] if wanted else self._rows
        return TopicsView(
            rows=tuple(found[:MAX_ROWS]),
            total=len(self._rows),
            matching=len(found),
            counts=self.counts,
        )

    def topic(self, key: str) -> TopicView | None:
        """The page of one topic; None if there is none of that name."""
        name = self._names.get(key)
        if name is None:
            return None
        seen = self._seen.get(name, _Seen())
        return TopicView(
            row=self._row(name),
            contract=_asked(self._contracts.get(name)),
            ways=tuple(sorted((_way(seen, *each) for each in seen.ways), key=_order)[:MAX_WAYS]),
            more_ways=max(0, len(seen.ways) - MAX_WAYS),
            history=self._history.of(name),
            drops={sentence(reason, 60): count for reason, count in seen.drops.items()},
            subjects=self._subjects(name),
        )

    def _subjects(self, name: str) -> tuple[tuple[str, float], ...]:
        names = self._sight.names
        sums: dict[str, float] = defaultdict(float)
        for by_topic in self._sight.sent_s.values():
            for topic, rate in by_topic.items():
                if names.of(topic) == name:
                    sums[topic] += rate
        busiest = sorted(sums.items(), key=lambda each: (-each[1], each[0]))[:MAX_SUBJECTS]
        return tuple((name_key(topic), round(rate, 1)) for topic, rate in busiest)

    def _row(self, name: str) -> TopicRow:
        seen = self._seen.get(name, _Seen())
        contract = self._contracts.get(name)
        deadline_ms = None if contract is None else contract.deadline_ms
        observed_ms = max((each.observed_ms for _, each in seen.arrivals), default=None)
        sent_s, delivered_s = self._sight.contract_rates.get(name, (0.0, 0.0))
        late = sum(each.late for _, each in seen.arrivals)
        messages = self._sight.contract_totals.get(name, Messages())
        lost = max(sum(seen.drops.values()), messages.dropped)
        in_time = None if deadline_ms is None else self._history.in_time(name)
        grade, word, trouble = _judged(seen, deadline_ms, observed_ms, in_time)
        return TopicRow(
            topic=name_key(name),
            grade=grade,
            word=sentence(word, 160),
            trouble=round(trouble + min(late + lost, 10**6) * 1e-7, 6),
            deadline_ms=deadline_ms,
            predicted_ms=_rounded(
                max((each.predicted_ms for _, each in seen.routes if each.active), default=None)
            ),
            observed_ms=_rounded(observed_ms),
            p50_ms=_highest(each.p50_ms for _, each in seen.arrivals),
            p99_ms=_highest(each.p99_ms for _, each in seen.arrivals),
            in_time=None if in_time is None else round(in_time, 6),
            frames=sum(each.frames for _, each in seen.arrivals),
            copies=sum(each.copies for _, each in seen.arrivals),
            late=late,
            lost=lost,
            sent=messages.sent,
            delivered=messages.delivered,
            paths=min((len(way.paths) for _, way in seen.ways), default=0),
            paths_asked=1 if contract is None else contract.paths,
            sent_s=round(sent_s, 1),
            delivered_s=round(delivered_s, 1),
            ways=len(seen.ways),
        )


def _gathered(sight: Sight) -> dict[str, _Seen]:
    found: dict[str, _Seen] = defaultdict(_Seen)
    names = sight.names
    for domain, gateway in sight.gateways.items():
        if gateway is None:
            continue
        for route in gateway.routes:
            found[names.named(route.topic)].routes.append((domain, route))
        for way in gateway.ways:
            found[names.named(way.topic)].ways.append((domain, way))
        for arrival in gateway.arrivals:
            found[names.named(arrival.topic)].arrivals.append((domain, arrival))
        for drop in gateway.drops:
            drops = found[names.of(drop.topic)].drops
            drops[drop.reason] = drops.get(drop.reason, 0) + drop.count
    return dict(found)


def _judged(
    seen: _Seen, deadline_ms: float | None, observed_ms: float | None, in_time: float | None
) -> tuple[Grade, str, float]:
    cut_off = [f"{source} → {way.destination}" for source, way in seen.ways if not way.paths]
    if cut_off:
        return Grade.BAD, f"no path: {', '.join(cut_off[:3])}", 3.0 + len(cut_off) * 1e-3
    if deadline_ms is not None and observed_ms is not None and observed_ms > deadline_ms:
        return Grade.BAD, f"late: {observed_ms:.0f} of {deadline_ms:g} ms", 2.0 + observed_ms / deadline_ms
    if in_time is not None and in_time < MOSTLY:
        return Grade.BAD, f"{percent(in_time)} in time", 2.0 - in_time
    unmet = [route.unmet for _, route in seen.routes if route.unmet]
    if unmet:
        return Grade.DOUBT, unmet[0], 1.0
    if in_time is not None and in_time < NEARLY_ALL:
        return Grade.DOUBT, f"{percent(in_time)} in time", 0.95
    if deadline_ms is not None and observed_ms is not None and observed_ms > NEAR_DEADLINE * deadline_ms:
        return Grade.DOUBT, f"near its deadline: {observed_ms:.0f} of {deadline_ms:g} ms", 0.9
    if not seen.ways:
        return Grade.UNKNOWN, "nobody asks for it elsewhere", 0.0
    return Grade.GOOD, "in time" if deadline_ms is not None else "flows", 0.1


def _way(seen: _Seen, source: str, way: WayStatus) -> WayView:
    routes = [each for where, each in seen.routes if (where, each.destination) == (source, way.destination)]
    arrivals = [each for where, each in seen.arrivals if (where, each.origin) == (way.destination, source)]
    unmet = next((each.unmet for each in routes if each.unmet), "")
    grades = [Grade.BAD] if not way.paths else [Grade.DOUBT] if unmet else []
    grades += [
        Grade.BAD for each in arrivals if each.deadline_ms is not None and each.observed_ms > each.deadline_ms
    ]
    frames, late = sum(each.frames for each in arrivals), sum(each.late for each in arrivals)
    kept = frames and any(each.deadline_ms is not None for each in arrivals)
    return WayView(
        source=source,
        destination=way.destination,
        paths=way.paths,
        by_table=way.by_table,
        predicted_ms=_rounded(_largest(each.predicted_ms for each in routes if each.active)),
        observed_ms=_rounded(_largest(each.observed_ms for each in arrivals)),
        p50_ms=_highest(each.p50_ms for each in arrivals),
        p99_ms=_highest(each.p99_ms for each in arrivals),
        in_time=round(max(0.0, 1.0 - late / frames), 6) if kept else None,
        late=late,
        copies=sum(each.copies for each in arrivals),
        resiliency=next((each.resiliency for each in routes if each.active), None),
        unmet=sentence(unmet),
        grade=worst(grades),
    )


def _order(way: WayView) -> tuple[bool, int, str, str]:
    """Ways that carry messages first, and of these the most troubled."""
    return way.observed_ms is None, -list(Grade).index(way.grade), way.source, way.destination


def _asked(contract: Contract | None) -> dict[str, str]:
    if contract is None:
        return {"contract": f"none: {NO_CONTRACT.strip('()')}, best effort"}
    asked: dict[str, str | None] = {
        "deadline": None if contract.deadline_ms is None else f"{contract.deadline_ms:g} ms",
        "paths": f"{contract.paths}",
        "resiliency": None if contract.resiliency is None else f"{contract.resiliency:g}",
        "apart": f"{contract.separation_km:g} km" if contract.separation_km else None,
        "when late": contract.late.value,
        "order": contract.order.value,
        "mirror": contract.mirror.value,
        "scope": contract.scope.value,
        "rate": None if contract.rate_msg_s is None else f"{contract.rate_msg_s:g} msg/s",
        "protected": "yes" if contract.protected else None,
        "confidential": "yes" if contract.confidential else None,
    }
    return {name: value for name, value in asked.items() if value is not None}


def _largest(values: Iterable[float]) -> float | None:
    return max(values, default=None)


def _highest(values: Iterable[float | None]) -> float | None:
    return _rounded(_largest(each for each in values if each is not None))


def percent(share: float) -> str:
    """A share near one, never rounded up to all of it."""
    return f"{math.floor(share * 1000) / 10:g}%"


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
