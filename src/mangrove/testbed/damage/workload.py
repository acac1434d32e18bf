"""Who speaks and who listens while capacity is cut: classes of publishers, topics and desks, from a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum

from mangrove.model.balancing import Balancing
from mangrove.model.congestion.keywords import keyword_utility
from mangrove.model.congestion.parameters import Congestion, Mode
from mangrove.model.federation import Domain, Edge, Federation
from mangrove.model.topics import Contract, TopicRules

HOME = "harbour"
BASE_PORT = 7000
ALERT_DEADLINE_S = 1.0
REPORT_DEADLINE_S = 5.0
ALERT_RATE_MSG_S = 5.0
USEFUL = 0.5
"""A message is useful to a subscriber for whom its utility is at least this."""
INTERESTS = 3
OVERACTIVE = 3.0
"""How many times as often as others the publishers speak of whom nobody has any use."""
FRAMING_BYTES = 130
"""What the SDK's headers and keywords add to a payload, roughly: the plan reckons with it."""
WORDS = tuple(f"need{number:02d}" for number in range(40))
NOISE = tuple(f"noise{number:02d}" for number in range(20))


class Quality(StrEnum):
    """What a publisher's messages are to those who listen."""

    ALERT = "alert"
    """Protected by contract."""
    GOOD = "good"
    MEDIUM = "medium"
    USELESS = "useless"


REPORTERS = (Quality.GOOD, Quality.GOOD, Quality.MEDIUM, Quality.USELESS)
"""Half good, a quarter each of the others (ePEER §5.3); so many speak on each topic, drawn from all."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A subject, what its subscribers are interested in, and how many they are."""

    name: str
    deadline_s: float
    subscribers: int
    interests: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Speaker:
    """One publisher: it speaks on one topic, at one rate, in messages about one thing or another."""

    number: int
    topic: int
    quality: Quality
    rate_msg_s: float
    subjects: tuple[tuple[str, ...], ...] = ()
    """Keywords of its messages, used in turn."""


@dataclass(frozen=True, slots=True)
class DamagePlan:
    """Everything that a run is made of."""

    topics: tuple[Topic, ...]
    speakers: tuple[Speaker, ...]
    edges: int
    bandwidth_mbps: float
    """Of each edge."""
    payload_bytes: int
    seed: int

    @property
    def rate_msg_s(self) -> float:
        """What all would publish in a second."""
        return sum(speaker.rate_msg_s for speaker in self.speakers)

    @property
    def deliveries_s(self) -> float:
        """What all subscribers together would get in a second."""
        return sum(each.rate_msg_s * self.topics[each.topic].subscribers for each in self.speakers)

    def keywords(self, publisher: int, sequence: int) -> tuple[str, ...]:
        """What a publisher's message is about; nothing is said of alerts."""
        subjects = self.speakers[publisher].subjects
        return subjects[sequence % len(subjects)] if subjects else ()

    def utility(self, publisher: int, sequence: int) -> float:
        """Of a message to those who listen; an alert is always of use."""
        speaker = self.speakers[publisher]
        if speaker.quality is Quality.ALERT:
            return 1.0
        said = frozenset(self.keywords(publisher, sequence))
        return keyword_utility(self.topics[speaker.topic].interests, said)

    @property
    def subscribers(self) -> int:
        """All of them."""
        return sum(topic.subscribers for topic in self.topics)


def draw_plan(
    *,
    seed: int,
    edges: int = 2,
    topics: int = 12,
    subscribers: int = 6,
    bandwidth_mbps: float = 64.0,
    utilisation: float = 0.82,
    payload_bytes: int = 4000,
) -> DamagePlan:
    """Draw topics, publishers and keywords; rates use so much of all edges' bandwidth before the damage."""
    rng = random.Random(seed)
    drawn = [
        Topic(
            name=f"report.{number:02d}",
            deadline_s=REPORT_DEADLINE_S,
            subscribers=subscribers,
            interests=frozenset(rng.sample(WORDS, INTERESTS)),
        )
        for number in range(topics)
    ]
    speakers: list[Speaker] = []
    qualities = list(REPORTERS) * topics
    rng.shuffle(qualities)
    for number, topic in enumerate(drawn):
        mine = qualities[number * len(REPORTERS) : (number + 1) * len(REPORTERS)]
        weights = [rng.uniform(0.8, 1.2) * _activity(quality) for quality in mine]
        for quality, weight in zip(mine, weights, strict=True):
            said = tuple(_keywords(rng, topic.interests, quality) for _ in range(20))
            speakers.append(Speaker(len(speakers), number, quality, weight / sum(weights), said))
    budget_bytes_s = utilisation * edges * bandwidth_mbps * 125_000
    alerts = [
        Topic(name=f"alert.{number}", deadline_s=ALERT_DEADLINE_S, subscribers=subscribers)
        for number in range(edges)
    ]
    copy_bytes = payload_bytes + FRAMING_BYTES
    budget_bytes_s -= len(alerts) * ALERT_RATE_MSG_S * subscribers * copy_bytes
    wanted = sum(speaker.rate_msg_s for speaker in speakers) * subscribers * copy_bytes
    scale = budget_bytes_s / wanted
    speakers = [
        Speaker(each.number, each.topic, each.quality, each.rate_msg_s * scale, each.subjects)
        for each in speakers
    ]
    for number in range(len(alerts)):
        speakers.append(Speaker(len(speakers), topics + number, Quality.ALERT, ALERT_RATE_MSG_S))
    return DamagePlan((*drawn, *alerts), tuple(speakers), edges, bandwidth_mbps, payload_bytes, seed)


def _activity(quality: Quality) -> float:
    return OVERACTIVE if quality is Quality.USELESS else 1.0


def _keywords(rng: random.Random, interests: frozenset[str], quality: Quality) -> tuple[str, ...]:
    """What a message of this quality is about."""
    wanted = sorted(interests)
    if quality is Quality.GOOD:  # all that is asked for, and now and then something more
        return (*wanted, *rng.sample(NOISE, rng.random() < 0.2))
    if quality is Quality.MEDIUM:
        return (*rng.sample(wanted, 2), rng.choice(NOISE))
    return tuple(rng.sample(NOISE, INTERESTS))


def federation_of(plan: DamagePlan, mode: Mode) -> Federation:
    """A domain with a head and edges of the plan's bandwidth; `mode` is that of congestion control."""
    contracts = (
        Contract(match="alert.>", deadline_ms=1000.0 * ALERT_DEADLINE_S, protected=True),
        Contract(match="report.>", deadline_ms=1000.0 * REPORT_DEADLINE_S),
    )
    edge = Edge(bandwidth_mbps=plan.bandwidth_mbps)
    return Federation(
        name="damage",
        domains={HOME: Domain(name=HOME, base_port=BASE_PORT, edges=(edge,) * plan.edges)},
        links=(),
        topics=TopicRules(contracts),
        balancing=Balancing(),
        congestion=Congestion(mode=mode),
    )
