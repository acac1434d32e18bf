"""Flows: messages on their way out of a domain, gathered by destination set and topic class.

A flow collects runs of whole broker messages while one buffer from the head broker is read, and gives them up
as the body of one frame when the buffer is done. Nothing waits for a timer.

A subject moves to another flow when other domains begin or cease to want it. So that order survives the move,
a new *generation* begins with every such change, and the first frame of each flow in a generation names its
predecessors: the last frames of the flows of its topic class that were in use before and share a destination.
While a flow is young, its frames say so: who hears one of them first waits for those before it.

A queue group that has members in several domains is served once: by its own domain's, else by the nearest
domain's (`nearest`). So a subject may need several flows, one for each domain that serves groups of it, whose
messages name them, and one for all domains that have plain subscribers only.

A domain all of whose subscribers select by headers gets what one of them selects, by a flow that it shares
with those domains alone that select the same. So what a domain gets of a subject comes by one flow, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, KeysView, Mapping
from typing import Any, NamedTuple

from mangrove.model.access.evaluation import Decision
from mangrove.model.patterns.trie import SubjectTrie
from mangrove.model.selectors.group_names import selector_in
from mangrove.model.selectors.selector import Selector
from mangrove.model.subjects import is_internal
from mangrove.model.topics import Contract, Order, Queue, Scope
from mangrove.model.versions.network import is_retired
from mangrove.model.versions.rules_in_force import Rules
from mangrove.overlay.forwarding.border import Border
from mangrove.overlay.forwarding.nearest import NearestDomains
from mangrove.overlay.protocol.frames import (
    MAX_PREDECESSORS_BYTES,
    YOUNG,
    Frame,
    Predecessor,
    encode_predecessors,
)

HOP_LIMIT = 32
MAX_FLOWS = 4096
MAX_PREDECESSORS = 32
MAX_SELECTORS = 16
"""A domain that selects in more ways on a subject gets everything: each costs time with every message."""
MARK_BYTES = len(encode_predecessors([Predecessor(0, 0, 0)]))
IN_USE_S = 2.0
"""Frames that were sent longer ago need not be waited for: longer than any hold, and a way besides."""


class FlowKey(NamedTuple):
    """What the messages of a flow have in common."""

    destinations: int
    topic_class: int
    jobs: bool = False
    """Whether they name queue groups."""
    retargeted: bool = False
    """Whether another domain should have served them: they wait for a way, and do not turn at once."""
    hop_limit: int = HOP_LIMIT
    confidential: bool = False
    """Whether their frames are sealed."""


class OutboundFlow:
    """Messages for one set of destinations and one topic class."""

    __slots__ = (
        "_pieces",
        "_touched",
        "began_at",
        "confidential",
        "destinations",
        "generation",
        "hop_limit",
        "id",
        "jobs",
        "retargeted",
        "sequence",
        "topic_class",
        "used_at",
    )

    def __init__(self, flow_id: int, key: FlowKey, touched: list[OutboundFlow]) -> None:
        self.id = flow_id
        self.sequence = 0
        self.destinations, self.topic_class, self.jobs, self.retargeted, self.hop_limit = key[:5]
        self.confidential = key.confidential
        self.generation = 0
        """The last one in which a frame left."""
        self.began_at = self.used_at = 0.0
        """When its first frame left, and its last."""
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


class Route(NamedTuple):
    """A flow that takes messages on some subject, and the queue groups that they must name in it."""

    flow: OutboundFlow
    groups: tuple[str, ...]
    selectors: tuple[Selector, ...] = ()
    """If there are any: nobody there wants what none of them selects."""


class _Wanting(NamedTuple):
    """Who wants a literal subject: domains, as bits."""

    plain: int
    """With plain subscribers."""
    members: dict[str, int]
    """With members of each queue group."""
    selecting: dict[str, int]
    """With subscribers that select by headers, by the group that stands for what they select."""

    def within(self, allowed: int) -> _Wanting:
        """Of those, some."""
        members = {group: bits & allowed for group, bits in self.members.items() if bits & allowed}
        selecting = {group: bits & allowed for group, bits in self.selecting.items() if bits & allowed}
        return _Wanting(self.plain & allowed, members, selecting)

    @property
    def in_any_way(self) -> int:
        """All of them."""
        return self.unselected | _union(self.members)

    @property
    def unselected(self) -> int:
        """All that have subscribers of their own, whatever these select."""
        return self.plain | _union(self.selecting)


class _Lane:
    """The flows of one topic class, the one used last at the end; what was in use before this generation."""

    __slots__ = ("before", "began_at", "generation", "used")

    def __init__(self) -> None:
        self.used: dict[int, OutboundFlow] = {}
        self.generation = 0
        self.began_at = 0.0
        self.before: list[Predecessor] = []

    def begin(self, generation: int, now: float, others: Iterable[_Lane] = ()) -> None:
        """Note which flows were in use; the others have arrived by now, or been given up.

        Of `others` too: their subjects may be of this lane from now on.
        """
        self.generation, self.began_at = generation, now
        self.before = []
        for lane in (self, *others):
            for flow in reversed(lane.used.values()):
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
        while len(encode_predecessors(found)) > MAX_PREDECESSORS_BYTES - MARK_BYTES:
            found.pop()
        return tuple(found)


class FlowTable:
    """Finds the flow of a subject from what the other domains want."""

    def __init__(
        self,
        domain: str,
        order: tuple[str, ...],
        rules: Rules,
        nearest: NearestDomains,
        border: Border | None = None,
    ) -> None:
        self._domain = domain
        self.adopt(order)
        self._rules = rules
        self._nearest = nearest
        self._border = border
        self._wanted_by: dict[str, int] = {}
        """The domains, as bits, with plain subscribers to a subject or pattern; none where only groups want
        it. Most are literal, and only looked up."""
        self._members: dict[str, dict[str, int]] = {}
        """The domains, as bits, that have members of queue groups for a subject or pattern."""
        self._selecting: dict[str, dict[str, int]] = {}
        """And that have subscribers which select: groups too, of their own kind
        (`mangrove.model.selectors.group_names`). There may be very many, and to read a name takes time."""
        self._patterns: SubjectTrie[str] = SubjectTrie()
        self._flows: dict[FlowKey, OutboundFlow] = {}
        self._by_id: dict[int, OutboundFlow] = {}
        self._touched: list[OutboundFlow] = []
        self._last_id = 0
        self._lanes: dict[int, _Lane] = {}
        self._generation = 0
        self._forgotten = False
        self._moved_from: dict[int, set[int]] = {}
        """Classes from which subjects have passed to another lately."""
        self._moved_at = float("-inf")

    def adopt(self, order: tuple[str, ...]) -> None:
        """These are the domains; nothing is wanted any more by those that have left."""
        self._bit_of = {
            name: 1 << position
            for position, name in enumerate(order)
            if name != self._domain and not is_retired(name)
        }

    @property
    def wanted(self) -> int:
        """How much is wanted: subjects, for each domain and group."""
        of_groups = (*self._members.values(), *self._selecting.values())
        grouped = sum(bits.bit_count() for groups in of_groups for bits in groups.values())
        return sum(map(int.bit_count, self._wanted_by.values())) + grouped

    def wants_of_domains(self) -> Iterator[tuple[str, str]]:
        """Domains and subjects, once for plain subscribers and once for each group."""
        for subject, plain in self._wanted_by.items():
            for bits in (plain, *self._groups(subject).values()):
                yield from ((name, subject) for name, bit in self._bit_of.items() if bits & bit)

    def _groups(self, subject: str) -> dict[str, int]:
        """All groups for just this subject or pattern."""
        return self._members.get(subject, {}) | self._selecting.get(subject, {})

    def subjects(self) -> KeysView[str]:
        """All that is wanted, by any domain."""
        return self._wanted_by.keys()

    def wants(self, subject: str) -> bool:
        """Whether any other domain wants a literal subject, also one that cannot be reached at present."""
        return subject in self._wanted_by or bool(self._patterns and self._patterns.match(subject))

    def want(self, domain: str, subject: str, group: str = "") -> bool:
        """Subscribers in `domain`, plain or of a queue group, want `subject`; whether they are the first."""
        self._generation += 1
        before = self._wanted_by.get(subject)
        bit = self._bit_of[domain]
        if group:
            of_kind = self._members if selector_in(group) is None else self._selecting
            groups = of_kind.setdefault(subject, {})
            groups[group] = groups.get(group, 0) | bit
            bit = 0
        self._wanted_by[subject] = (before or 0) | bit
        if before is None and ("*" in subject or ">" in subject):
            self._patterns.add(subject, subject)
        return before is None

    def forget(self, domain: str, subject: str, group: str = "") -> bool:
        """Nobody in `domain` wants `subject` any more in this way; whether nobody does at all."""
        left = self._wanted_by.get(subject)
        if left is None:
            return False
        self._generation += 1
        bit = self._bit_of[domain]
        if group:
            for of_kind in (self._members, self._selecting):
                _forget_group(of_kind, subject, group, bit)
        else:
            left = self._wanted_by[subject] = left & ~bit
        if left or subject in self._members or subject in self._selecting:
            return False
        del self._wanted_by[subject]
        if "*" in subject or ">" in subject:
            self._patterns.remove(subject, subject)
        return True

    def choices_changed(self) -> None:
        """Groups are served by others than before: subjects may move to other flows."""
        self._generation += 1

    def border_changed(self, border: Border | None) -> None:
        """Other rules of access hold: subjects may go elsewhere than before."""
        self._border = border
        self._generation += 1

    def contracts_changed(self, moved: Iterable[tuple[int, int]], now: float) -> None:
        """Other contracts hold; subjects may have `moved` from one class to another.

        What leaves in the new class names what left in the old one as its predecessors.
        """
        self._generation += 1
        if now > self._moved_at + IN_USE_S:
            self._moved_from.clear()
        self._moved_at = now
        before = {new: set(old) for new, old in self._moved_from.items()}
        for old, new in moved:
            if self._rules.contract_at(old).order is not Order.NONE and old != new:
                self._moved_from.setdefault(new, set()).update({old} | before.get(old, set()))
        known = {*self._rules.known(), self._rules.unmatched}
        self._lanes = {kept: lane for kept, lane in self._lanes.items() if kept in known}

    def routes_of(self, subject: str, at_home: Callable[[str], Collection[str]]) -> tuple[Route, ...]:
        """The flows for a literal subject; none when it goes nowhere. Groups `at_home` are served there."""
        topic_class = self._rules.class_of(subject)
        contract = self._rules.contract_at(topic_class)
        if is_internal(subject) or contract.scope is Scope.DOMAIN:
            return ()
        wanting = self._served(subject)
        selected = _selected(wanting, contract) if wanting.selecting else {}
        key = FlowKey(0, topic_class, confidential=contract.confidential)
        routes = self._unselected(
            subject, wanting.unselected & ~_union(selected), wanting.members, key, at_home
        )
        return routes + tuple(
            Route(self._flow(key._replace(destinations=bits)), (), selectors)
            for selectors, bits in selected.items()
        )

    def _unselected(
        self,
        subject: str,
        plain: int,
        members: dict[str, int],
        key: FlowKey,
        at_home: Callable[[str], Collection[str]],
    ) -> tuple[Route, ...]:
        """The flows to domains that get everything."""
        if not members:
            return (Route(self._flow(key._replace(destinations=plain)), ()),) if plain else ()
        serving: dict[int, list[str]] = {}
        if self._rules.contract_at(key.topic_class).queue is Queue.LOCAL_EACH:
            plain |= _union(members)
        else:
            for group in sorted(members.keys() - at_home(subject)):
                serving.setdefault(self._nearest.of(members[group]), []).append(group)
        return self._routes(plain, serving, key)

    def retarget(
        self, subject: str, groups: Collection[str], away: int, hop_limit: int
    ) -> tuple[tuple[Route, ...], tuple[str, ...]]:
        """Who serves groups if the domains `away` cannot: flows, and the groups that have no member left.

        Where nobody else can be reached the messages wait for one that has members. Plain subscribers in
        the domains `away` are still to get the message; those elsewhere had their own copy.
        """
        wanting = self._served(subject)
        plain, members = wanting.unselected, wanting.members
        serving: dict[int, list[str]] = {}
        waiting: dict[int, list[str]] = {}
        lost: list[str] = []
        for group in sorted(groups):
            has_members = members.get(group, 0)
            chosen = self._nearest.reachable(has_members & ~away)
            if chosen:
                serving.setdefault(chosen, []).append(group)
            elif has_members:
                waiting.setdefault(self._nearest.of(has_members), []).append(group)
            else:
                lost.append(group)
        topic_class = self._rules.class_of(subject)
        confidential = self._rules.contract_at(topic_class).confidential
        key = FlowKey(0, topic_class, retargeted=True, hop_limit=hop_limit, confidential=confidential)
        routes = self._routes(plain & away, waiting, key)
        return routes + self._routes(0, serving, key._replace(hop_limit=hop_limit - 1)), tuple(lost)

    def refused(self, subject: str) -> tuple[tuple[str, Decision], ...]:
        """The domains that want a literal subject and may not have it, and by which rule.

        Of what stays in its domain anyway, nobody is refused anything: who wants `>` does not mean that.
        """
        if self._border is None or is_internal(subject):
            return ()
        if self._rules.contract_of(subject).scope is Scope.DOMAIN:
            return ()
        wanting = self._wanting(subject).in_any_way
        refused = self._border.leaving(subject).refused
        return tuple(
            (name, refused[bit]) for name, bit in self._bit_of.items() if bit & wanting and bit in refused
        )

    def _served(self, subject: str) -> _Wanting:
        """Of the domains that want a literal subject, those that may have it."""
        wanting = self._wanting(subject)
        return wanting if self._border is None else wanting.within(self._border.leaving(subject).allowed)

    def _wanting(self, subject: str) -> _Wanting:
        """The domains that want a literal subject, and how."""
        plain = self._wanted_by.get(subject, 0)
        wanted = [subject]
        for pattern in self._patterns.match(subject) if self._patterns else ():
            plain |= self._wanted_by[pattern]
            wanted.append(pattern)
        return _Wanting(plain, _together(self._members, wanted), _together(self._selecting, wanted))

    def _routes(self, plain: int, serving: dict[int, list[str]], key: FlowKey) -> tuple[Route, ...]:
        """One flow for each domain that serves groups, and one for all that have plain subscribers only."""
        routes = [
            Route(self._flow(key._replace(destinations=bit, jobs=True)), tuple(groups))
            for bit, groups in sorted(serving.items())
        ]
        for bit in serving:
            plain &= ~bit
        if plain:
            routes.insert(0, Route(self._flow(key._replace(destinations=plain)), ()))
        return tuple(routes)

    def flow_to(self, domain: str) -> OutboundFlow | None:
        """The flow for replies to a requester in `domain`; None if there is no such domain elsewhere."""
        bit = self._bit_of.get(domain)
        if bit is None:
            return None
        return self._flow(FlowKey(bit, self._rules.unmatched, confidential=self._rules.any_confidential))

    def flow(self, flow_id: int) -> OutboundFlow:
        """A flow that was made before."""
        return self._by_id[flow_id]

    def turned_back_from(self, frame: Frame) -> int:
        """Where an own frame was for that somebody turned back; nowhere if there was none that may come back.

        Anybody on the way can invent one: only jobs that are sealed are turned back, and only sent ones.
        """
        flow = self._by_id.get(frame.flow_id)
        if flow is None or not (flow.jobs and flow.confidential):
            return 0
        sent = frame.topic_class == flow.topic_class and frame.sequence <= flow.sequence
        return flow.destinations if sent else 0

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
            lane.begin(self._generation, now, self._moved_lanes(flow.topic_class, now))
        lane.use(flow, now)
        if not flow.sequence:
            flow.began_at = now
        begun_lately = flow.sequence >= YOUNG and now <= flow.began_at + IN_USE_S
        first = flow.generation != self._generation
        if not (first or begun_lately):
            return ()
        flow.generation = self._generation
        if self._rules.contract_at(flow.topic_class).order is Order.NONE:
            return ()
        return (
            *((Predecessor(flow.id, 0, 0),) if begun_lately else ()),
            *(lane.predecessors_of(flow, now) if first else ()),
        )

    def _moved_lanes(self, topic_class: int, now: float) -> list[_Lane]:
        """The lanes from which subjects have passed to this one lately."""
        if now > self._moved_at + IN_USE_S:
            return []
        sources = self._moved_from.get(topic_class, ())
        return [self._lanes[each] for each in sorted(sources) if each in self._lanes]

    def take_forgotten(self) -> bool:
        """Whether flows were forgotten since the last call, so that what `routes_of` gave is out of date."""
        forgotten, self._forgotten = self._forgotten, False
        return forgotten

    def _flow(self, key: FlowKey) -> OutboundFlow:
        flow = self._flows.get(key)
        if flow is None:
            if len(self._flows) >= MAX_FLOWS:
                # Flows are only cached; those that hold messages stay alive through the touched list.
                self._flows.clear()
                self._generation += 1
                self._forgotten = True
                self._by_id = {flow.id: flow for flow in self._touched}
            self._last_id += 1
            flow = self._flows[key] = OutboundFlow(self._last_id, key, self._touched)
            self._by_id[flow.id] = flow
        return flow


def _selected(wanting: _Wanting, contract: Contract) -> dict[tuple[Selector, ...], int]:
    """The domains all of whose subscribers select, by what they select. In doubt a domain is not among them.

    Of mirrored topics everything goes everywhere: their second copies are for whoever misses the first.
    """
    found: dict[tuple[Selector, ...], int] = {}
    if contract.mirror:
        return found
    rest = _union(wanting.selecting) & ~wanting.plain & ~_union(wanting.members)
    by_domain: dict[int, set[Selector]] = {}
    for group, bits in wanting.selecting.items():
        # Who has too many is done with: of a hundred thousand only the first few are read.
        for bit in _each_bit(bits & rest):
            if (selector := selector_in(group)) is not None:
                by_domain.setdefault(bit, set()).add(selector)
                if len(by_domain[bit]) > MAX_SELECTORS:
                    rest &= ~bit
    for bit in _each_bit(rest):
        key = tuple(sorted(by_domain[bit], key=lambda each: each.text))
        found[key] = found.get(key, 0) | bit
    return found


def _each_bit(bits: int) -> Iterator[int]:
    """The domains of a set."""
    while bits:
        bit = bits & -bits
        bits &= ~bit
        yield bit


def _together(groups: Mapping[str, dict[str, int]], subjects: Iterable[str]) -> dict[str, int]:
    """The groups for all of some subjects and patterns, with their domains."""
    found: dict[str, int] = {}
    for subject in subjects:
        for group, bits in groups.get(subject, {}).items():
            found[group] = found.get(group, 0) | bits
    return found


def _forget_group(groups: dict[str, dict[str, int]], subject: str, group: str, bit: int) -> None:
    """A domain has no members of a group any more."""
    known = groups.get(subject, {})
    left = known.get(group, 0) & ~bit
    if left:
        known[group] = left
    elif known.pop(group, 0) and not known:
        del groups[subject]


def _union(domains: Mapping[Any, int]) -> int:
    """All domains of a table."""
    union = 0
    for bits in domains.values():
        union |= bits
    return union
