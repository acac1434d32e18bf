"""The gateway's protocol engine: no sockets, no clock. Events go in, instructions come out.

This is the whole face that a shell sees, the live one or the simulator: neighbours come, go and send frames;
the head broker's subscribers come and go; messages are gathered; timers are due. What must be done about it
is told by `overlay.instructions`. The parts that decide are packages of their own: `overlay.links` (is a link
alive, what waits for it), `overlay.network` (what the network looks like), `overlay.routes` (explicit
routes), `overlay.interest` (who wants what), `overlay.forwarding` and `overlay.delivery` (where frames go).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mangrove.errors import MangroveError
from mangrove.model.access.evaluation import Decision
from mangrove.model.broker_kinds import BrokerKind
from mangrove.model.events.event_log import Event, EventId, EventLog
from mangrove.model.federation import Federation
from mangrove.model.questions.endangered import AvoidRequest, EndangeredRegion
from mangrove.model.questions.session_quality import AskRequest
from mangrove.model.site_pair import SitePair
from mangrove.model.subjects import is_internal
from mangrove.model.topics import Scope
from mangrove.model.versions.changes import Change
from mangrove.model.versions.document import FederationDocument, WrittenDocument, in_force
from mangrove.model.versions.kept import KeptVersions
from mangrove.model.versions.moves import moves
from mangrove.model.versions.rules_in_force import RulesInForce
from mangrove.overlay.delivery.delivery import Delivery
from mangrove.overlay.delivery.patience import Patience
from mangrove.overlay.delivery.seen_frames import Verdict
from mangrove.overlay.events.happenings import (
    BodiesRefused,
    BudgetKept,
    BudgetOverrun,
    GatewayDisplaced,
    GatewayTookOver,
    HeadLost,
    HeadSettled,
    LinkFailed,
    LinkRecovered,
)
from mangrove.overlay.forwarding.border import border_of
from mangrove.overlay.forwarding.flows import FlowTable, OutboundFlow, Route
from mangrove.overlay.forwarding.forwarder import Forwarder
from mangrove.overlay.forwarding.nearest import NearestDomains
from mangrove.overlay.forwarding.retargeting import Retargeted
from mangrove.overlay.instructions import (
    AdoptDocument,
    CloseLink,
    DropMessages,
    ForgetRoutes,
    HandToAgent,
    Instruction,
    ResetTimer,
    RetargetMessages,
    ServeHead,
    send_control,
)
from mangrove.overlay.interest.interest_exchange import InterestExchange
from mangrove.overlay.interest.local_interest import HOLDOVER_S, KEPT_HOLDOVER_S, LocalInterest
from mangrove.overlay.interest.remote_interest import RemoteInterest
from mangrove.overlay.interest.wants import want
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
    SiteReport,
    VersionMessage,
    control_body,
    control_frame,
)
from mangrove.overlay.protocol.frames import PROTOCOL_VERSION, Frame, FrameError, FrameType, Name
from mangrove.overlay.protocol.greeting import check_hello, make_hello
from mangrove.overlay.protocol.signed import Signed
from mangrove.overlay.protocol.signed_bodies import signed_message
from mangrove.overlay.routes.effective_contracts import EffectiveContracts
from mangrove.overlay.routes.route_manager import RouteManager
from mangrove.overlay.routes.session_asks import SessionAsks
from mangrove.overlay.routes.transit_labels import OTHER_LIFE, TransitLabels
from mangrove.overlay.sealing.sealer import Sealer
from mangrove.overlay.status import OverlayStatus, StatusSources, overlay_status
from mangrove.overlay.trust.notary import DATA, ROUTE, Notary
from mangrove.overlay.trust.refusals import Refusal
from mangrove.overlay.trust.trust import Trust
from mangrove.overlay.versions.following import VersionsFollower
from mangrove.overlay.versions.messages import VersionNotice, VersionText
from mangrove.routing.failover.gateway_tables import GatewayTables

MISPLACED = "in the name of a domain that cannot have sent it this way"
STAYS_HOME = "it stays in its domain"
FALSE_ORIGIN = "in the name of a domain that did not send it"
NOT_KNOWN_YET = "its origin has not made itself known here yet"
SENT_BEFORE = "turned back to an origin that does not know it any more"


class InvariantError(MangroveError):
    """The engine contradicts itself: a fault in the program, never in its input."""


class OverlayEngine:
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
        patience = Patience(self.rules, self._neighbours, self._live)
        self._delivery = Delivery(federation, self._forwarder.own_bit, patience, self.rules)
        for neighbour in self._neighbours:
            neighbour.monitor.only_way = not self._live.has_bypass(neighbour.name)
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

    # -- the head broker: messages and interest -----------------------------------------------------------

    def route(self, subject: str) -> tuple[Route, ...]:
        """The flows that take messages on a literal subject, with the queue groups to name.

        Valid until a ForgetRoutes names the subject, or a pattern that covers it, or until
        `change_local_interest` says so.
        """
        return self._flows.routes_of(subject, self._local.groups_for)

    def refused(self, subject: str) -> tuple[tuple[str, Decision], ...]:
        """The domains that want a literal subject and may not have it, with what forbids it."""
        return self._flows.refused(subject)

    def refusals(self, subject: str) -> dict[str, str]:
        """The domains that may not have a literal subject, whether they want it or not, and why."""
        others = [name for name in self.federation.domain_order if name != self.domain]
        if is_internal(subject) or self.rules.contract_of(subject).scope is Scope.DOMAIN:
            return dict.fromkeys(others, STAYS_HOME)
        if self.border is None:
            return {}
        decisions = {name: self.border.leaving_for(name, subject) for name in others}
        return {name: decision.reason for name, decision in decisions.items() if not decision}

    def retarget(self, subject: str, groups: tuple[str, ...], away: int, hop_limit: int) -> Retargeted:
        """Who serves queue groups of a message that the domains `away` (bits) do not serve after all."""
        if hop_limit <= 1:
            return Retargeted((), (), groups)
        here = set(self._local.groups_for(subject))
        home = tuple(group for group in groups if group in here)
        others = [group for group in groups if group not in here]
        routes, lost = self._flows.retarget(subject, others, away & ~self.own_bit, hop_limit)
        return Retargeted(home, routes, lost)

    def wait(self, frame: Frame, now: float) -> list[Instruction]:
        """A frame of RetargetMessages that nobody else can serve waits for its destination, as others do."""
        return self._forwarder.park(frame, now)

    @property
    def own_bit(self) -> int:
        """This domain among the destinations of a frame."""
        return self._forwarder.own_bit

    def turn_back(self, frame: Frame, now: float) -> list[Instruction]:
        """A frame of RetargetMessages that is sealed goes back to its origin, or waits if it cannot."""
        return self._forwarder.turn_back(frame, now)

    def seal_with(self, sealer: Sealer) -> None:
        """Have the bodies of confidential topics sealed before they leave. Told once, before all else."""
        self._forwarder.sealer = sealer

    def body_refused(self, origin: int, topic_class: int, reason: str, count: int, now: float) -> None:
        """Bodies that came from a domain were not opened; told now and then, with how many there were."""
        name = self.federation.domain_order[origin]
        topic = self.rules.contract_at(topic_class).match
        self._events.note(BodiesRefused(origin=name, topic=topic, reason=reason, count=count), now)

    def route_reply(self, domain: str) -> OutboundFlow | None:
        """The flow for replies to a requester in `domain`; None if there is no such domain elsewhere."""
        return self._flows.flow_to(domain)

    def flow(self, flow_id: int) -> OutboundFlow:
        """A flow that `route` or `route_reply` gave before."""
        return self._flows.flow(flow_id)

    def gathered(self) -> list[tuple[int, int]]:
        """What waits for the next `flush`: flow ids and bytes."""
        return self._flows.gathered()

    def wanted_elsewhere(self) -> list[str]:
        """All subjects to subscribe to at the head broker, because other domains want them."""
        return self._remote.subscribed

    def is_wanted_elsewhere(self, subject: str) -> bool:
        """Whether a subject or pattern is among them."""
        return subject in self._flows.subjects()

    def is_unwanted(self, subject: str) -> bool:
        """Whether nobody wants a literal subject: in this domain, nor in any other, reachable or not."""
        return not (self._local.wants(subject) or self._flows.wants(subject))

    def change_local_interest(self, subject: str, group: str, wanted: bool) -> bool:
        """A subscription in the own domain came or went; the empty group stands for plain subscribers.

        Passed on by the next `flush`. Returns whether the queue groups of some subject changed.
        """
        changed = self._local.change(subject, group, wanted)
        if changed:
            self._flows.choices_changed()
        return changed

    def queue_groups(self, subject: str) -> tuple[str, ...]:
        """The queue groups in this domain that want a literal subject."""
        return self._local.groups_for(subject)

    @property
    def head_settled(self) -> bool:
        """Whether messages may be written to the head broker; ServeHead tells when they may again."""
        return self._local.settled

    def head_lost(self, now: float) -> None:
        """The connection to the head broker is gone; its interest stays in force for a holdover."""
        self._settled = False
        self._local.head_lost(now)
        self._head_change = self._events.note(HeadLost(subjects=len(self._local)), now)

    def head_moved(self, now: float) -> None:
        """Another broker has taken the place of the one that was lost: whoever is back is served soon."""
        self._local.head_moved(now)

    def awaited(self, subject: str) -> bool:
        """Whether messages on a literal subject must wait, because all who want it are still away.

        Valid until `change_local_interest` or ServeHead.
        """
        return self._local.awaited(subject)

    def applied_interest(self) -> tuple[tuple[str, int, int], ...]:
        """Up to which version of each other domain's interest this gateway has acted."""
        return tuple((domain, *stamp) for domain, stamp in self._remote.applied.items())

    def subscriptions_confirmed(
        self, applied: Iterable[tuple[str, int, int]], now: float
    ) -> list[Instruction]:
        """The head broker has taken the subscriptions that ConfirmSubscriptions spoke of: tell the others."""
        self._network.confirm(applied)
        return self._network.follow(now, None)

    def site_measured(self, ingress_ms: float, egress_ms: float, now: float) -> list[Instruction]:
        """How long messages take from a publisher of this domain to here, and from here to a subscriber."""
        self._network.site = SiteReport(ingress_ms=round(ingress_ms, 1), egress_ms=round(egress_ms, 1))
        self._forwarder.ingress_us = int(1000 * ingress_ms)
        self._delivery.egress_ms = egress_ms
        return self._network.follow(now, None)

    def interest_stamp(self, subject: str, group: str) -> tuple[int, int] | None:
        """A version of the own interest that holds a want and was told; None if it was not told yet."""
        own = self._remote.interest.own
        told = want(subject, group) in own.table or self._remote.stays_home(subject)
        return own.stamp if told else None

    def unaware(self, stamp: tuple[int, int]) -> tuple[str, ...]:
        """Domains that can be reached and have not yet acted upon this version of the own interest."""
        reachable = self.federation.reachable(self.domain, self._live.failed)
        return tuple(sorted(name for name in reachable if self._link_state.applied_by(name) < stamp))

    def ask(self, request: AskRequest, now: float) -> list[Instruction]:
        """A session of the own domain asks for more than a contract, asks on, or ends its ask.

        AskRefusedError tells why not, and what is possible.
        """
        return [*self._network.asks_changed(now), ResetTimer()] if self._asks.ask(request, now) else []

    def flush(self, now: float) -> list[Instruction]:
        """Pass on what changed in the own domain, and send what the flows gathered on its way."""
        instructions = self._exchange.pass_on(now)
        instructions += self._settle(0, now)
        for flow in self._flows.touched():
            predecessors = self._flows.predecessors(flow, now)
            instructions += self._forwarder.originate(flow, predecessors, now)
        if self._flows.take_forgotten():
            instructions.append(ForgetRoutes(EVERYTHING))
        return instructions

    def remember(self, names: Iterable[Name]) -> None:
        """Frames that an earlier life of this gateway has delivered."""
        self._delivery.remember(names)

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
        return [*self._exchange.restate(), *self._network.advertise_anew(now), *self._versions.renew()]

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

    # -- what is known ------------------------------------------------------------------------------------

    @property
    def failed_links(self) -> frozenset[SitePair]:
        """The links that are down, as far as is known here."""
        return self._live.failed

    def link_rate(self, peer: str) -> float | None:
        """How fast the link to a neighbour takes data, in bytes a second; None if it was never too slow."""
        return self._neighbours[peer].outgoing.rate_bytes_s

    def refused_from(self, peer: str) -> int:
        """How much a neighbour has brought that was refused."""
        return self._notary.refusals.by_peer[peer]

    def usable(self, peer: str) -> bool:
        """Whether data may be sent to a neighbour."""
        return self._neighbours.usable(peer)

    def active_paths(self, topic_class: int, destination: str) -> list[tuple[str, ...]]:
        """The paths of the explicit routes that carry a contract's messages to a destination."""
        routes = self._routes.sets.get((topic_class, destination))
        return [] if routes is None else [route.path for route in routes.active()]

    def status(self, now: float) -> OverlayStatus:
        """The engine's account of itself."""
        sources = StatusSources(
            self.federation,
            self.rules,
            self._neighbours,
            self._link_state,
            self._live,
            self._routes,
            self._remote,
            self._forwarder,
            self._delivery,
            self._events,
            self._network.ignored
            + self._labels.ignored
            + self._routes.ignored
            + self._remote.ignored
            + self._versions.ignored
            + self._notary.refusals.counts,
            self._asks,
        )
        return overlay_status(sources, now)

    def recent_events(self) -> Iterator[Event]:
        """The last of what happened, whether it was taken or not."""
        return iter(self._events.recent)

    def take_events(self) -> list[Event]:
        """What happened since the last call."""
        return self._events.take()

    def conclude(self, now: float) -> None:
        """The gateway stops: what was refused and only counted is told."""
        self._notary.refusals.tell(now, last=True)

    def validate(self) -> None:
        """Check every invariant; InvariantError names those that do not hold."""
        found = [problem for neighbour in self._neighbours for problem in neighbour.problems()]
        for part in (
            self._local,
            self._remote,
            self._routes,
            self._asks,
            self._labels,
            self._live.dangers,
            self._nearest,
            self._forwarder.parked,
            self._delivery.resequencer,
            self._versions,
        ):
            found += part.problems()
        if self.rules.rules != self.federation.topics:
            found.append("the contracts that are acted upon are not those of the version in force")
        if owing := set(self._link_state.owing()) - set(self._neighbours.connected()):
            found.append(f"acknowledgements are awaited from {sorted(owing)}, who are not connected")
        followed = self._network.up_to_date
        if followed and self._live.failed != self._link_state.failed_links():
            found.append("the map differs from the link state that it follows")
        found += self._notary.problems()
        if found:
            raise InvariantError(f"{self.domain}: {'; '.join(found)}")

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
        return instructions

    def _serve_timers(self, now: float) -> list[Instruction]:
        self._remote.refresh()
        instructions = self._exchange.pass_on(now) + self._act_on_interest(now)
        if self.standing_by:
            return instructions + self._settle_interest(now)
        for neighbour in self._neighbours:
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

    def _receive_data(self, neighbour: Neighbour, frame: Frame, now: float) -> list[Instruction]:
        self._forwarder.check(frame)
        if frame.stream:
            frame = neighbour.joining.join(frame)
        instructions: list[Instruction] = []
        acknowledgement = neighbour.took_over(frame, now)
        if acknowledgement is not None:
            instructions.append(send_control(neighbour.name, acknowledgement))
        if self._forwarder.came_back(frame) and frame.epoch <= self.epoch:
            return instructions + self._came_back(
                neighbour.name, frame.older(neighbour.monitor.one_way_s), now
            )
        if self._notary.secured and self._misplaced(neighbour.name, frame, now):
            return [*instructions, DropMessages(frame, MISPLACED)]
        own = frame.destinations & self._forwarder.own_bit
        doubt = self._doubt(neighbour.name, frame, now) if own and self._notary.secured else ""
        if doubt:
            instructions.append(DropMessages(frame, doubt))
            if frame.destinations == own:
                return instructions
        frame = frame.older(neighbour.monitor.one_way_s)
        if own and not doubt:
            instructions += self._delivery.arrived(frame, now)
        return [*instructions, *self._forwarder.onward(frame, now)]

    def _doubt(self, peer: str, frame: Frame, now: float) -> str:
        """Why a frame for this domain is not taken for its origin's; empty if it is."""
        self._notary.now = now
        if self._notary.sent_by_origin(peer, frame):
            return ""
        known = self.federation.domain_order[frame.origin] in self._notary.credentials
        return FALSE_ORIGIN if known else NOT_KNOWN_YET

    def _came_back(self, peer: str, frame: Frame, now: float) -> list[Instruction]:
        """A sealed frame whose destination was lost, from a gateway that could not look into it."""
        destinations = self._flows.turned_back_from(frame) if frame.epoch == self.epoch else 0
        self._notary.now = now
        if destinations and self._notary.secured and not self._notary.sent_here(peer, frame, destinations):
            return [DropMessages(frame, FALSE_ORIGIN)]
        verdict = self._delivery.came_back(frame) if destinations else Verdict.TOO_OLD
        match verdict:
            case Verdict.NEW:
                return [RetargetMessages(frame.towards(destinations))]
            case Verdict.TOO_OLD:
                return [DropMessages(frame, SENT_BEFORE)]
            case Verdict.DUPLICATE:
                return []

    def _misplaced(self, peer: str, frame: Frame, now: float) -> bool:
        """Whether a frame cannot have come from its origin by way of this neighbour.

        The own frames may come back, where a repair leads through here, but not to be delivered, nor changed.
        """
        origin = self.federation.domain_order[frame.origin]
        if origin == self.domain:
            wrong = bool(frame.destinations & self.own_bit) or frame.epoch > self.epoch
            wrong = wrong or not self._notary.is_own(frame, frame.destinations)
            why = Refusal.OWN_NAME
        else:
            wrong = bool(frame.label) and not self._labels.borne_by(origin, frame.epoch, frame.label, peer)
            why = Refusal.MISPLACED
        if wrong:
            self._notary.now = now
            self._notary.refuse(peer, origin, DATA, why)
        return wrong

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

    def _settle(self, withdrawn: int, now: float) -> list[Instruction]:
        """Tell the shell, once, that the head broker's subscribers are back or were given up."""
        if self._settled or not self._local.settled:
            return []
        self._settled = True
        self._events.note(HeadSettled(withdrawn=withdrawn), now, self._head_change)
        return [ServeHead()]

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
        before = self.document
        instructions = self._versions.advance(now, self.reachable_domains())
        return instructions if self.document is before else [*instructions, *self._adopt(now)]

    def _adopt(self, now: float) -> list[Instruction]:
        """Act by the document in force, from this moment on: all parts, in one go.

        What has left keeps its class, and with it its contract.
        """
        before = self.federation
        self.federation = in_force(self._file, self.document)
        moved = [
            (old.topic_class, new.topic_class) for old, new in moves(before.topics, self.federation.topics)
        ]
        self.rules.adopt(self.federation.topics)
        self._flows.contracts_changed(moved, now)
        self._delivery.contracts_changed()
        instructions: list[Instruction] = []
        self._contracts.own_changed()
        if self._asks.contracts_changed():
            instructions += self._network.asks_changed(now)
        self._remote.contracts_changed()
        if _scopes(before) != _scopes(self.federation):
            own = self._remote.interest.own
            self._local.reconsider(lambda key: key in own.table, self._remote.stays_home)
            instructions += self._exchange.pass_on(now)
        instructions += self._act_on_interest(now)
        return [*instructions, ForgetRoutes(EVERYTHING), AdoptDocument(self.document), ResetTimer()]

    # -- inside: signatures -------------------------------------------------------------------------------

    def _receive_signed(
        self, peer: str, frame_type: FrameType, signed: Signed, now: float
    ) -> list[Instruction]:
        if not self._notary.secured:
            raise FrameError("the peer signs what it says, and this gateway has no keys")
        message = signed_message(frame_type, signed)
        match message:
            case LinkStateAd():
                instructions = self._network.receive_ad(peer, message, signed, now)
                if self._link_state.epoch_of(message.origin) == message.epoch:
                    instructions += self._ask_again(message.origin)
                return instructions
            case DangerNotice():
                return self._network.receive_danger(peer, message, signed, now)
            case RouteSetup():
                return self._receive_route(peer, message, signed, now)
            case VersionNotice():
                return self._receive_version(peer, message, signed, now)

    def _ask_again(self, origin: str) -> list[Instruction]:
        """The life of a domain's gateway is known: ask for what was told of its interest too early."""
        early = [peer for peer in self._notary.take_early(origin) if self._neighbours.reachable(peer)]
        return [send_control(peer, self._remote.digest()) for peer in early]


def _scopes(federation: Federation) -> list[tuple[str, Scope]]:
    """What decides whether something stays in its domain."""
    return [(contract.match, contract.scope) for contract in federation.topics.contracts]
