"""Domains tell each other what they publish: the advertise half of ePEER §4.3.2, corrected (digest §1.6).

A claim is known by topic, source and epoch. One that is news goes to every neighbour but the one it came from
and the source itself; the same claim on another way is dropped (erratum A1: suppression looks at topic *and*
source). A source withdraws what is published no more, and contradicts whoever claims something about it that
is not so (A4). What gets lost is found by comparing digests with each neighbour. So after any sequence of
losses and restarts, all domains that can reach each other end with the same table, which is what the sources
publish.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from heapq import merge
from itertools import islice

from mangrove.control.advertisements.claims import Claim, Claims
from mangrove.control.advertisements.local_topics import LocalTopics
from mangrove.control.advertisements.outbox import Outbox
from mangrove.control.advertisements.repairs import Repairs
from mangrove.control.advertisements.sources import FUTURE_S, Sources
from mangrove.control.instructions import Instruction, TellPeer
from mangrove.control.offloading.problem import Audience
from mangrove.model.agents.directory import Advertised
from mangrove.model.agents.peers import (
    BUCKETS,
    MAX_TOPICS_A_MESSAGE,
    Advertise,
    AdvertisedBuckets,
    AdvertisedDigest,
    Advertisement,
)
from mangrove.model.federation import Federation
from mangrove.model.subjects import is_internal, subject_problem
from mangrove.model.topics import Scope

DIGEST_S = 10.0
"""A digest goes to every neighbour so often."""
WITHDRAWN_S = 120.0
"""A withdrawal is remembered for so long, so that no older claim on a slower way undoes it."""
SOURCES_A_DIGEST = 250
EPOCH_BITS = 20
"""Below the second in which an epoch begins, a count of changes."""

NOT_A_NEIGHBOUR = "from a domain that is not linked"
UNKNOWN_SOURCE = "about a domain that is not in the federation"
BAD_SUBJECT = "about a topic that cannot be published"
NOT_FEDERATED = "about a topic that never leaves its domain"
CONFIDENTIAL = "about a topic that is confidential"
FROM_THE_FUTURE = "epoch far ahead of the clock"
SOURCE_GONE = "about a domain that is not heard of"
TOO_MANY = "more topics than are kept"
MISSHAPEN = "misshapen message"


class Advertising:
    """What this domain publishes, what the others do, and what is still to be told to whom."""

    def __init__(self, federation: Federation, domain: str, *, clock_shift_s: float, now: float) -> None:
        """`now + clock_shift_s` is the time of day: epochs grow over restarts because it does."""
        self._federation = federation
        self._domain = domain
        self._clock_shift_s = clock_shift_s
        self._neighbours = frozenset(link.other(domain) for link in federation.links_of(domain))
        self._epoch = int(self._wall(now)) << EPOCH_BITS
        self._claims = Claims()
        self._sources = Sources(domain, int(self._wall(now) * 1000))
        self._local = LocalTopics(now)
        self._outboxes: dict[str, Outbox] = {}
        """Of the neighbours that are online."""
        self._next_digest = now + DIGEST_S
        self._repairs = Repairs()
        self.refused: Counter[str] = Counter()
        """Claims that were not believed or not kept, by reason."""

    def _wall(self, now: float) -> float:
        return now + self._clock_shift_s

    # -- what is published here -----------------------------------------------------------------------------

    def set_publishers(self, counts: Mapping[str, int], now: float) -> list[Instruction]:
        """So many SDK clients publish each of these topics here, by the leases that they hold; 0: no more."""
        for topic, publishers in counts.items():
            problem = self._topic_problem(topic)
            if problem in (NOT_FEDERATED, CONFIDENTIAL):
                if not self._local.set_publishers_at_home(topic, publishers):
                    self.refused[TOO_MANY] += 1
            elif problem or (publishers and not self._has_room(topic)):
                self.refused[problem or TOO_MANY] += 1
            else:
                self._local.set_publishers(topic, publishers)
                self._follow_local([topic], now)
        return self._flush(now)

    def counted(self, sent: Mapping[str, int], now: float) -> list[Instruction]:
        """The gateway has carried so many messages of each topic to other domains: somebody publishes them
        here, and has subscribers there."""
        topics = []
        for topic, count in sent.items():
            problem = self._topic_problem(topic) or ("" if self._has_room(topic) else TOO_MANY)
            if problem == CONFIDENTIAL:
                continue  # it travels, and nobody is told
            if problem:
                self.refused[problem] += 1
            elif count > 0:
                topics.append(topic)
        self._local.counted(topics, now)
        self._follow_local(topics, now)
        return self._flush(now)

    def _has_room(self, topic: str) -> bool:
        return self._claims.room_for(topic, self._domain)

    def _topic_problem(self, topic: str) -> str:
        if subject_problem(topic, wildcards=False):
            return BAD_SUBJECT
        contract = self._federation.topics.contract_of(topic)
        if is_internal(topic) or contract.scope is Scope.DOMAIN:
            return NOT_FEDERATED
        return CONFIDENTIAL if contract.confidential else ""

    def _follow_local(self, topics: Iterable[str], now: float) -> None:
        """Advertise or withdraw topics of this domain, if what was said of them is not so any more."""
        for topic in topics:
            known = self._claims.get(topic, self._domain)
            published = topic in self._local
            if published != (known is not None and known.published):
                self._say(topic, published, now)

    def _say(self, topic: str, published: bool, now: float) -> None:
        if published and not self._has_room(topic):
            self.refused[TOO_MANY] += 1
            return
        self._epoch = max(self._epoch + 1, int(self._wall(now)) << EPOCH_BITS)
        self._claims.put(topic, self._domain, Claim(self._epoch, published, ""), now)
        self._spread(topic, self._domain)

    def _spread(self, topic: str, source: str, via: str = "") -> None:
        for peer, outbox in self._outboxes.items():
            if peer not in (via, source):
                outbox.add(topic, source)

    # -- neighbours -----------------------------------------------------------------------------------------

    def neighbour_online(self, peer: str, now: float, *, restarted: bool) -> list[Instruction]:
        """A neighbour is there: one that started anew is told everything, another what is known in digest."""
        if peer not in self._neighbours:
            return []
        outbox = self._outboxes.setdefault(peer, Outbox())
        if restarted:
            for source in self._claims.sources():
                for topic, claim in self._claims.source(source):
                    if claim.published:
                        outbox.add(topic, source)
        return [*self._digest(peer), *self._flush(now)]

    def neighbour_offline(self, peer: str) -> None:
        """A neighbour is not there. What it told is kept: its sources may be reached another way, or are
        gone when their beats stop."""
        self._outboxes.pop(peer, None)
        self._repairs.forget(peer)

    def handle(
        self, peer: str, message: Advertise | AdvertisedDigest | AdvertisedBuckets, now: float
    ) -> list[Instruction]:
        """A neighbour has said something."""
        if peer not in self._neighbours:
            self.refused[NOT_A_NEIGHBOUR] += 1
            return []
        answer: list[Instruction] = []
        match message:
            case Advertise():
                if len(message.topics) > MAX_TOPICS_A_MESSAGE:
                    self.refused[MISSHAPEN] += 1
                    return []
                self._hear(message.beats, now)
                for advertisement in message.topics:
                    self._take(peer, advertisement, now)
            case AdvertisedDigest():
                self._hear(message.beats, now)
                answer = self._compare(peer, message.sources or {})
            case AdvertisedBuckets():
                self._mend(peer, message, now)
        return answer + self._flush(now)

    def _hear(self, beats: Mapping[str, int], now: float) -> None:
        latest = (self._wall(now) + FUTURE_S) * 1000
        for source, beat in beats.items():
            if source not in self._federation.domains:
                self.refused[UNKNOWN_SOURCE] += 1
            elif not 0 <= beat <= latest:
                self.refused[FROM_THE_FUTURE] += 1
            else:
                self._sources.heard(source, beat, now)

    def _take(self, peer: str, told: Advertisement, now: float) -> None:
        """Believe a claim that is news and possible, and pass it on; put the neighbour right if it is old."""
        problem = self._claim_problem(told, now)
        if problem:
            self.refused[problem] += 1
            return
        topic, source = told.topic, told.source
        known = self._claims.get(topic, source)
        claim = Claim(told.epoch, told.published, peer)
        if claim.later_than(known):
            if source == self._domain:
                self._answer(topic, claim, now)
            elif not claim.published and known is None:
                pass  # to whom it matters, those have told the publication tell the withdrawal too
            elif claim.published and not self._claims.room_for(topic, source):
                self.refused[TOO_MANY] += 1
            else:
                self._claims.put(topic, source, claim, now)
                self._spread(topic, source, peer)
        elif (outbox := self._outboxes.get(peer)) is not None:
            if known is not None and known.later_than(claim):
                outbox.add(topic, source)
            else:
                outbox.discard(topic, source)

    def _claim_problem(self, told: Advertisement, now: float) -> str:
        if told.source not in self._federation.domains:
            return UNKNOWN_SOURCE
        if not 0 <= told.epoch <= int(self._wall(now) + FUTURE_S) << EPOCH_BITS:
            return FROM_THE_FUTURE
        if told.source not in self._sources:
            return SOURCE_GONE
        return self._topic_problem(told.topic)

    def _answer(self, topic: str, claim: Claim, now: float) -> None:
        """Somebody knows something later about this domain than it does itself: from before a restart.

        For a while it is left standing, since publishers take a while to come back to a new agent.
        """
        self._epoch = max(self._epoch, claim.epoch)
        published = topic in self._local
        if claim.published and not published and self._local.presume(topic, now):
            published = True
        if claim.published and published:
            if not self._has_room(topic):
                self.refused[TOO_MANY] += 1
                return
            self._claims.put(topic, self._domain, claim, now)
            self._spread(topic, self._domain, claim.via)
        elif claim.published or published:
            self._say(topic, published, now)

    # -- digests --------------------------------------------------------------------------------------------

    def _digest(self, peer: str) -> Iterator[Instruction]:
        """What is known of each source; while there is more to tell, only that the sources are there."""
        beats = list(self._sources.beats().items())
        for first in range(0, len(beats), SOURCES_A_DIGEST):
            part = dict(beats[first : first + SOURCES_A_DIGEST])
            sources = None
            if not self._outboxes[peer]:
                sources = {
                    name: (known.published, known.hash)
                    for name, known in ((name, self._claims.source(name)) for name in part)
                    if name in self._sources
                }
            yield TellPeer(peer, AdvertisedDigest(sources=sources, beats=part))

    def _compare(self, peer: str, sources: Mapping[str, tuple[int, int]]) -> list[Instruction]:
        """Ask for what differs, unless the neighbour has not heard everything from here yet."""
        outbox = self._outboxes.get(peer)
        if outbox is None or outbox:
            return []
        differing = [
            name for name, digest in sources.items() if name in self._sources and digest != self._state(name)
        ]
        return [
            TellPeer(peer, AdvertisedBuckets(source=name, hashes=self._claims.source(name).hashes()))
            for name in self._repairs.choose(peer, differing)
        ]

    def _state(self, source: str) -> tuple[int, int]:
        known = self._claims.source(source)
        return (known.published, known.hash)

    def _mend(self, peer: str, told: AdvertisedBuckets, now: float) -> None:
        """Tell a neighbour all that is known in the buckets in which it knows something else."""
        outbox = self._outboxes.get(peer)
        if told.source not in self._federation.domains:
            self.refused[UNKNOWN_SOURCE] += 1
            return
        if len(told.hashes) != BUCKETS:
            self.refused[MISSHAPEN] += 1
            return
        known = self._claims.source(told.source)
        difference = (hash(told.hashes), known.hash)
        if outbox is None or not self._repairs.worth_telling(peer, told.source, difference, now):
            return
        for number, (mine, theirs) in enumerate(zip(known.hashes(), told.hashes, strict=True)):
            if mine != theirs:
                for topic in known.in_bucket(number):
                    outbox.add(topic, told.source)

    # -- time -----------------------------------------------------------------------------------------------

    def handle_timer(self, now: float) -> list[Instruction]:
        """Send what may be sent, let leases run out, and exchange digests."""
        told: list[Instruction] = []
        self._follow_local(self._local.take_expired(now), now)
        for source in self._sources.take_expired(now):
            self._claims.forget_source(source)
        self._claims.forget_withdrawn(now - WITHDRAWN_S)
        if now >= self._next_digest:
            self._next_digest = now + DIGEST_S
            self._sources.beat(int(self._wall(now) * 1000))
            for peer in self._outboxes:
                told += self._digest(peer)
        return told + self._flush(now)

    def timer(self) -> float:
        """When to be called again."""
        sending = min((outbox.due() for outbox in self._outboxes.values()), default=math.inf)
        return min(self._next_digest, self._local.due(), self._sources.due(), sending)

    def _flush(self, now: float) -> list[Instruction]:
        told: list[Instruction] = []
        for peer, outbox in self._outboxes.items():
            if outbox.due() <= now:
                message = outbox.take(self._advertisement, self._sources.beats(), now)
                if message is not None:
                    told.append(TellPeer(peer, message))
        return told

    def _advertisement(self, topic: str, source: str) -> Advertisement | None:
        claim = self._claims.get(topic, source)
        return None if claim is None else Advertisement(topic, source, claim.epoch, claim.published)

    # -- questions ------------------------------------------------------------------------------------------

    @property
    def advertised(self) -> int:
        """How many topics are published anywhere in the federation, as far as is known here."""
        return self._claims.topics

    def topics(self, pattern: str = ">", *, after: str = "", limit: int = 1000) -> list[str]:
        """Published topics under a pattern, in order, also those that stay in this domain: a page of them."""
        return list(islice(self._under(pattern, after), limit))

    def _under(self, pattern: str, after: str = "") -> Iterator[str]:
        return merge(self._claims.under(pattern, after), self._local.home_index.under(pattern, after))

    def publishers_of(self, topic: str) -> tuple[Advertised, ...]:
        """The domains that publish a topic, in order."""
        here = self._local.publishers(topic)
        if topic in self._local.home_index:
            return (Advertised(topic=topic, source=self._domain, epoch=0, by="sdk", publishers=here),)
        return tuple(
            Advertised(
                topic=topic,
                source=source,
                epoch=claim.epoch,
                by=self._local.known_by(topic) if source == self._domain else claim.via,
                publishers=here if source == self._domain else 0,
            )
            for source in sorted(self._claims.publishing(topic))
            if (claim := self._claims.get(topic, source)) is not None
        )

    def sources_under(self, pattern: str, limit: int) -> dict[str, int]:
        """The domains that publish what a subscriber wants, and how many of its first topics each does."""
        found: Counter[str] = Counter()
        for topic in islice(self._claims.under(pattern), limit):
            found.update(self._claims.publishing(topic))
        return dict(found)

    def subscriber_class(self, pattern: str) -> Audience:
        """Where the publishers of what a subscriber wants are (table 4-6)."""
        here = any(True for _ in self._local.home_index.under(pattern))
        elsewhere = False
        for topic in self._claims.under(pattern):
            sources = self._claims.publishing(topic)
            here = here or self._domain in sources
            elsewhere = elsewhere or sources != (self._domain,)
            if here and elsewhere:
                break
        return audience(here, elsewhere)

    def publisher_class(self, topic: str, *, local_subscribers: bool) -> Audience:
        """Where the subscribers of what is published here are (table 4-4)."""
        return audience(local_subscribers, self.wanted_elsewhere(topic))

    def wanted_elsewhere(self, topic: str) -> bool:
        """Whether the gateway has lately carried a topic to other domains."""
        return self._local.wanted_elsewhere(topic)

    def problems(self) -> list[str]:
        """Invariants that do not hold; for tests."""
        found = self._claims.problems()
        own = {topic for topic, claim in self._claims.source(self._domain) if claim.published}
        if own != set(self._local) and not self.refused[TOO_MANY]:
            found.append(f"{len(own)} own topics are advertised, {len(set(self._local))} are published")
        if any(name not in self._sources for name in self._claims.sources()):
            found.append("something is kept of a source that is not there")
        return found


def audience(local: bool, remote: bool) -> Audience:
    """The class of those whose other side is in this domain, in others, in both or nowhere."""
    if local:
        return Audience.BOTH if remote else Audience.LOCAL
    return Audience.REMOTE if remote else Audience.NONE
