"""What subscribers think of publishers: votes of a domain's clients, and sums that others tell (eq. 2, 3).

A vote counts for `VALID_S`, since clients speak once a second; then less and less, and after `DECAY_S` more
nothing. As the freshest vote on a publisher loses force, its utility goes over to the mean of the topic's
other publishers, and where those are not judged either to `NEUTRAL`: nobody is judged by the past for ever,
and somebody new is taken for one like the others. A publisher that says nothing gets no votes, and so is
judged by its last ones until they are too old.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from mangrove.model.agents.usefulness import MAX_VOTES, TopicOpinion, Vote
from mangrove.model.congestion.parameters import Congestion

VALID_S = 5.0
DECAY_S = 30.0
FORGET_S = VALID_S + DECAY_S
NEUTRAL = 0.5
"""The utility of a publisher of whom, and of whose like, nothing is known."""
MAX_KEPT = 1_000_000
"""Votes and told sums that are kept in all; what other domains told takes half of it at most."""
SWEEP_S = 10.0
"""So often votes that count no more are looked for."""

Kept = tuple[float, float, int, float]
"""A client's last vote on a publisher of a topic: weight, utility, messages, when. A bare tuple, since there
may be hundreds of thousands in a second, and a named one takes three times as long to make."""
NEVER = -math.inf
NOBODY: Mapping[str, Kept] = {}

Known = Callable[[str, str], bool]
"""Whether somebody of this origin publishes the topic."""


class Judgement(NamedTuple):
    """Equation 2 on votes alone, and how far to rely on it: 1 if any is fresh, 0 if none is left."""

    utility: float
    trust: float


class _Topic:
    __slots__ = ("clients", "judged", "judged_at", "sums", "told")

    def __init__(self) -> None:
        self.clients: dict[str, dict[str, Kept]] = {}
        """By origin and client."""
        self.told: dict[str, tuple[float, TopicOpinion]] = {}
        """When it was told, by domain."""
        self.judged: dict[str, Judgement] = {}
        self.judged_at = NEVER
        self.sums = (0.0, 0.0)
        """Of trust × utility, and of trust, over all judged."""


class Opinions:
    """The votes on all topics.

    A vote costs a few look-ups; sums are made when they are asked for, once for each topic and time.
    """

    def __init__(self, parameters: Congestion, known: Known | None = None) -> None:
        self.refused: Counter[str] = Counter()
        """What was not believed as it was said, by reason."""
        self._max_weight = parameters.max_weight
        self._known = known
        self._topics: dict[str, _Topic] = {}
        self._by_client: Counter[str] = Counter()
        self._votes = 0
        self._told = 0
        """What is kept of other domains' opinions; each counts besides its sums."""
        self._swept = NEVER

    def __len__(self) -> int:
        return self._votes + self._told

    def heard(self, client: str, weight: float, topic: str, votes: Mapping[str, Vote], now: float) -> None:
        """A client's votes on the publishers of a topic, by origin; they replace its earlier ones.

        Said twice at the same time (by two subscriptions of one client) they are one vote, by messages.
        """
        if now - self._swept >= SWEEP_S:
            self.sweep(now)
        weight = self._weight(weight)
        known = self._known
        entry = self._topics.get(topic)
        for origin, vote in votes.items():
            messages, utility = vote.messages, vote.utility
            if not 0.0 <= utility <= 1.0:
                if not math.isfinite(utility):
                    self.refused["utility is no number"] += 1
                    continue
                self.refused["utility beyond 0 to 1"] += 1
                utility = min(max(utility, 0.0), 1.0)
            if messages <= 0:
                self.refused["vote on no message"] += 1
                continue
            if known is not None and not known(topic, origin):
                self.refused["vote on a stranger"] += 1
                continue
            if entry is None:
                entry = self._topics[topic] = _Topic()
            clients = entry.clients.get(origin)
            if clients is None:
                clients = entry.clients[origin] = {}
            before = clients.get(client)
            if before is None:
                if not self._room_for(client):
                    if not clients:
                        del entry.clients[origin]
                    continue
            elif before[3] == now:
                total = messages + before[2]
                utility = (utility * messages + before[1] * before[2]) / total
                messages = total
            clients[client] = (weight, utility, messages, now)
            entry.judged_at = NEVER

    def told(self, opinion: TopicOpinion, now: float) -> None:
        """What the subscribers of another domain think, summed up, in place of what they thought before."""
        if now - self._swept >= SWEEP_S:
            self.sweep(now)
        votes = {}
        most = max(0, opinion.subscribers) * self._max_weight
        for origin, (weight, utility) in opinion.votes.items():
            if not (math.isfinite(weight) and math.isfinite(utility)) or weight <= 0:
                self.refused["told what is no number"] += 1
            elif self._known is not None and not self._known(opinion.topic, origin):
                self.refused["vote on a stranger"] += 1
            else:
                if weight > most or not 0.0 <= utility <= 1.0:
                    self.refused["told too much"] += 1
                votes[origin] = (min(weight, most), min(max(utility, 0.0), 1.0))
        entry = self._topics.get(opinion.topic)
        before = entry.told.get(opinion.domain) if entry is not None else None
        more = len(votes) + 1 - (len(before[1].votes) + 1 if before is not None else 0)
        room = min(MAX_KEPT // 2, MAX_KEPT - self._votes) - self._told
        if len(votes) > MAX_VOTES or more > room:
            self.refused["too many votes"] += 1
            return
        if entry is None:
            entry = self._topics[opinion.topic] = _Topic()
        self._told += more
        believed = TopicOpinion(
            opinion.topic, opinion.source, opinion.domain, max(0, opinion.subscribers), votes
        )
        entry.told[opinion.domain] = (now, believed)
        entry.judged_at = NEVER

    def utility(self, topic: str, origin: str, now: float) -> float:
        """Equation 2 with normalised weights; as the topic's others as far as nobody has spoken lately."""
        entry = self._topics.get(topic)
        if entry is None:
            return NEUTRAL
        judged = self._judged(entry, now)
        own = judged.get(origin)
        if own is None:
            return _mean(*entry.sums)
        if own.trust >= 1.0:
            return own.utility
        value, trust = entry.sums
        others = _mean(value - own.trust * own.utility, trust - own.trust)
        return min(max(own.trust * own.utility + (1.0 - own.trust) * others, 0.0), 1.0)

    def topic_utility(self, topic: str, publishers: Collection[str], now: float) -> float:
        """Equation 3: the mean over those who publish it; without any, over those who were judged."""
        if not publishers:
            entry = self._topics.get(topic)
            if entry is None:
                return NEUTRAL
            self._judged(entry, now)
            return _mean(*entry.sums)
        return sum(self.utility(topic, origin, now) for origin in publishers) / len(publishers)

    def remote_subscribers(self, topic: str, now: float) -> int:
        """Subscribers in other domains, as far as these have spoken of the topic."""
        entry = self._topics.get(topic)
        if entry is None:
            return 0
        return sum(opinion.subscribers for at, opinion in entry.told.values() if now - at < FORGET_S)

    def opinion(
        self,
        topic: str,
        source: str,
        domain: str,
        subscribers: int,
        now: float,
        origins: Collection[str] | None = None,
    ) -> TopicOpinion:
        """What this domain's own subscribers think of publishers in another, to be told there.

        Only votes that still count in full: whoever is told lets them age.
        """
        entry = self._topics.get(topic)
        votes: dict[str, tuple[float, float]] = {}
        for origin, clients in () if entry is None else entry.clients.items():
            if origins is not None and origin not in origins:
                continue
            weight = total = 0.0
            for one, utility, _, at in clients.values():
                if now - at <= VALID_S:
                    weight += one
                    total += one * utility
            if weight > 0 and len(votes) < MAX_VOTES:
                votes[origin] = (weight, min(total / weight, 1.0))
        return TopicOpinion(topic, source, domain, subscribers, votes)

    def ended(self, client: str, topic: str) -> None:
        """A client subscribes to a topic no more: what it said of its publishers does not count."""
        entry = self._topics.get(topic)
        if entry is None:
            return
        for origin in [origin for origin, clients in entry.clients.items() if client in clients]:
            clients = entry.clients[origin]
            del clients[client]
            self._dropped(client)
            if not clients:
                del entry.clients[origin]
        entry.judged_at = NEVER
        self._drop_if_empty(topic, entry)

    def sweep(self, now: float) -> None:
        """Forget what counts no more."""
        self._swept = now
        oldest = now - FORGET_S
        for topic, entry in list(self._topics.items()):
            for origin, clients in list(entry.clients.items()):
                old = [client for client, vote in clients.items() if vote[3] <= oldest]
                for client in old:
                    del clients[client]
                    self._dropped(client)
                if not clients:
                    del entry.clients[origin]
            for domain in [domain for domain, (at, _) in entry.told.items() if at <= oldest]:
                self._told -= len(entry.told.pop(domain)[1].votes) + 1
            self._drop_if_empty(topic, entry)

    def _weight(self, weight: float) -> float:
        least = 1.0 / self._max_weight
        if least <= weight <= self._max_weight:
            return weight
        self.refused["weight beyond the limit"] += 1
        if math.isnan(weight):
            return min(max(1.0, least), self._max_weight)
        return min(max(weight, least), self._max_weight)

    def _room_for(self, client: str) -> bool:
        if self._votes + self._told >= MAX_KEPT:
            self.refused["too many votes"] += 1
            return False
        if self._by_client[client] >= MAX_VOTES:
            self.refused["too many votes of one client"] += 1
            return False
        self._votes += 1
        self._by_client[client] += 1
        return True

    def _dropped(self, client: str) -> None:
        self._votes -= 1
        self._by_client[client] -= 1
        if not self._by_client[client]:
            del self._by_client[client]

    def _drop_if_empty(self, topic: str, entry: _Topic) -> None:
        if not entry.clients and not entry.told:
            del self._topics[topic]

    def _judged(self, entry: _Topic, now: float) -> dict[str, Judgement]:
        if entry.judged_at == now:
            return entry.judged
        fresh_since = now - VALID_S
        told: dict[str, tuple[float, float, float]] = {}
        for at, opinion in entry.told.values():
            fresh = freshness(now - at)
            for origin, (weight, utility) in opinion.votes.items():
                weights, total, trust = told.get(origin, (0.0, 0.0, 0.0))
                weight *= fresh
                told[origin] = (weights + weight, total + weight * utility, max(trust, fresh))
        judged = entry.judged = {}
        value_sum = trust_sum = 0.0
        for origin in entry.clients.keys() | told.keys() if told else entry.clients:
            weights, total, trust = told.get(origin, (0.0, 0.0, 0.0))
            for weight, utility, _, at in entry.clients.get(origin, NOBODY).values():
                if at >= fresh_since:
                    trust = 1.0
                else:
                    fresh = freshness(now - at)
                    weight *= fresh
                    if fresh > trust:
                        trust = fresh
                weights += weight
                total += weight * utility
            if weights > 0:
                utility = min(total / weights, 1.0)
                judged[origin] = Judgement(utility, trust)
                value_sum += trust * utility
                trust_sum += trust
        entry.sums = (value_sum, trust_sum)
        entry.judged_at = now
        return judged


def freshness(age_s: float) -> float:
    """How much a vote of that age counts."""
    return min(max((FORGET_S - age_s) / DECAY_S, 0.0), 1.0)


def _mean(value: float, trust: float) -> float:
    """The mean utility of judged publishers; filled up with `NEUTRAL` where they weigh less than one."""
    if trust >= 1.0:
        return min(max(value / trust, 0.0), 1.0)
    return min(max(value + (1.0 - max(trust, 0.0)) * NEUTRAL, 0.0), 1.0)
