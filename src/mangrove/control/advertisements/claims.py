"""All that is known of who publishes what: claims by source and topic, found by pattern too."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from itertools import takewhile
from typing import NamedTuple
from zlib import crc32

from mangrove.control.advertisements.topic_index import TopicIndex
from mangrove.model.agents.peers import BUCKETS

MAX_TOPICS_OF_A_SOURCE = 200_000
MAX_TOPICS = 400_000
"""Published topics, summed up over the sources."""
MAX_WITHDRAWN = 20_000
"""Withdrawals that are remembered of one source."""


class Claim(NamedTuple):
    """What a source last said of a topic. The later epoch counts; in one epoch, the withdrawal."""

    epoch: int
    published: bool
    via: str
    """The neighbour that told; empty: known at first hand."""

    def later_than(self, other: Claim | None) -> bool:
        """Whether this claim replaces the other."""
        return other is None or (self.epoch, not self.published) > (other.epoch, not other.published)


class _Bucket:
    __slots__ = ("claims", "hash")

    def __init__(self) -> None:
        self.claims: dict[str, Claim] = {}
        self.hash = 0


class SourceClaims:
    """What one domain publishes. Hashes cover what is published: withdrawals are forgotten after a while,
    at a different time in every domain, and must make no difference."""

    def __init__(self) -> None:
        self.published = 0
        self.hash = 0
        self.withdrawn: dict[str, float] = {}
        """When each withdrawal came, the oldest first."""
        self._buckets: dict[int, _Bucket] = {}

    def get(self, topic: str) -> Claim | None:
        """The last claim about a topic."""
        bucket = self._buckets.get(_bucket_of(topic))
        return None if bucket is None else bucket.claims.get(topic)

    def put(self, topic: str, claim: Claim, now: float) -> None:
        """Replace the claim about a topic."""
        self.drop(topic)
        number = _bucket_of(topic)
        bucket = self._buckets.get(number)
        if bucket is None:
            bucket = self._buckets[number] = _Bucket()
        bucket.claims[topic] = claim
        if claim.published:
            self._count(bucket, topic, claim, 1)
        else:
            self.withdrawn[topic] = now

    def drop(self, topic: str) -> None:
        """Forget what was claimed about a topic."""
        number = _bucket_of(topic)
        bucket = self._buckets.get(number)
        claim = None if bucket is None else bucket.claims.pop(topic, None)
        if bucket is None or claim is None:
            return
        if claim.published:
            self._count(bucket, topic, claim, -1)
        else:
            del self.withdrawn[topic]
        if not bucket.claims:
            del self._buckets[number]

    def _count(self, bucket: _Bucket, topic: str, claim: Claim, by: int) -> None:
        mark = _hash_of(topic, claim.epoch)
        bucket.hash ^= mark
        self.hash ^= mark
        self.published += by

    def hashes(self) -> tuple[int, ...]:
        """The hash of every bucket."""
        return tuple(
            0 if (bucket := self._buckets.get(number)) is None else bucket.hash for number in range(BUCKETS)
        )

    def in_bucket(self, number: int) -> tuple[str, ...]:
        """The topics of a bucket, withdrawn ones too."""
        bucket = self._buckets.get(number)
        return () if bucket is None else tuple(bucket.claims)

    def __iter__(self) -> Iterator[tuple[str, Claim]]:
        for bucket in self._buckets.values():
            yield from bucket.claims.items()


class Claims:
    """The claims of all sources, bounded, and an index over what is published."""

    def __init__(self) -> None:
        self._sources: dict[str, SourceClaims] = {}
        self._publishing: dict[str, tuple[str, ...]] = {}
        """Sources by topic."""
        self._topics = TopicIndex()
        self.published = 0

    @property
    def topics(self) -> int:
        """How many topics are published anywhere."""
        return len(self._topics)

    def sources(self) -> tuple[str, ...]:
        """The domains of which something is published, in order."""
        return tuple(sorted(name for name, source in self._sources.items() if source.published))

    def source(self, name: str) -> SourceClaims:
        """What is known of a source."""
        return self._sources.get(name) or SourceClaims()

    def get(self, topic: str, source: str) -> Claim | None:
        """The last claim of a source about a topic."""
        known = self._sources.get(source)
        return None if known is None else known.get(topic)

    def room_for(self, topic: str, source: str) -> bool:
        """Whether one more publication can be recorded; what is recorded already can be replaced."""
        if source in self._publishing.get(topic, ()):
            return True
        return self.published < MAX_TOPICS and self.source(source).published < MAX_TOPICS_OF_A_SOURCE

    def put(self, topic: str, source: str, claim: Claim, now: float) -> None:
        """Record a claim; who publishes must have been asked whether there is room."""
        known = self._sources.get(source)
        if known is None:
            known = self._sources[source] = SourceClaims()
        self._unlist(topic, source)
        known.put(topic, claim, now)
        if claim.published:
            others = self._publishing.get(topic, ())
            if not others:
                self._topics.add(topic)
            self._publishing[topic] = (*others, source)
            self.published += 1
        elif len(known.withdrawn) > MAX_WITHDRAWN:
            known.drop(next(iter(known.withdrawn)))

    def _unlist(self, topic: str, source: str) -> None:
        listed = self._publishing.get(topic, ())
        if source not in listed:
            return
        left = tuple(each for each in listed if each != source)
        self.published -= 1
        if left:
            self._publishing[topic] = left
        else:
            del self._publishing[topic]
            self._topics.remove(topic)

    def forget_source(self, name: str) -> int:
        """Forget all that a source said; how many publications that were."""
        known = self._sources.pop(name, None)
        if known is None:
            return 0
        for topic, claim in known:
            if claim.published:
                self._unlist(topic, name)
        return known.published

    def forget_withdrawn(self, before: float) -> None:
        """Forget withdrawals that came before then."""
        for known in self._sources.values():
            old = [topic for topic, _ in takewhile(lambda each: each[1] < before, known.withdrawn.items())]
            for topic in old:
                known.drop(topic)

    def publishing(self, topic: str) -> tuple[str, ...]:
        """The sources of a literal topic."""
        return self._publishing.get(topic, ())

    def under(self, pattern: str, after: str = "") -> Iterator[str]:
        """Published topics under a pattern, in order, those after a given one."""
        return self._topics.under(pattern, after)

    def problems(self) -> list[str]:
        """What is wrong with the counts, hashes and index; for tests."""
        found = []
        listed: dict[str, set[str]] = {}
        for name, source in self._sources.items():
            published = {topic: claim for topic, claim in source if claim.published}
            whole = 0
            for topic, claim in published.items():
                whole ^= _hash_of(topic, claim.epoch)
                listed.setdefault(topic, set()).add(name)
            parts = 0
            for part in source.hashes():
                parts ^= part
            if (len(published), whole) != (source.published, source.hash) or parts != whole:
                found.append(f"{name}: {source.published} topics counted, {len(published)} there")
            if set(source.withdrawn) != {topic for topic, claim in source if not claim.published}:
                found.append(f"{name}: withdrawals are not those that are remembered")
        if listed != {topic: set(sources) for topic, sources in self._publishing.items()}:
            found.append("the index does not tell what the claims do")
        if list(self._topics) != sorted(listed) or self.published != sum(map(len, listed.values())):
            found.append("the order of topics does not tell what the claims do")
        return found


def _bucket_of(topic: str) -> int:
    return crc32(topic.encode()) % BUCKETS


def _hash_of(topic: str, epoch: int) -> int:
    return int.from_bytes(blake2b(f"{epoch} {topic}".encode(), digest_size=8).digest(), "big")
