"""Flows: messages on their way out of a domain, gathered by destination set and topic class.

A flow collects runs of whole broker messages while one buffer from the head broker is read, and gives them up
as the body of one frame when the buffer is done. Nothing waits for a timer.

A subject moves to another flow when other domains begin or cease to want it. So that order survives the move,
a new *generation* begins with every such change, and the first frame of each flow in a generation names its
predecessors: the last frames of the flows of its topic class that were in use before and share a destination.
"""

from __future__ import annotations

from mangrove.model.subject_trie import SubjectTrie
from mangrove.model.subjects import is_internal
from mangrove.model.topics import Order, Scope, TopicRules
from mangrove.overlay.protocol.frames import MAX_PREDECESSORS_BYTES, Predecessor, encode_predecessors

MAX_FLOWS = 4096
MAX_PREDECESSORS = 32
IN_USE_S = 2.0
"""Frames that were sent longer ago need not be waited for: longer than any hold, and a way besides."""


class OutboundFlow:
    """Messages for one set of destinations and one topic class."""

    __slots__ = (
        "_pieces",
        "_touched",
        "destinations",
        "generation",
        "id",
        "sequence",
        "topic_class",
        "used_at",
    )

    def __init__(
        self, flow_id: int, destinations: int, topic_class: int, touched: list[OutboundFlow]
    ) -> None:
        self.id = flow_id
        self.sequence = 0
        self.destinations = destinations
        self.topic_class = topic_class
        self.generation = 0
        """The last one in which a frame left."""
        self.used_at = 0.0
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


class _Lane:
    """The flows of one topic class, the one used last at the end; what was in use before this generation."""

    __slots__ = ("before", "began_at", "generation", "used")

    def __init__(self) -> None:
        self.used: dict[int, OutboundFlow] = {}
        self.generation = 0
        self.began_at = 0.0
        self.before: list[Predecessor] = []

    def begin(self, generation: int, now: float) -> None:
        """Note which flows were in use; the others have arrived by now, or been given up."""
        self.generation, self.began_at = generation, now
        self.before = []
        for flow in reversed(self.used.values()):
            if flow.used_at < now - IN_USE_S or len(self.before) == MAX_PREDECESSORS:
                break
            self.before.append(Predecessor(flow.id, flow.sequence, flow.destinations))

    def use(self, flow: OutboundFlow, now: float) -> None:
        """A frame of a flow leaves."""
        flow.used_at = now
        self.used.pop(flow.id, None)
        self.used[flow.id] = flow
        if len(self.used) > MAX_FLOWS:
            del self.used[next(iter(self.used))]

    def predecessors_of(self, flow: OutboundFlow, now: float) -> tuple[Predecessor, ...]:
        """Those of the first frame of a flow in this generation, each for the destinations that both have."""
        if now > self.began_at + IN_USE_S:
            return ()
        found = [
            before._replace(destinations=before.destinations & flow.destinations)
            for before in self.before
            if before.destinations & flow.destinations and before.flow_id != flow.id
        ]
        while len(encode_predecessors(found)) > MAX_PREDECESSORS_BYTES:
            found.pop()
        return tuple(found)


class FlowTable:
    """Finds the flow of a subject from what the other domains want."""

    def __init__(self, domain: str, order: tuple[str, ...], rules: TopicRules) -> None:
        self._bit_of = {name: 1 << position for position, name in enumerate(order) if name != domain}
        self._rules = rules
        self._wanted: SubjectTrie[int] = SubjectTrie()
        self._flows: dict[tuple[int, int], OutboundFlow] = {}
        self._by_id: dict[int, OutboundFlow] = {}
        self._touched: list[OutboundFlow] = []
        self._last_id = 0
        self._lanes: dict[int, _Lane] = {}
        self._generation = 0
        self._forgotten = False

    @property
    def wanted(self) -> int:
        """Pairs of domain and subject that are wanted."""
        return len(self._wanted)

    def want(self, domain: str, subject: str) -> None:
        """Subscribers in `domain` want `subject`."""
        self._wanted.add(subject, self._bit_of[domain])
        self._generation += 1

    def forget(self, domain: str, subject: str) -> None:
        """Nobody in `domain` wants `subject` any more."""
        self._wanted.remove(subject, self._bit_of[domain])
        self._generation += 1

    def flow_of(self, subject: str) -> OutboundFlow | None:
        """The flow for a literal subject, or None when it goes nowhere."""
        if is_internal(subject):
            return None
        destinations = 0
        for bit in self._wanted.match(subject):
            destinations |= bit
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

    def predecessors(self, flow: OutboundFlow, now: float) -> tuple[Predecessor, ...]:
        """What must be delivered before the frame that a flow is about to send."""
        lane = self._lanes.get(flow.topic_class)
        if lane is None:
            lane = self._lanes[flow.topic_class] = _Lane()
        if lane.generation != self._generation:
            lane.begin(self._generation, now)
        lane.use(flow, now)
        if flow.generation == self._generation:
            return ()
        flow.generation = self._generation
        if self._rules.contract_at(flow.topic_class).order is Order.NONE:
            return ()
        return lane.predecessors_of(flow, now)

    def take_forgotten(self) -> bool:
        """Whether flows were forgotten since the last call, so that what `flow_of` gave is out of date."""
        forgotten, self._forgotten = self._forgotten, False
        return forgotten

    def _flow(self, destinations: int, topic_class: int) -> OutboundFlow:
        key = (destinations, topic_class)
        flow = self._flows.get(key)
        if flow is None:
            if len(self._flows) >= MAX_FLOWS:
                # Flows are only cached; those that hold messages stay alive through the touched list.
                self._flows.clear()
                self._generation += 1
                self._forgotten = True
                self._by_id = {flow.id: flow for flow in self._touched}
            self._last_id += 1
            flow = self._flows[key] = OutboundFlow(self._last_id, destinations, topic_class, self._touched)
            self._by_id[flow.id] = flow
        return flow
