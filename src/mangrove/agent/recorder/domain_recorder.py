"""One domain, looked at once a second.

Sources: the brokers' monitoring pages (totals; subscriptions and what each was handed), the gateway's account
of itself (links, what it carried of each topic), the agent's (how loaded brokers are, what it moved, what
subscribers think), and the tap (which topics, how large, how late). A source that is away leaves its columns
empty or its rows out; it never stops the others.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from datetime import UTC, datetime

from mangrove.agent.inspection import inspect_domain
from mangrove.agent.management import ManagementConnection
from mangrove.agent.recorder.agent_rows import AgentMemory, load_rows
from mangrove.agent.recorder.counters import Counters
from mangrove.agent.recorder.omissions import Omissions
from mangrove.agent.recorder.rows import (
    Second,
    delivery_rows,
    link_rows,
    rate_rows,
    sample_rows,
)
from mangrove.agent.recorder.sink import Sink
from mangrove.agent.recorder.text_rows import TextRows
from mangrove.broker.kinds import kind_of
from mangrove.broker.nats.tap import Slice
from mangrove.host.keys.logins.external_login import external_login
from mangrove.host.keys.logins.user_login import login_of
from mangrove.model.endpoints import DomainEndpoints
from mangrove.model.federation import Federation
from mangrove.model.questions.versions_question import VersionsRequest
from mangrove.model.security.users import RECORDER_USER
from mangrove.model.status import DomainStatus
from mangrove.model.telemetry import (
    BROKER_SAMPLES,
    DELIVERIES,
    EVENTS,
    LINK_SAMPLES,
    LOAD_SAMPLES,
    MESSAGE_TEXTS,
    OFFLOAD_SESSIONS,
    TOPIC_OPINIONS,
    TOPIC_RATES,
)
from mangrove.model.topic_counts import CountCursor, TopicCounts
from mangrove.model.versions.document import FIRST_VERSION, WrittenDocument, in_force

log = logging.getLogger(__name__)

# A head broker that uses more than this share of the machine's cores has no time for a tap.
TAP_CPU_PERCENT_PER_CORE = 70.0
TAP_REST_S = 10
# Of two patterns the tap follows the one whose subscribers are handed more, then the one with more of them.
HANDED_WEIGHT = 1 << 20


class DomainRecorder:
    """Records one domain."""

    def __init__(self, federation: Federation, endpoints: DomainEndpoints, sink: Sink, cores: int) -> None:
        self.name = endpoints.domain
        self._federation = federation
        self._endpoints = endpoints
        self._sink = sink
        self._busy_percent = TAP_CPU_PERCENT_PER_CORE * cores
        self._management = ManagementConnection(endpoints)
        head = endpoints.head
        login = login_of(endpoints.keys, RECORDER_USER)
        if head.external:
            login = external_login(federation.domains[self.name].external)
        self._file = federation
        self._version = FIRST_VERSION
        self._tap = kind_of(head.kind).tap(head, login, self._may_sample)
        self._watches = [
            kind_of(broker.kind).subscription_watch(broker) for broker in (head, *endpoints.edges)
        ]
        self._looks = 0
        self._too_large: set[str] = set()
        self._resting = 0
        self._counters = Counters()
        self._arrived: frozenset[str] = frozenset()
        self._cursor: CountCursor | None = None
        self._omissions = Omissions()
        self._agent = AgentMemory()
        self._texts = TextRows()
        self._states: dict[tuple[str, str], bool] = {}
        self._last_second = 0

    async def run(self) -> None:
        """Look, once a second, until cancelled."""
        while True:
            # Rows describe the second that just ended.
            await asyncio.sleep(1.0 - time.time() % 1.0)
            second = int(time.time()) - 1
            if second == self._last_second:
                continue
            if second < self._last_second:
                behind = self._last_second - second
                self.event(
                    self.name, "clock_stepped_back", f"by {behind} s; these seconds are recorded twice"
                )
            self._last_second = second
            try:
                await self._record(datetime.fromtimestamp(second, UTC))
            except (OSError, TimeoutError) as error:
                log.warning("telemetry of %s: %s", self.name, error)

    def event(self, subject: str, kind: str, detail: str) -> None:
        """Record that something changed."""
        now = datetime.now(UTC)
        row = {"ts": now, "domain": self.name, "subject": subject, "kind": kind, "detail": detail}
        self._sink.add(EVENTS, [row])

    async def close(self) -> None:
        """Let go of the brokers, and tell what is still to be told."""
        self._tap.close()
        await self._management.close()
        self._tell_omissions(at_once=True)
        self.event(self.name, "recorder_stopped", "")

    def _may_sample(self, topic: str) -> bool:
        """Whether words of a topic may be kept, by the contracts in force."""
        return self._federation.topics.may_sample_text(topic)

    async def _follow_contracts(self, status: DomainStatus, seen: Slice) -> None:
        """Record by the contracts that the gateway has put in force; what the tap samples is chosen anew.

        Words that were sampled before are not kept: by now that may be forbidden.
        """
        if status.gateway is None or status.gateway.version <= self._version:
            return
        answer = await self._management.versions(VersionsRequest(newer_than=self._version))
        if answer is None or not answer.document:
            return
        try:
            document = WrittenDocument(text=answer.document).read()
        except ValueError as error:
            log.warning("contracts of %s that cannot be read: %s", self.name, error)
            return
        self._version, self._federation = document.version, in_force(self._file, document)
        seen.texts.clear()
        self._tap.close()
        self.event(self.name, "contracts_changed", f"version {document.version}")

    async def _record(self, ts: datetime) -> None:
        seen = self._tap.take()
        now = time.monotonic()
        status, counts, _ = await asyncio.gather(
            inspect_domain(self._endpoints, self._management),
            self._management.topic_counts(self._cursor),
            asyncio.gather(*(watch.look(now) for watch in self._watches)),
        )
        await self._follow_contracts(status, seen)
        held = {watch.broker.name: watch.found for watch in self._watches if watch.found is not None}
        resets = self._counters.resets
        second = Second(
            ts,
            self.name,
            self._federation.topics,
            self._counters,
            status,
            held,
            seen,
            counts,
            self._omissions,
            arrived_before=self._arrived,
        )
        arrived = {} if counts is None else counts.delivered.topics
        self._arrived = frozenset(topic for topic, count in arrived.items() if count)
        self._sink.add(BROKER_SAMPLES, sample_rows(second, self._endpoints.head.name))
        self._sink.add(LINK_SAMPLES, link_rows(second))
        self._sink.add(LOAD_SAMPLES, load_rows(second))
        self._sink.add(OFFLOAD_SESSIONS, self._agent.session_rows(second))
        self._sink.add(TOPIC_OPINIONS, self._agent.opinion_rows(second))
        self._sink.add(DELIVERIES, delivery_rows(second))
        self._sink.add(MESSAGE_TEXTS, self._texts.rows(second))
        self._sink.add(TOPIC_RATES, rate_rows(second, self._endpoints.head.name))
        if counts is not None:
            self._cursor = counts.cursor
            self._note_gaps(counts)
        if self._counters.resets > resets:
            self.event(self.name, "counter_reset", f"{self._counters.resets - resets} counters")
        self._note_changes(status)
        await self._steer_tap(status)
        self._note_omissions()

    # -- events -------------------------------------------------------------------------------------------

    def _note_gaps(self, counts: TopicCounts) -> None:
        if counts.restarted:
            detail = "the gateway was started anew; what it carried last before that is not known"
            self.event(self.name, "counts_lost", detail)
        self._omissions.add("bodies of frames that the gateway refused", counts.malformed_bodies)

    def _note_changes(self, status: DomainStatus) -> None:
        states = {("broker", broker.name): broker.reachable for broker in status.brokers}
        states["gateway", self.name] = status.gateway is not None
        if status.agent is not None or ("agent", self.name) in self._states:  # not all domains have one
            states["agent", self.name] = status.agent is not None
        if status.gateway is not None:
            for link in status.gateway.links:
                states["link", "--".join(sorted((self.name, link.peer)))] = link.up
        for (kind, subject), up in states.items():
            if self._states.get((kind, subject), True) != up:
                self.event(subject, f"{kind}_{'up' if up else 'down'}", "")
        self._states |= states

    def _note_omissions(self) -> None:
        for watch in self._watches:
            name = watch.broker.name
            if watch.too_large and name not in self._too_large:
                detail = "the list of subscriptions is too long; the largest connections are left out"
                self.event(name, "subscriptions_too_many", detail)
                self._too_large.add(name)
            elif not watch.too_large:
                self._too_large.discard(name)
            if watch.found is not None:
                self._omissions.level(f"subscriptions not looked at at {name}", watch.found.left_out)
        self._omissions.level("patterns that the tap does not follow", self._tap.left_out)
        self._tell_omissions()

    def _tell_omissions(self, *, at_once: bool = False) -> None:
        if told := self._omissions.tell(time.monotonic(), at_once=at_once):
            self.event(self.name, "left_out", told)

    # -- the tap ------------------------------------------------------------------------------------------

    async def _steer_tap(self, status: DomainStatus) -> None:
        """Listen to what the domain's subscribers want, unless the head broker has no time for it."""
        if not self.tap_may_listen(status):
            self._tap.rest()
        elif await self._tap.connect():
            looks = sum(watch.looks for watch in self._watches)
            if looks != self._looks or not self._tap.following:
                self._tap.follow(self._wanted())
            else:
                self._tap.resume()
            self._looks = looks

    def _wanted(self) -> Counter[str]:
        """Patterns of the domain's subscribers with their weights.

        What only queue groups want is not listened to: a plain subscriber would have other domains send
        messages here that one of their own members, or another domain's, serves.
        """
        wanted: Counter[str] = Counter()
        found = [watch.found for watch in self._watches if watch.found is not None]
        for each in found:
            wanted.update(each.count)
            for pattern, handed in each.handed_per_s.items():
                wanted[pattern] += round(handed) * HANDED_WEIGHT
        plain = set().union(*(each.plain for each in found))
        return Counter({pattern: weight for pattern, weight in wanted.items() if pattern in plain})

    def tap_may_listen(self, status: DomainStatus) -> bool:
        """Whether the head broker has time for the tap; once it had not, the tap rests for a while."""
        name = self._endpoints.head.name
        head = next((broker for broker in status.brokers if broker.name == name), None)
        if head is not None and head.cpu_percent > self._busy_percent:
            if not self._resting:
                self.event(name, "tap_off", f"the head broker uses {head.cpu_percent:.0f} % of a core")
            self._resting = TAP_REST_S
        if not self._resting:
            return True
        self._resting -= 1
        if not self._resting:
            self.event(name, "tap_on", "")
        return False
