"""The overlay under virtual time: production engines on a network that delays, swallows, breaks and heals.

Links behave as TCP connections over an unreliable network do: bytes stay in order; what enters a black hole
comes out when the hole is lifted, unless the connection was given up meanwhile; a closed connection is
noticed by the other end after the link's delay, or not at all through a black hole; a broken link is called
again; a lost packet is sent again, and everything behind it waits. Everything random comes from one seed, so
a schedule can be repeated. A network can be kept and restored (pickle), so that many schedules can start from
one that is at rest.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from mangrove.model.federation import Federation
from mangrove.model.questions.endangered import AvoidRequest
from mangrove.model.questions.session_quality import AskRequest
from mangrove.model.site_pair import SitePair, site_pair
from mangrove.model.versions.document import FederationDocument, WrittenDocument, in_force
from mangrove.model.versions.kept import KeptVersions
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.instructions import (
    AdoptDocument,
    CloseLink,
    ConfirmSubscriptions,
    DeliverMessages,
    DropMessages,
    HandToAgent,
    Instruction,
    KeepVersions,
    MakeTables,
    ResetTimer,
    SendFrame,
    ServeHead,
    ServeLink,
)
from mangrove.overlay.links.liveness import Timing
from mangrove.overlay.protocol.frames import Frame, FrameError, Name
from mangrove.overlay.stimuli.recorded_engine import Record, RecordedEngine
from mangrove.overlay.trust.trust import KeyTrust
from mangrove.routing.failover.gateway_tables import GatewayTables, prepared_network, tables_by_domain
from mangrove.simulation.forging.keys import SimulatedAuthority

MAKING_S = 0.05
"""Within which gateways make their tables, each in another time."""
RECALL_S = 0.1
CALL_TIMEOUT_S = 1.0
RETRANSMIT_S = 0.2
"""The least time after which TCP sends a lost packet again."""
JOURNAL_ENTRIES = 1 << 14
MIN_WAIT_S = 0.0005
NEVER = float("inf")
BYTES_A_MEGABIT = 125_000
BEGINNING_NS = 1_700_000_000 * 10**9
"""The time of day at which virtual time begins."""


class Forger(Protocol):
    """What a compromised gateway does beside its engine."""

    def passed(self, peer: str, frame: Frame) -> list[Frame]:
        """What is sent to a neighbour in place of what the engine sends."""

    def heard(self, frame: Frame) -> None:
        """A neighbour sent something."""


@dataclass(slots=True)
class SimulatedLink:
    """One link: its delay, whether it swallows everything, and its present connection."""

    ends: SitePair
    delay_s: float
    jitter_s: float = 0.0
    loss_ratio: float = 0.0
    black_hole: bool = False
    connection: int = 0
    """Number of the connection; frames of an earlier one are lost."""
    open_at: set[str] = field(default_factory=set)
    """Ends that believe the connection to be open."""
    bytes_per_s: float | None = None
    free_at: dict[str, float] = field(default_factory=dict)
    """When each end may put the next data frame on the line, if its bandwidth is limited."""
    held: list[tuple[str, int, Frame]] = field(default_factory=list)
    last_arrival: dict[str, float] = field(default_factory=dict)

    def other(self, end: str) -> str:
        return self.ends[1] if end == self.ends[0] else self.ends[0]


class VirtualTime:
    """Events in the order of their times; equal times in the order in which they were planned."""

    def __init__(self, seed: int) -> None:
        self.now = 0.0
        self.random = random.Random(seed)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def at(self, time: float, action: Callable[[], None]) -> None:
        """Do something later."""
        self._count += 1
        heapq.heappush(self._events, (time, self._count, action))

    def run(self, until: float) -> None:
        """Let time pass."""
        events = self._events
        while events and events[0][0] <= until:
            self.now, _, action = heapq.heappop(events)
            action()
        self.now = until


class SimulatedOverlay(VirtualTime):
    """A federation's gateways and links in virtual time."""

    def __init__(
        self,
        federation: Federation,
        seed: int,
        *,
        timing: Timing | None = None,
        tables: Mapping[str, GatewayTables] | None = None,
        jitter_s: float = 0.0,
        record: Mapping[str, Record] | None = None,
        authority: SimulatedAuthority | None = None,
    ) -> None:
        """`record` takes what the engines of some domains are told, to be replayed.

        With an `authority` all gateways have keys, and sign what they say.
        """
        super().__init__(seed)
        self._recorders = dict(record or {})
        self.authority = authority
        self._jitter_s = jitter_s
        self.adopted: Callable[[str, FederationDocument], None] | None = None
        """Is told when a gateway acts by another version."""
        self.watch: Callable[[str, Frame], None] | None = None
        """Is told of every frame that comes to a gateway, before it is looked at there."""
        self.forgers: dict[str, Forger] = {}
        """Compromised gateways: what they send, and hear, passes through their forger's hands."""
        self.federation = federation
        self.delivered: Counter[tuple[str, bytes]] = Counter()
        self.delivered_at: dict[tuple[str, bytes], float] = {}
        self.duplicates: Counter[tuple[str, bytes]] = Counter()
        """Messages that were delivered again, and how often."""
        self._journals: dict[str, deque[Name]] = {
            name: deque(maxlen=JOURNAL_ENTRIES) for name in federation.domains
        }
        self.dropped: Counter[str] = Counter()
        self.managed: dict[str, list[tuple[str, bytes]]] = {name: [] for name in federation.domains}
        """What was handed to each domain's agent, and whose agent said it."""
        self._heads_away: set[str] = set()
        self._for_heads: dict[str, list[bytes]] = {name: [] for name in federation.domains}
        """What waits until a head broker and its subscribers are back."""
        self._timing = timing or Timing()
        self._tables = tables or tables_by_domain(federation)
        self._epoch = 0
        self._wake_at: dict[str, float] = {}
        self._wanted: dict[str, set[str]] = {name: set() for name in federation.domains}
        self.disks: dict[str, KeptVersions] = {}
        """What the gateways have written down of versions; it survives them."""
        self.disk_s = 0.0
        """How long a disk takes for it. Who dies before that has not written it down."""
        self._writes: Counter[str] = Counter()
        self._written: Counter[str] = Counter()
        self.engines: dict[str, OverlayEngine] = {}
        self.links = {
            site_pair(*link.between): SimulatedLink(
                site_pair(*link.between), federation.link_weight(link) / 1000, jitter_s
            )
            for link in federation.links
        }
        for name in federation.domains:
            self.start(name)

    # -- gateways -----------------------------------------------------------------------------------------

    def start(self, name: str) -> None:
        """A gateway starts, or starts again with nothing in its memory but its journal of deliveries."""
        self._epoch += 1
        self._furnish(name)
        if self.authority is not None:
            self._epoch = max(self._epoch, self.time_ns())
        engine = self._engine(name)
        engine.remember(self._journals[name])
        self.engines[name] = engine
        for subject in sorted(self._wanted[name]):
            engine.change_local_interest(subject, "", True)
        engine.flush(self.now)
        self._lay_links(name)
        for link in self.links.values():
            if name in link.ends:
                self._call(link)
        self._tick(name)

    def _furnish(self, name: str) -> None:
        """Everything that there is of a domain besides its gateway."""
        self._journals.setdefault(name, deque(maxlen=JOURNAL_ENTRIES))
        self.managed.setdefault(name, [])
        self._for_heads.setdefault(name, [])
        self._wanted.setdefault(name, set())

    def _tables_of(self, name: str) -> GatewayTables:
        """What a gateway starts with: the tables of what it has written down, or of the file."""
        committed = self.disks[name].committed if name in self.disks else None
        if committed is None or committed.read().network is None:
            return self._tables[name]
        return GatewayTables(prepared_network(in_force(self.federation, committed.read())), name)

    def _engine(self, name: str) -> OverlayEngine:
        if name in self._recorders:
            record = self._recorders[name]
            return RecordedEngine(
                self.federation,
                name,
                self._epoch,
                record,
                timing=self._timing,
                tables=self._tables_of(name),
                trust=self.trust_of(name),
                kept=self.disks.get(name),
            )
        return OverlayEngine(
            self.federation,
            name,
            self._epoch,
            timing=self._timing,
            tables=self._tables_of(name),
            trust=self.trust_of(name),
            kept=self.disks.get(name),
        )

    def trust_of(self, name: str) -> KeyTrust | None:
        """The keys of a domain, if there are any."""
        if self.authority is None:
            return None
        return KeyTrust(self.federation.name, self.authority.keys[name], self.authority, self.time_ns)

    def time_ns(self) -> int:
        """The time of day."""
        return BEGINNING_NS + int(1e9 * self.now)

    def validate(self) -> None:
        """Check all invariants of all engines."""
        for engine in self.engines.values():
            engine.validate()

    def crash(self, name: str, *, silent: bool) -> None:
        """A gateway dies. Its neighbours are told by their TCP, or not if the whole machine is gone."""
        self.engines.pop(name, None)
        self._wake_at.pop(name, None)
        self._for_heads[name].clear()
        for link in self.links.values():
            if name in link.ends:
                link.open_at.discard(name)
                if not silent and not link.black_hole:
                    self._hang_up(link, link.other(name))

    def subscribe(self, name: str, *subjects: str) -> None:
        """Subscribers in a domain want subjects."""
        self._wanted[name].update(subjects)
        if name in self.engines:
            engine = self.engines[name]
            for subject in subjects:
                engine.change_local_interest(subject, "", True)
            self._carry_out(name, engine.flush(self.now))

    def unsubscribe(self, name: str, *subjects: str) -> None:
        """Nobody in a domain wants subjects any more."""
        self._wanted[name].difference_update(subjects)
        if name in self.engines:
            engine = self.engines[name]
            for subject in subjects:
                engine.change_local_interest(subject, "", False)
            self._carry_out(name, engine.flush(self.now))

    def ask(self, name: str, request: AskRequest) -> None:
        """A session in a domain asks for more than a contract; AskRefusedError if that cannot be."""
        if name in self.engines:
            self._carry_out(name, self.engines[name].ask(request, self.now))

    def publish(self, name: str, subject: str, body: bytes) -> bool:
        """A message is published; False if nobody elsewhere is known to want it."""
        engine = self.engines.get(name)
        routes = engine.route(subject) if engine is not None else ()
        if engine is None or not routes:
            return False
        for route in routes:
            route.flow.take(body)
        self._carry_out(name, engine.flush(self.now))
        return True

    def avoid(self, name: str, request: AvoidRequest) -> None:
        """An operator tells a gateway that a region is endangered, or no longer."""
        self._carry_out(name, self.engines[name].avoid(request, self.now))

    def propose(self, name: str, written: WrittenDocument) -> None:
        """An operator asks a gateway for another version; InputError if that cannot be."""
        self._carry_out(name, self.engines[name].propose(written, self.now))

    def manage(self, name: str, peer: str, body: bytes) -> None:
        """The agent of a domain says something to that of a neighbour."""
        if name in self.engines:
            self._carry_out(name, self.engines[name].send_management(peer, body, self.now))

    def renew_keys(self, name: str) -> None:
        """A gateway is given keys again."""
        trust = self.trust_of(name)
        assert trust is not None, "without an authority there are no keys"
        self._carry_out(name, self.engines[name].renew_keys(trust, self.now))

    def _tick(self, name: str) -> None:
        """Serve a gateway's timers and plan the next time, as the production gateway does."""
        self._wake_at.pop(name, None)
        self._carry_out(name, self.engines[name].handle_timer(self.now))
        self._set_timer(name)

    def _set_timer(self, name: str) -> None:
        due = max(self.engines[name].timer(), self.now + MIN_WAIT_S)
        if due < self._wake_at.get(name, NEVER):
            self._wake_at[name] = due
            self.at(due, partial(self._wake, name, due))

    def _wake(self, name: str, due: float) -> None:
        if self._wake_at.get(name) == due:
            self._tick(name)

    def _carry_out(self, name: str, instructions: list[Instruction]) -> None:
        for instruction in instructions:
            # The two kinds that most are of are told apart at once.
            if isinstance(instruction, SendFrame):
                self._send(name, instruction.peer, instruction.frame)
                continue
            if isinstance(instruction, ServeLink):
                self._serve(name, self.link(name, instruction.peer))
                continue
            match instruction:
                case CloseLink(peer):
                    self._close(name, self.link(name, peer))
                case DeliverMessages(frame):
                    self._journals[name].append(frame.name)
                    self._for_heads[name].append(frame.body)
                    self._serve_head(name)
                case HandToAgent(peer, frame):
                    self.managed[name].append((peer, frame.body))
                case ConfirmSubscriptions(applied):
                    engine = self.engines[name]
                    self._carry_out(name, engine.subscriptions_confirmed(applied, self.now))
                case ServeHead():
                    self._serve_head(name)
                case ResetTimer():
                    self._set_timer(name)
                case KeepVersions(kept, then, at_once):
                    self._writes[name] += 1
                    write = partial(self._write, name, self.engines[name], self._writes[name], kept, then)
                    if at_once or not self.disk_s:
                        write()
                    else:
                        self.at(self.now + self.disk_s, write)
                case AdoptDocument(document):
                    self._adopted(name, document)
                case MakeTables(federation, version):
                    later = self.now + self.random.uniform(0.0, MAKING_S)
                    self.at(later, partial(self._made, name, self.engines[name], federation, version))
                case DropMessages(_, reason):
                    self.dropped[reason] += 1
                case _:
                    pass

    def _write(
        self, name: str, engine: OverlayEngine, number: int, kept: KeptVersions, then: tuple[SendFrame, ...]
    ) -> None:
        """Something is on disk, unless its gateway has died; what was to be written before is there too."""
        if self.engines.get(name) is not engine:
            return
        if number > self._written[name]:
            self._written[name] = number
            self.disks[name] = kept
        self._carry_out(name, list(then))

    def _adopted(self, name: str, document: FederationDocument) -> None:
        """A gateway acts by another version: it calls by links that are new, and others hear of it."""
        self._lay_links(name)
        for link in self.engines[name].federation.links_of(name):
            self._call(self.links[link.pair])
        if self.adopted is not None:
            self.adopted(name, document)

    def _lay_links(self, name: str) -> None:
        """There is a link wherever a gateway knows of one."""
        federation = self.engines[name].federation
        for link in federation.links_of(name):
            if link.pair not in self.links:
                delay_s = federation.link_weight(link) / 1000
                self.links[link.pair] = SimulatedLink(link.pair, delay_s, self._jitter_s)

    def _made(self, name: str, engine: OverlayEngine, federation: Federation, version: int) -> None:
        """Tables are made that a gateway asked for, if it still lives."""
        if self.engines.get(name) is engine:
            tables = GatewayTables(prepared_network(federation), name)
            self._carry_out(name, engine.tables_made(version, tables, self.now))

    def lose_head(self, name: str) -> None:
        """A head broker dies, and the subscriptions with it."""
        self._heads_away.add(name)
        self.engines[name].head_lost(self.now)

    def return_head(self, name: str, *subjects: str) -> None:
        """The head broker is back; those who want `subjects` have returned to it so far."""
        self._heads_away.discard(name)
        self._wanted[name] = set()
        self.subscribe(name, *subjects)
        self._serve_head(name)

    def _serve_head(self, name: str) -> None:
        if name not in self._heads_away and self.engines[name].head_settled:
            waiting, self._for_heads[name] = self._for_heads[name], []
            for body in waiting:
                self._deliver(name, body)

    def _deliver(self, name: str, body: bytes) -> None:
        if self.delivered[name, body]:
            self.duplicates[name, body] += 1
        self.delivered[name, body] += 1
        self.delivered_at.setdefault((name, body), self.now)

    # -- links --------------------------------------------------------------------------------------------

    def link(self, first: str, second: str) -> SimulatedLink:
        """The link between two domains."""
        return self.links[site_pair(first, second)]

    def reset(self, first: str, second: str) -> None:
        """A connection is broken on the way, and both ends are told."""
        link = self.link(first, second)
        for end in link.ends:
            self._hang_up(link, end)

    def black_hole(self, first: str, second: str, swallow: bool) -> None:
        """A link begins or ceases to swallow everything."""
        link = self.link(first, second)
        link.black_hole = swallow
        if not swallow:
            held, link.held = link.held, []
            for sender, connection, frame in held:
                self._travel(link, sender, connection, frame)

    def narrow(self, first: str, second: str, bandwidth_mbps: float | None) -> None:
        """A link carries so much from now on, in each direction; None: whatever it is given."""
        link = self.link(first, second)
        link.bytes_per_s = None if bandwidth_mbps is None else bandwidth_mbps * BYTES_A_MEGABIT
        for end in link.ends:
            self._serve_again(end, link)

    def _serve(self, name: str, link: SimulatedLink) -> None:
        """Pull what waits: everything, or on a link of limited bandwidth one frame after the other."""
        peer = link.other(name)
        engine = self.engines[name]
        if link.bytes_per_s is None:
            while name in link.open_at and (frame := engine.pull(peer, self.now)) is not None:
                self._send(name, peer, frame)
        elif name in link.open_at and self.now >= link.free_at.get(name, 0.0):
            frame = engine.pull(peer, self.now)
            if frame is not None:
                free_at = self.now + (len(frame.head()) + len(frame.body)) / link.bytes_per_s
                link.free_at[name] = free_at
                self._send(name, peer, frame)
                self.at(free_at, partial(self._serve_again, name, link))

    def _serve_again(self, name: str, link: SimulatedLink) -> None:
        if name in self.engines:
            self._serve(name, link)

    def _send(self, name: str, peer: str, frame: Frame) -> None:
        if name not in self.forgers:
            self.put(name, peer, frame)
            return
        for each in self.forgers[name].passed(peer, frame):
            self.put(name, peer, each)

    def put(self, name: str, peer: str, frame: Frame) -> None:
        """Put a frame on a link, whatever the engine of its sender thinks of it."""
        link = self.link(name, peer)
        if name not in link.open_at:
            return
        if link.black_hole:
            link.held.append((name, link.connection, frame))
        else:
            self._travel(link, name, link.connection, frame)

    def _travel(self, link: SimulatedLink, sender: str, connection: int, frame: Frame) -> None:
        delay = link.delay_s + (self.random.uniform(0, link.jitter_s) if link.jitter_s else 0.0)
        while link.loss_ratio and self.random.random() < link.loss_ratio:
            delay += max(RETRANSMIT_S, 4 * link.delay_s)
        arrival = max(link.last_arrival.get(sender, 0.0), self.now + delay)
        link.last_arrival[sender] = arrival
        self.at(arrival, partial(self._arrive, link, sender, connection, frame))

    def _arrive(self, link: SimulatedLink, sender: str, connection: int, frame: Frame) -> None:
        receiver = link.other(sender)
        engine = self.engines.get(receiver)
        if connection != link.connection or receiver not in link.open_at or engine is None:
            return
        if link.black_hole:
            link.held.append((sender, connection, frame))
            return
        if receiver in self.forgers:
            self.forgers[receiver].heard(frame)
        if self.watch is not None:
            self.watch(receiver, frame)
        engine.heard(sender, self.now)
        try:
            instructions = engine.receive(sender, frame, self.now)
        except FrameError as error:
            if sender not in self.forgers:
                raise
            self._carry_out(receiver, engine.peer_down(sender, self.now, error.message))
            self._close(receiver, link)
            return
        self._carry_out(receiver, instructions)

    def _close(self, name: str, link: SimulatedLink) -> None:
        """One end gives the connection up; the other notices if anything gets through."""
        link.open_at.discard(name)
        link.connection += 1
        link.held.clear()
        if not link.black_hole:
            self._hang_up(link, link.other(name))
        self.at(self.now + RECALL_S, partial(self._call, link))

    def _hang_up(self, link: SimulatedLink, end: str) -> None:
        self.at(self.now + link.delay_s, partial(self._notice, link, end, link.connection))

    def _notice(self, link: SimulatedLink, end: str, connection: int) -> None:
        """One end learns that its connection is gone."""
        engine = self.engines.get(end)
        if end in link.open_at and engine is not None and connection == link.connection:
            link.open_at.discard(end)
            self._carry_out(end, engine.peer_down(link.other(end), self.now, "closed by the peer"))
            self.at(self.now + RECALL_S, partial(self._call, link))

    def _call(self, link: SimulatedLink) -> None:
        """Try to connect; both ends must be there, know of the link, and a round trip must get through."""
        if not self._greets(link):
            if any(self._knows(end, link) for end in link.ends):
                self.at(self.now + CALL_TIMEOUT_S, partial(self._call, link))
            return
        if all(end in self.engines for end in link.ends) and len(link.open_at) < len(link.ends):
            self.at(self.now + 2 * link.delay_s, partial(self._answered, link, link.connection))

    def _knows(self, end: str, link: SimulatedLink) -> bool:
        """Whether a link is one of the federation, as a gateway knows that."""
        engine = self.engines.get(end)
        if engine is None or engine.departed:
            return False
        return any(each.pair == link.ends for each in engine.federation.links_of(end))

    def _greets(self, link: SimulatedLink) -> bool:
        """Whether neither end that lives would refuse the other."""
        return all(self._knows(end, link) for end in link.ends if end in self.engines)

    def _answered(self, link: SimulatedLink, started: int) -> None:
        if link.connection != started or not all(end in self.engines for end in link.ends):
            return
        if not self._greets(link):
            self._call(link)
            return
        if link.black_hole:
            self.at(self.now + CALL_TIMEOUT_S, partial(self._call, link))
            return
        link.connection += 1
        link.open_at = set(link.ends)
        for end in link.ends:
            self._carry_out(end, self.engines[end].peer_up(link.other(end), self.now))
            self._tick(end)
