"""Flows: messages on their way out of a domain, gathered by destination set and topic class.

A flow collects runs of whole broker messages while one buffer from the head broker is read, and gives them up
as the body of one frame when the buffer is done. Nothing waits for a timer.
"""

from __future__ import annotations

from collections.abc import KeysView

from mangrove.model.subject_trie import SubjectTrie
from mangrove.model.subjects import is_internal
from mangrove.model.topics import Scope, TopicRules


class OutboundFlow:
    """Messages for one set of destinations and one topic class."""

    __slots__ = ("_pieces", "_touched", "destinations", "id", "sequence", "topic_class")

    def __init__(
        self, flow_id: int, destinations: int, topic_class: int, touched: list[OutboundFlow]
    ) -> None:
        self.id = flow_id
        self.sequence = 0
        self.destinations = destinations
        self.topic_class = topic_class
        self._pieces: list[bytes] = []
        self._touched = touched

    def take(self, messages: bytes) -> None:
        """Add a run of whole messages."""
        if not self._pieces:
            self._touched.append(self)
        self._pieces.append(messages)

    @property
    def size_bytes(self) -> int:
        """How much was gathered."""
        return sum(map(len, self._pieces))

    def give(self) -> bytes:
        """Give up what was gathered, as one body."""
        pieces = self._pieces
        self._pieces = []
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


class FlowTable:
    """Finds the flow of a subject from what the other domains want."""

    def __init__(self, domain: str, order: tuple[str, ...], rules: TopicRules) -> None:
        self._bit_of = {name: 1 << position for position, name in enumerate(order) if name != domain}
        self._rules = rules
        self._wanted_by: dict[str, int] = {}
        """The domains that want a subject or pattern, as bits. Most are literal, and only looked up."""
        self._patterns: SubjectTrie[str] = SubjectTrie()
        self._flows: dict[tuple[int, int], OutboundFlow] = {}
        self._by_id: dict[int, OutboundFlow] = {}
        self._touched: list[OutboundFlow] = []
        self._last_id = 0

    @property
    def wanted(self) -> int:
        """Pairs of domain and subject that are wanted."""
        return sum(map(int.bit_count, self._wanted_by.values()))

    def subjects(self) -> KeysView[str]:
        """All that is wanted, by any domain."""
        return self._wanted_by.keys()

    def want(self, domain: str, subject: str) -> bool:
        """Subscribers in `domain` want `subject`; whether this is the first domain that does."""
        before = self._wanted_by.get(subject, 0)
        self._wanted_by[subject] = before | self._bit_of[domain]
        if before:
            return False
        if "*" in subject or ">" in subject:
            self._patterns.add(subject, subject)
        return True

    def forget(self, domain: str, subject: str) -> bool:
        """Nobody in `domain` wants `subject` any more; whether it was the last domain that did."""
        left = self._wanted_by.get(subject, 0) & ~self._bit_of[domain]
        if left:
            self._wanted_by[subject] = left
            return False
        if self._wanted_by.pop(subject, 0) == 0:
            return False
        if "*" in subject or ">" in subject:
            self._patterns.remove(subject, subject)
        return True

    def flow_of(self, subject: str) -> OutboundFlow | None:
        """The flow for a literal subject, or None when it goes nowhere."""
        if is_internal(subject):
            return None
        destinations = self._wanted_by.get(subject, 0)
        for pattern in self._patterns.match(subject) if self._patterns else ():
            destinations |= self._wanted_by[pattern]
        topic_class = self._rules.index_of(subject)
        if not destinations or self._rules.contract_at(topic_class).scope is Scope.DOMAIN:
            return None
        return self._flow(destinations, topic_class)

    def flow_to(self, domain: str) -> OutboundFlow | None:
        """The flow for replies to a requester in `domain`; None if there is no such domain elsewhere."""
        bit = self._bit_of.get(domain)
        return None if bit is None else self._flow(bit, len(self._rules.contracts))

    def flow(self, flow_id: int) -> OutboundFlow:
        """A flow that was made before."""
        return self._by_id[flow_id]

    def gathered(self) -> list[tuple[int, int]]:
        """The flows that hold messages, by their ids, and how many bytes each."""
        return [(flow.id, flow.size_bytes) for flow in self._touched]

    def touched(self) -> list[OutboundFlow]:
        """The flows that gathered messages since the last call."""
        touched = self._touched.copy()
        self._touched.clear()
        return touched

    def _flow(self, destinations: int, topic_class: int) -> OutboundFlow:
        key = (destinations, topic_class)
        flow = self._flows.get(key)
        if flow is None:
            if len(self._flows) >= 4096:
                # Flows are only cached; those that hold messages stay alive through the touched list.
                self._flows.clear()
                self._by_id = {flow.id: flow for flow in self._touched}
            self._last_id += 1
            flow = self._flows[key] = OutboundFlow(self._last_id, destinations, topic_class, self._touched)
            self._by_id[flow.id] = flow
        return flow
