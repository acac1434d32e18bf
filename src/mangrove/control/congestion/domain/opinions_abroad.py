"""What subscribers here think of publishers elsewhere goes to the agents of those, hop by hop.

Each agent passes an opinion on towards the domain that publishes, the way on which it learned that it does;
never back, and not further than the federation is wide. What waits is replaced by what is newer, so a
second's opinions of a domain on a topic are one line.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable

import msgspec

from mangrove.control.advertising import Advertising
from mangrove.control.congestion.opinions import Opinions
from mangrove.control.instructions import Instruction, TellPeer
from mangrove.model.agents.peers import MAX_PEER_MESSAGE_BYTES, MAX_TOPICS_A_MESSAGE
from mangrove.model.agents.usefulness import TopicOpinion, UsefulnessTold
from mangrove.model.federation import Federation
from mangrove.model.subjects import subject_problem

EVERY_S = 1.0
MAX_WAITING = 10_000
MAX_VOTES_TOLD = 300
"""Publishers of a topic of whom a domain tells: those that most of its subscribers spoke of."""
ENVELOPE_BYTES = 200
MAX_SUBSCRIBERS = 10_000_000


class OpinionsAbroad:
    """Opinions on their way: of this domain's subscribers, and those of others that are passed on."""

    def __init__(
        self,
        federation: Federation,
        domain: str,
        opinions: Opinions,
        advertising: Advertising,
        subscribers: Callable[[str], int],
    ) -> None:
        """`subscribers` counts those of this domain for a topic."""
        self.refused: Counter[str] = Counter()
        self._federation = federation
        self._domain = domain
        self._opinions = opinions
        self._advertising = advertising
        self._subscribers = subscribers
        self._spoken: dict[str, None] = {}
        """Topics of publishers elsewhere of which something was said since they were last told."""
        self._passing: dict[tuple[str, str, str], tuple[str, int, TopicOpinion]] = {}
        """By topic, source and domain: to whom, after how many hops."""
        self._told_at = -math.inf

    def spoken(self, topic: str) -> None:
        """A client has judged publishers elsewhere."""
        if topic in self._spoken or len(self._spoken) < MAX_WAITING:
            self._spoken[topic] = None
        else:
            self.refused["opinions on more topics than are told"] += 1

    def heard(self, peer: str, told: UsefulnessTold, now: float) -> None:
        """A neighbour tells opinions: those on publishers here count, the others go on."""
        if not 0 <= told.hops < len(self._federation.domains) or len(told.opinions) > MAX_TOPICS_A_MESSAGE:
            self.refused["opinions that went astray"] += 1
            return
        for opinion in told.opinions:
            if problem := self._problem(opinion):
                self.refused[problem] += 1
            elif opinion.source == self._domain:
                self._opinions.told(opinion, now)
            else:
                self._pass_on(peer, opinion, told.hops + 1)

    def _problem(self, opinion: TopicOpinion) -> str:
        domains = self._federation.domains
        if opinion.source not in domains or opinion.domain not in domains:
            return "opinions of or on a domain that is not in the federation"
        if opinion.domain in (self._domain, opinion.source):
            return "opinions that went astray"
        if not 0 <= opinion.subscribers <= MAX_SUBSCRIBERS or subject_problem(opinion.topic, wildcards=False):
            return "opinions that cannot be"
        return ""

    def _pass_on(self, peer: str, opinion: TopicOpinion, hops: int) -> None:
        via = self._way(opinion.topic, opinion.source)
        key = (opinion.topic, opinion.source, opinion.domain)
        if not via or via == peer:
            self.refused["opinions whose way is not known"] += 1
        elif len(self._passing) >= MAX_WAITING and key not in self._passing:
            self.refused["opinions on more topics than are told"] += 1
        else:
            self._passing[key] = (via, hops, opinion)

    def _way(self, topic: str, source: str) -> str:
        """The neighbour from which it was learned that a domain publishes a topic."""
        return next((each.by for each in self._advertising.publishers_of(topic) if each.source == source), "")

    def timer(self) -> float:
        """When something is told."""
        return self._told_at + EVERY_S if self._spoken or self._passing else math.inf

    def handle_timer(self, now: float) -> list[Instruction]:
        """Tell what was said in the last second."""
        if now < self.timer():
            return []
        self._told_at = now
        ways: dict[tuple[str, int], list[TopicOpinion]] = {}
        for topic in self._spoken:
            for each in self._advertising.publishers_of(topic):
                if each.source != self._domain and each.by:
                    opinion = self._opinions.opinion(
                        topic, each.source, self._domain, self._subscribers(topic), now
                    )
                    ways.setdefault((each.by, 0), []).append(_cut(opinion))
        for via, hops, opinion in self._passing.values():
            ways.setdefault((via, hops), []).append(_cut(opinion))
        self._spoken.clear()
        self._passing.clear()
        return [
            TellPeer(peer, UsefulnessTold(opinions=part, hops=hops))
            for (peer, hops), opinions in ways.items()
            for part in _parts(opinions)
        ]


def _cut(opinion: TopicOpinion) -> TopicOpinion:
    if len(opinion.votes) <= MAX_VOTES_TOLD:
        return opinion
    votes = sorted(opinion.votes.items(), key=lambda each: (-each[1][0], each[0]))[:MAX_VOTES_TOLD]
    return msgspec.structs.replace(opinion, votes=dict(votes))


def _parts(opinions: Iterable[TopicOpinion]) -> Iterable[tuple[TopicOpinion, ...]]:
    """As many in each message as fit."""
    part: list[TopicOpinion] = []
    size_bytes = ENVELOPE_BYTES
    for opinion in opinions:
        needed = len(msgspec.json.encode(opinion)) + 1
        if part and (size_bytes + needed > MAX_PEER_MESSAGE_BYTES or len(part) >= MAX_TOPICS_A_MESSAGE):
            yield tuple(part)
            part, size_bytes = [], ENVELOPE_BYTES
        part.append(opinion)
        size_bytes += needed
    if part:
        yield tuple(part)
