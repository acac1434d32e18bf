"""The gateway's protocol engine: no sockets, no clock. Events go in, instructions come out.

This is the whole face that a shell sees, the live one or the simulator: neighbours come, go and send frames;
the head broker's subscribers come and go; messages are gathered; timers are due. What must be done about it
is told by `overlay.instructions`. The parts that decide are packages of their own: `overlay.links` (is a link
alive, what waits for it), `overlay.network` (what the network looks like), `overlay.routes` (explicit
routes), `overlay.interest` (who wants what), `overlay.forwarding` and `overlay.delivery` (where frames go).
The sides that a shell asks and tells most (`overlay.sides`) are modules of their own.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from mangrove.model.broker_kinds import BrokerKind
from mangrove.model.events.event_log import EventId, EventLog
from mangrove.model.federation import Federation
from mangrove.model.questions.endangered import AvoidRequest, EndangeredRegion
from mangrove.model.topics import Scope
from mangrove.model.versions.changes import Change
from mangrove.model.versions.document import FederationDocument, WrittenDocument, in_force
from mangrove.model.versions.kept import KeptVersions
from mangrove.model.versions.moves import moves
from mangrove.model.versions.rules_in_force import RulesInForce
from mangrove.overlay.delivery.delivery import Delivery
from mangrove.overlay.delivery.patience import Patience
from mangrove.overlay.events.happenings import (
    BudgetKept,
    BudgetOverrun,
    GatewayDisplaced,
    GatewayTookOver,
    LinkFailed,
    LinkRecovered,
)
from mangrove.overlay.forwarding.border import border_of
from mangrove.overlay.forwarding.flows import FlowTable
from mangrove.overlay.forwarding.forwarder import Forwarder
from mangrove.overlay.forwarding.nearest import NearestDomains
from mangrove.overlay.instructions import (
    AdoptDocument,
    CloseLink,
    ForgetRoutes,
    HandToAgent,
    Instruction,
    MakeTables,
    ResetTimer,
    ServeHead,
    send_control,
)
from mangrove.overlay.interest.interest_exchange import InterestExchange
from mangrove.overlay.interest.local_interest import HOLDOVER_S, KEPT_HOLDOVER_S, LocalInterest
from mangrove.overlay.interest.remote_interest import RemoteInterest
from mangrove.overlay.links.liveness import Timing
from mangrove.overlay.links.management import LINK_DOWN, MAX_MANAGEMENT_BYTES
from mangrove.overlay.links.neighbours import Neighbour, Neighbours
from mangrove.overlay.network.link_state import LinkStateDatabase
from mangrove.overlay.network.live_map import LiveMap
from mangrove.overlay.network_follower import EVERYTHING, NetworkFollower, NetworkParts
from mangrove.overlay.protocol.control_messages import (
    DangerAck,
    DangerNotice,
    Digest,
    Goodbye,
    Heartbeat,
    HeartbeatKind,
    Hello,
    InterestUpdate,
    LinkStateAck,
    LinkStateAd,
    Renewal,
    RouteAck,
    RouteMessage,
    RouteSetup,
    RouteTeardown,
    VersionMessage,
    control_body,
    control_frame,
)
from mangrove.overlay.protocol.frames import PROTOCOL_VERSION, Frame, FrameError, FrameType
from mangrove.overlay.protocol.greeting import check_hello, make_hello
from mangrove.overlay.protocol.signed import Signed
from mangrove.overlay.routes.effective_contracts import EffectiveContracts
from mangrove.overlay.routes.route_manager import RouteManager
from mangrove.overlay.routes.session_asks import SessionAsks
from mangrove.overlay.routes.transit_labels import OTHER_LIFE, TransitLabels
from mangrove.overlay.sides.accounts import Accounts, InvariantError
from mangrove.overlay.sides.data_side import DataSide
from mangrove.overlay.sides.head_side import HeadSide
from mangrove.overlay.trust.notary import ROUTE, Notary
from mangrove.overlay.trust.refusals import Refusal
from mangrove.overlay.trust.trust import Trust
from mangrove.overlay.versions.adoption import (
    NO_LINK,
    OTHER_NUMBER,
    AdoptingParts,
    NetworkAdoption,
    departed,
    differs,
)
from mangrove.overlay.versions.following import VersionsFollower
from mangrove.overlay.versions.messages import VersionNotice, VersionText
from mangrove.routing.failover.gateway_tables import GatewayTables, prepared_network


class OverlayEngine(HeadSide, DataSide, Accounts):
    """One gateway of the overlay."""

    def __init__(
        self,
        federation: Federation,
        domain: str,
        epoch: int,
        *,
        timing: Timing | None = None,
        tables: GatewayTables | None = None,
        events_before: int = 0,
        process: str = "",
        standing_by: bool = False,
        trust: Trust | None = None,
        kept: KeptVersions | None = None,
    ) -> None:
        """`events_before` is how many events earlier lives of this gateway have noted.

        `process` names this gateway where a domain has two. One that is `standing_by` has no neighbours; it
        only learns what is wanted, until it begins. With `trust`, what it says is signed, and what others
        are said to have said is believed only if they have signed it. `kept` is what earlier lives have
        written down of versions of the federation document; else that of the file is in force.
        """
        self.domain = domain
        self.epoch = epoch
        self._file = federation
        if kept is not None and kept.committed is not None:
            federation = in_force(federation, kept.committed.read())
        # Numbered once: every frame is looked up in the order of domains.
        federation = msgspec.structs.replace(federation, numbers=federation.domain_order)
        self.federation = federation
        links = [link.between for link in federation.links]
        peers = [link.other(domain) for link in federation.links_of(domain)]
        self._events = EventLog(process or domain, events_before)
        self.standing_by = standing_by
        self._live = LiveMap(federation, domain, tables)
        self._neighbours = Neighbours(peers, timing or Timing(), federation.queue_bytes)
        self._link_state = LinkStateDatabase(domain, epoch, links)
        self._notary = Notary(domain, federation.domain_order, self._link_state, self._events, trust)
        self._versions = VersionsFollower(domain, self._file, epoch, kept, self._notary, self._events)
        self.rules = RulesInForce(federation.topics)
        """The contracts that hold here at present."""
        self._asks = SessionAsks(self.rules)
        self._contracts = EffectiveContracts(self.rules, self._asks, self._live)
        self._routes = RouteManager(
            federation, domain, epoch, self._contracts, self._live, self._events, self.rules
        )
        self._nearest = NearestDomains(self._live)
        self.border = border_of(domain, federation.domain_order, federation.access)
        """What may pass between this domain and the others; None where everything may."""
        self._flows = FlowTable(domain, federation.domain_order, self.rules, self._nearest, self.border)
        keeps = federation.domains[domain].kind is not BrokerKind.NATS
        self._local = LocalInterest(KEPT_HOLDOVER_S if keeps else HOLDOVER_S)
        self._remote = RemoteInterest(
            domain, federation, epoch, self._flows, self.border, self._notary, self.rules
        )
        self._exchange = InterestExchange(self._local, self._remote, self._neighbours)
        self._labels = TransitLabels(
            domain,
            federation,
            self._neighbours,
            self._link_state,
            secured=self._notary.secured,
            rules=self.rules,
        )
        self._forwarder = Forwarder(
            federation,
            domain,
            epoch,
            self._neighbours,
            self._live,
            self._routes,
            self._labels,
            self._notary,
            self.rules,
        )
        self._network = NetworkFollower(
            NetworkParts(
                self._neighbours,
                self._link_state,
                self._live,
                self._contracts,
                self._asks,
                self._routes,
                self._forwarder,
                self._flows,
                self._nearest,
                self._events,
                self._notary,
            )
        )
        self._adoption = NetworkAdoption(
            domain,
            AdoptingParts(
                self._neighbours,
                self._link_state,
                self._live,
                self._routes,
                self._labels,
                self._forwarder,
                self._remote,
                self._exchange,
                self._notary,
                self._network,
            ),
        )
        self._next_tables: GatewayTables | None = None
        """Made, and not in use yet: others are waited for."""
        self.departed = False
        """Whether this domain is no member any more."""
        patience = Patience(self.rules, self._neighbours, self._live)
        self._delivery = Delivery(federation, self._forwarder.own_bit, patience, self.rules)
        self._adoption.delivery = self._delivery
        self._adoption.look_for_bypasses()
        self._settled = True
        """Whether the shell knows that what waits for the head broker may go."""
        self._head_change: EventId | None = None

    # -- two gateways of one domain -----------------------------------------------------------------------

    def overhear(self, update: InterestUpdate, now: float) -> tuple[list[Instruction], bool]:
        """What another domain wants, told by the gateway that this one stands by for.

        Also tells whether a gap showed, so that it should be asked with a digest.
        """
        self._notary.now = now
        _, gap = self._remote.receive(update, "")
        instructions = self._act_on_interest(now)
        return ([*instructions, ResetTimer()] if self._remote.busy else instructions), gap

    def interest_digest(self) -> Digest:
        """What is known here of all domains' interest."""
        return self._remote.digest()

    def interest_beyond(self, digest: Digest) -> Iterator[InterestUpdate]:
        """What the sender of a digest lacks of other domains' interest."""
        interest = self._remote.interest
        for domain in interest.missing_from(digest):
            snapshot = interest.snapshot(domain) if domain != self.domain else None
            while snapshot is not None and not snapshot.done:
                yield snapshot.next_part()

    def begin(self, epoch: int, reason: str, now: float) -> list[Instruction]:
        """A gateway that stood by carries from now on; `epoch` is later than that of the one before it."""
        if not self.standing_by:
            raise InvariantError("a gateway that carries already cannot begin")
        self.standing_by = False
        self.epoch = epoch
        for part in (self._link_state, self._routes, self._remote.interest, self._forwarder, self._versions):
            part.begin(epoch)
        self._events.note(GatewayTookOver(reason=reason), now)
        return self._serve_timers(now)

    def abandon(self, now: float) -> list[Frame]:
        """Another gateway of this domain carries since later, and this one lets go of everything.

        The frames that wait here, or were not acknowledged, go nowhere any more.
        """
        frames = [frame for neighbour in self._neighbours for frame in neighbour.outgoing.restart(now)]
        return frames + self._forwarder.parked.release(now)

    def displaced(self, reason: str, given_up: int, now: float) -> None:
        """So many messages were in what was abandoned."""
        self._events.note(GatewayDisplaced(reason=reason, given_up=given_up), now)

    # -- greeting -----------------------------------------------------------------------------------------

    def hello(self, *, renews: bool = False) -> Frame:
        """The first frame on every connection; one that `renews` takes the place of another."""
        document = self._versions.document
        hello = make_hello(
            self.federation,
            self.domain,
            self.epoch,
            renews=renews,
            line=document.line,
            version=document.version,
        )
        return control_frame(hello)

    def greet(self, frame: Frame, expected: str | None, proven: str | None = None) -> Hello:
        """Check a peer's first frame, or raise FrameError with the reason to refuse it.

        `proven` is the domain of its certificate; None where nobody proves who he is.
        """
        document = self._versions.document
        if self.departed:
            raise FrameError(
                f"{self.domain!r} has left the federation (version {document.version} is in force here); "
                f"to become a member: mangrove join FILE --domain {self.domain}, and start it again"
            )
        return check_hello(
            frame,
            self.federation,
            self.domain,
            expected,
            proven,
            line=document.line,
            version=document.version,
        )

    def goodbye(self, reason: str, peer: str, displaced_by: int) -> Goodbye:
        """What is said to an earlier gateway of a neighbour; where domains have keys, with a proof."""
        proof = self._notary.proof_of(peer, displaced_by) if self._notary.secured else None
        told = displaced_by if proof is not None or not self._notary.secured else 0
        return Goodbye(reason=reason, displaced_by=told, proof=proof)

    def displacement(self, goodbye: Goodbye) -> int:
        """Which later life of this domain's gateway a neighbour serves instead; 0 if that is not believed.

        Where domains have keys, only what that life itself has signed is.
        """
        if not self._notary.secured or self._notary.proves_life(goodbye.proof, goodbye.displaced_by):
            return goodbye.displaced_by
        return 0

    # -- neighbours come and go ---------------------------------------------------------------------------

    def peer_up(
        self, peer: str, now: float, *, successor: bool = False, protocol: int = PROTOCOL_VERSION
    ) -> list[Instruction]:
        """A greeted neighbour is there: compare what both know, and begin to test the link.

        If there was a connection to it, the new one takes its place. A `successor` took over from the gateway
        that was there: that one has failed and not the link, which is not made to wait for it. `protocol` is
        the highest version that it speaks.
        """
        neighbour = self._neighbours[peer]
        instructions = self._lose(neighbour, now, "replaced") if neighbour.connected else []
        neighbour.connect(now, successor=successor)
        instructions += self._versions.peer_up(peer, protocol)
        instructions += self._network.peer_up(peer, now)
        instructions += self._exchange.peer_up(peer)
        return [*instructions, *self._serve_timers(now)]

    def peer_down(self, peer: str, now: float, reason: str = "") -> list[Instruction]:
        """The connection to a neighbour is gone. Told once, and not after CloseLink, which is known here."""
        neighbour = self._neighbours[peer]
        if not neighbour.connected:
            raise InvariantError(f"the connection to {peer} was lost twice")
        return self._lose(neighbour, now, reason)

    def heard(self, peer: str, now: float) -> None:
        """Bytes came from a neighbour: it is alive."""
        self._neighbours[peer].monitor.heard(now)

    def receive(self, peer: str, frame: Frame, now: float) -> list[Instruction]:
        """A frame from a greeted neighbour. FrameError means: close this link."""
        if self.departed and not self._neighbours.reachable(peer):
            return []  # let go of by what came just before; it is not acknowledged, and goes another way
        if frame.type in (FrameType.DATA, FrameType.JOBS):
            return self._receive_data(self._neighbours[peer], frame, now)
        if frame.type is FrameType.PIECE:
            self._neighbours[peer].joining.add(frame)
            return []
        if frame.type is FrameType.MANAGEMENT:
            return self._receive_management(self._neighbours[peer], frame, now)
        self._notary.now = now
        body = control_body(frame)
        match body:
            case Signed():
                return self._receive_signed(peer, frame.type, body, now)
            case Heartbeat():
                return self._receive_heartbeat(self._neighbours[peer], body, now)
            case LinkStateAd():
                return self._network.receive_ad(peer, body, None, now)
            case LinkStateAck():
                self._link_state.acknowledge(peer, body)
                return []
            case DangerNotice():
                return self._network.receive_danger(peer, body, None, now)
            case DangerAck():
                self._live.dangers.acknowledge(peer, body)
                return []
            case RouteSetup() | RouteAck() | RouteTeardown():
                return self._receive_route(peer, body, None, now)
            case InterestUpdate():
                instructions = [*self._exchange.receive(peer, body), *self._act_on_interest(now)]
                return [*instructions, ResetTimer()] if self._remote.busy else instructions
            case Digest():
                return self._exchange.answer(peer, body)
            case VersionNotice() | VersionText():
                return self._receive_version(peer, body, None, now)
            case Goodbye():
                raise FrameError(f"the peer closed the link: {body.reason}")
            case Hello() | Renewal():
                raise FrameError(f"a {frame.type.name} comes where none belongs")

    def pull(self, peer: str, now: float) -> Frame | None:
        """The frame to send to a neighbour now: the most urgent data, or interest; None if none may go."""
        return self._exchange.pull(peer, now)

    def send_management(self, peer: str, body: bytes, now: float) -> list[Instruction]:
        """The agent of this domain has something to say to that of a neighbour, which may get lost."""
        neighbour = self._neighbours[peer]
        if not neighbour.usable:
            neighbour.outgoing.management.dropped[LINK_DOWN] += 1
            return []
        return [neighbour.serve] if neighbour.outgoing.management.offer(body, now) else []

    # -- keys ---------------------------------------------------------------------------------------------

    @property
    def trust(self) -> Trust | None:
        """Keys and clock, of an engine that has any."""
        return self._notary.trust if self._notary.secured else None

    def renew_keys(self, trust: Trust, now: float) -> list[Instruction]:
        """The own keys, or what is known of others', have changed: say all again under the new ones."""
        if not self._notary.secured:
            raise InvariantError("a gateway without keys cannot have them renewed")
        self._notary.renew(trust)
        if self.standing_by:
            return []
        said_again = [*self._exchange.restate(), *self._network.advertise_anew(now), *self._versions.renew()]
        return [*said_again, *self._settle_versions(now), ResetTimer()]

    def evidence(self) -> Iterator[tuple[str, Signed]]:
        """What other domains have signed of all that is believed of them."""
        yield from self._notary.kept_ads()
        for domain, interest in self._remote.interest.domains():
            if domain != self.domain and interest.statement is not None:
                yield domain, interest.statement
        yield from self._live.dangers.evidence()

    def transit_routes(self) -> Iterator[tuple[str, int, int, int, tuple[str, ...]]]:
        """Origin, epoch, label, version and path of all routes that lead through here."""
        return self._labels.routes()

    def credential_of(self, domain: str) -> bytes:
        """The last credential with which something of another domain was believed; empty if there is none."""
        return next(iter(self._notary.credentials.get(domain, ())), b"")

    # -- versions of the federation document --------------------------------------------------------------

    @property
    def document(self) -> FederationDocument:
        """What is in force here."""
        return self._versions.document

    def propose(self, written: WrittenDocument, now: float) -> list[Instruction]:
        """Somebody wants another version in force; InputError if that cannot be."""
        self._versions.propose(written, now)
        return [*self._settle_versions(now), ResetTimer()]

    def change(self, digest: str) -> Change | None:
        """What became of a version that was proposed here."""
        return self._versions.change(digest)

    def changes(self) -> tuple[Change, ...]:
        """What was proposed here lately, and what became of it."""
        return tuple(self._versions.council.changes.values())

    @property
    def version_digest(self) -> str:
        """Names the text of what is in force here."""
        return self._versions.council.digest

    def versions_in_force(self) -> dict[str, int]:
        """Which version is in force at each domain, as far as is known here."""
        return self._versions.council.versions()

    @property
    def forwards_by(self) -> int:
        """By the tables of which version frames go on."""
        return self._versions.council.forwards

    def reachable_domains(self) -> frozenset[str]:
        """The other domains to which some way leads at present."""
        return self.federation.reachable(self.domain, self._live.failed)

    def kept_versions(self) -> KeptVersions:
        """What must not be forgotten of versions."""
        return self._versions.council.kept()

    def recall(self, kept: KeptVersions, now: float) -> list[Instruction]:
        """What the gateway that carries has written down of versions, told to the one that stands by."""
        before = self.document
        self._versions.council.recall(kept)
        return [] if self.document is before else self._adopt(now)

    # -- endangered regions -------------------------------------------------------------------------------

    def avoid(self, request: AvoidRequest, now: float) -> list[Instruction]:
        """An operator says that a region is endangered, or no longer; InputError if that makes no sense."""
        return [*self._network.avoid(request, now), ResetTimer()]

    def endangered(self, now: float) -> tuple[EndangeredRegion, ...]:
        """The regions that contracts avoid."""
        return self._live.dangers.regions(now)

    # -- time ---------------------------------------------------------------------------------------------

    def timer(self) -> float:
        """When `handle_timer` wants to be called next."""
        if self.standing_by:
            return min(
                (time for time in (self._local.timer(), self._exchange.timer()) if time is not None),
                default=float("inf"),
            )
        times = (
            self._neighbours.timer(),
            self._link_state.timer(),
            self._routes.timer(),
            self._labels.timer(),
            self._live.dangers.timer(),
            self._forwarder.parked.timer(),
            self._delivery.resequencer.timer(),
            self._local.timer(),
            self._exchange.timer(),
            self._asks.timer(),
            self._versions.timer(),
        )
        return min([time for time in times if time is not None])

    def handle_timer(self, now: float) -> list[Instruction]:
        """Heartbeats, silent links, repeated advertisements, expired frames and interest."""
        return self._serve_timers(now)

    # -- inside: links ------------------------------------------------------------------------------------

    def _lose(self, neighbour: Neighbour, now: float, reason: str) -> list[Instruction]:
        """What a neighbour has not acknowledged goes another way."""
        cause = None
        if neighbour.usable:
            cause = self._events.note(LinkFailed(peer=neighbour.name, reason=reason), now)
            neighbour.changed_by = cause
        neighbour.monitor.disconnect(now)
        self._versions.peer_down(neighbour.name)
        instructions = self._network.peer_down(neighbour.name, now, cause)
        instructions += self._exchange.peer_down(neighbour.name)
        for frame in neighbour.outgoing.restart(now):
            instructions += self._forwarder.reroute(frame, now)
        if neighbour.closes_at is not None:
            self._adoption.forget_neighbour(neighbour)
        return instructions

    def _serve_timers(self, now: float) -> list[Instruction]:
        self._remote.refresh()
        instructions = self._exchange.pass_on(now) + self._act_on_interest(now)
        if self.standing_by:
            return instructions + self._settle_interest(now)
        for neighbour in self._neighbours.overdue(now):
            instructions.append(CloseLink(neighbour.name, NO_LINK))
            instructions += self._lose(neighbour, now, NO_LINK)
        for neighbour in tuple(self._neighbours):
            monitor = neighbour.monitor
            if monitor.calm(now):
                continue
            monitor.woken(now)
            if monitor.dead(now):
                silence = f"no sign of life for {1000 * monitor.dead_interval_s:.0f} ms"
                monitor.found_dead(now)
                instructions.append(CloseLink(neighbour.name, silence))
                instructions += self._lose(neighbour, now, silence)
            elif (heartbeat := neighbour.due_heartbeat(now)) is not None:
                instructions.append(send_control(neighbour.name, heartbeat))
                self._note_overruns(neighbour, now)
        instructions += self._network.serve_timers(now)
        instructions += self._network.send_routes(self._routes.catch_up(now))
        self._labels.expire(now)
        self._notary.refusals.tell(now)
        if now >= self._versions.timer():
            instructions += self._settle_versions(now)
        instructions += self._forwarder.expire(now)
        instructions += self._delivery.expire(now)
        return instructions + self._settle_interest(now)

    def _settle_interest(self, now: float) -> list[Instruction]:
        """After a holdover, what the head broker's clients do not want any more is withdrawn."""
        instructions = self._settle(0, now) if self._local.serve_now(now) else []
        withdrawn = self._local.expire(now)
        if withdrawn is not None:
            instructions += self._exchange.pass_on(now, at_once=True)
            # Who was served already may be waiting for what only those wanted who were given up now.
            instructions += self._settle(withdrawn, now) or ([ServeHead()] if withdrawn else [])
        return instructions

    def _note_overruns(self, neighbour: Neighbour, now: float) -> None:
        waits_ms = neighbour.outgoing.waiting.waits.noticeable_ms()
        for topic_class, persists in neighbour.outgoing.take_overruns():
            topic, peer = self.rules.contract_at(topic_class).match, neighbour.name
            wait_ms = waits_ms.get(topic_class, 0.0)
            happening = (
                BudgetOverrun(topic=topic, peer=peer, wait_ms=wait_ms)
                if persists
                else BudgetKept(topic=topic, peer=peer)
            )
            self._events.note(happening, now)

    def _receive_management(self, neighbour: Neighbour, frame: Frame, now: float) -> list[Instruction]:
        if frame.stream:
            frame = neighbour.joining.join(frame)
        if len(frame.body) > MAX_MANAGEMENT_BYTES:
            raise FrameError(f"a management frame of {len(frame.body)} bytes is beyond the limits")
        return [HandToAgent(neighbour.name, frame)] if neighbour.outgoing.management.came(frame, now) else []

    def _receive_heartbeat(self, neighbour: Neighbour, message: Heartbeat, now: float) -> list[Instruction]:
        neighbour.outgoing.acknowledge(message.received)
        instructions: list[Instruction] = [neighbour.serve] if neighbour.outgoing.backlogged else []
        if message.kind is HeartbeatKind.TEST:
            answer = neighbour.heartbeat(HeartbeatKind.TEST_ACK, now)
            instructions.append(send_control(neighbour.name, answer))
        if neighbour.monitor.heartbeat(message, now):
            neighbour.changed_by = self._events.note(LinkRecovered(peer=neighbour.name), now)
            instructions += self._network.follow(now, neighbour.changed_by)
        return instructions

    # -- inside: interest ---------------------------------------------------------------------------------

    def _act_on_interest(self, now: float) -> list[Instruction]:
        instructions = self._remote.work_off() if self._remote.busy else []
        if instructions:
            for frame in self._forwarder.parked.release_jobs(now):
                instructions += self._forwarder.reroute(frame, now)
        if not self.standing_by and self._remote.classes.take_changed():
            instructions += self._network.send_routes(self._routes.want(self._remote.classes.keys(), now))
        return instructions

    # -- inside: routes -----------------------------------------------------------------------------------

    def _receive_route(
        self, peer: str, message: RouteMessage, signed: Signed | None, now: float
    ) -> list[Instruction]:
        if isinstance(message, RouteAck) and message.origin == self.domain and message.path[1:2] == [peer]:
            return self._network.send_routes(self._routes.acknowledge(message, now))
        if self._notary.secured and not self._believed_route(peer, message, signed):
            return []
        instructions = self._network.send_routes(self._labels.receive(message, peer, now))
        return [*instructions, ResetTimer()] if instructions else []

    def _believed_route(self, peer: str, message: RouteMessage, signed: Signed | None) -> bool:
        """Whether a route message may come from its neighbour, and a set-up from its origin.

        What is wrong in itself is left to be counted where it is looked at.
        """
        wrong = self._labels.wrong(message, peer)
        if wrong:
            if wrong != OTHER_LIFE:
                self._notary.refuse(peer, message.origin, ROUTE, Refusal.MISPLACED, f"a message {wrong}")
            return True
        return not isinstance(message, RouteSetup) or self._notary.believes_setup(peer, message, signed)

    # -- inside: versions ---------------------------------------------------------------------------------

    def _receive_version(
        self, peer: str, message: VersionMessage, signed: Signed | None, now: float
    ) -> list[Instruction]:
        instructions = self._versions.receive(peer, message, signed)
        return [*instructions, *self._settle_versions(now), ResetTimer()]

    def _settle_versions(self, now: float) -> list[Instruction]:
        """Draw conclusions about versions, and act by what is in force then."""
        before, forwards = self.document, self._versions.council.forwards
        instructions = self._versions.advance(now, self.reachable_domains())
        if self.document is not before:
            instructions += self._adopt(now)
        if self._next_tables is not None and self._versions.council.forwards > forwards:
            instructions += self._switch_tables(now)
        return instructions

    def _adopt(self, now: float) -> list[Instruction]:
        """Act by the document in force, from this moment on: all parts, in one go.

        What has left keeps its class, and with it its contract.
        """
        before, after = self.federation, in_force(self._file, self.document)
        if self.departed or self.domain in departed(before, after):
            return [*self._depart(after, now), AdoptDocument(self.document), ResetTimer()]
        self.federation = after
        made = self._adoption.adopt(before, after, now) if differs(before, after) else []
        if wanted := self._versions.council.tables_wanted:
            made.append(MakeTables(after, wanted))
        moved = [
            (old.topic_class, new.topic_class) for old, new in moves(before.topics, self.federation.topics)
        ]
        self.rules.adopt(self.federation.topics)
        self._flows.contracts_changed(moved, now)
        self._delivery.contracts_changed()
        instructions: list[Instruction] = made
        self._contracts.own_changed()
        if self._asks.contracts_changed():
            instructions += self._network.asks_changed(now)
        instructions += self._adopt_settings(before, now)
        self._remote.contracts_changed()
        if _scopes(before) != _scopes(self.federation) or before.access != self.federation.access:
            own = self._remote.interest.own
            self._local.reconsider(lambda key: key in own.table, self._remote.stays_home)
            instructions += self._exchange.pass_on(now)
        instructions += self._act_on_interest(now)
        return [*instructions, ForgetRoutes(EVERYTHING), AdoptDocument(self.document), ResetTimer()]

    def _adopt_settings(self, before: Federation, now: float) -> list[Instruction]:
        """Other limits, rules of access and regions may hold."""
        after, instructions = self.federation, list[Instruction]()
        if after.limits.subjects != before.limits.subjects:
            instructions += self._exchange.limit(after.limits.subjects)
        if after.access != before.access:
            self.border = border_of(self.domain, after.domain_order, after.access)
            self._flows.border_changed(self.border)
            self._remote.border_changed(self.border)
        if after.regions != before.regions:
            self._routes.regions_changed(after)
            instructions += self._network.asks_changed(now)
        return instructions

    def _depart(self, after: Federation, now: float) -> list[Instruction]:
        """This domain is no member any more: nothing is wanted of it, and what it has goes out.

        The neighbours hear it out, and close the links. If one of its name is a member, they take this
        gateway for that one's, whose number it has not: then the links are closed here.
        """
        instructions: list[Instruction] = []
        if not self.departed:
            self.departed = True
            instructions += self._adoption.depart(self.domain, self.federation, now)
        if self.domain in after.domains:
            for neighbour in [each for each in self._neighbours if each.connected]:
                instructions.append(CloseLink(neighbour.name, OTHER_NUMBER))
                instructions += self._lose(neighbour, now, OTHER_NUMBER)
        return instructions

    def tables_made(self, version: int, tables: GatewayTables | None, now: float) -> list[Instruction]:
        """The tables that MakeTables asked for; without them they are made here and now."""
        if not self._versions.council.tables_ready(version, now):
            return []  # others are wanted by now
        self._next_tables = tables or GatewayTables(prepared_network(self.federation), self.domain)
        return [*self._settle_versions(now), ResetTimer()]

    def _switch_tables(self, now: float) -> list[Instruction]:
        """Forward by other tables from now on, all in one step."""
        tables, self._next_tables = self._next_tables, None
        return [] if tables is None else self._adoption.take_tables(tables, now)

    # -- inside: signatures -------------------------------------------------------------------------------

    def _receive_signed(
        self, peer: str, frame_type: FrameType, signed: Signed, now: float
    ) -> list[Instruction]:
        if not self._notary.secured:
            raise FrameError("the peer signs what it says, and this gateway has no keys")
        match self._notary.read(peer, frame_type, signed):
            case None:
                return []
            case LinkStateAd() as message:
                instructions = self._network.receive_ad(peer, message, signed, now)
                if self._link_state.epoch_of(message.origin) == message.epoch:
                    instructions += self._ask_again(message.origin)
                return instructions
            case DangerNotice() as message:
                return self._network.receive_danger(peer, message, signed, now)
            case RouteSetup() as message:
                return self._receive_route(peer, message, signed, now)
            case VersionNotice() as message:
                return self._receive_version(peer, message, signed, now)

    def _ask_again(self, origin: str) -> list[Instruction]:
        """The life of a domain's gateway is known: ask for what was told of its interest too early."""
        early = [peer for peer in self._notary.take_early(origin) if self._neighbours.reachable(peer)]
        return [send_control(peer, self._remote.digest()) for peer in early]


def _scopes(federation: Federation) -> list[tuple[str, Scope]]:
    """What decides whether something stays in its domain."""
    return [(contract.match, contract.scope) for contract in federation.topics.contracts]
