"""The gateway process: puts the overlay engine, the head broker and the links together.

Run by the site through `mangrove.host.daemon_start`.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from time import monotonic, time_ns
from typing import TYPE_CHECKING

import msgspec

from mangrove.broker.attachment import Places
from mangrove.broker.kinds import Probes, RetainedStores, kind_of
from mangrove.broker.retained import RetainedStore, RetainedStoreOwner
from mangrove.errors import MangroveError
from mangrove.gateway.access.border_book import BorderBook
from mangrove.gateway.audience.desk import AudienceDesk
from mangrove.gateway.audience.leave_mark import LeaveMark
from mangrove.gateway.audience.leaves import Leaves
from mangrove.gateway.delivery_journal import DeliveryJournal, names_in
from mangrove.gateway.head.connection import HeadConnection
from mangrove.gateway.ledger import Ledger
from mangrove.gateway.links.lines import Lines
from mangrove.gateway.links.links import Links
from mangrove.gateway.management.agent_mail import AgentMail
from mangrove.gateway.management.answers import Answers
from mangrove.gateway.management.broker_connection import ManagementConnection
from mangrove.gateway.management.terms_teller import TermsTeller
from mangrove.gateway.management.voucher import Voucher
from mangrove.gateway.mediation.mediation import Mediation
from mangrove.gateway.mirroring.mirror_plane import MirrorPlane
from mangrove.gateway.naming.renamed_store import RenamedStore
from mangrove.gateway.naming.site_names import SiteNames
from mangrove.gateway.pair.announcement import Announcement
from mangrove.gateway.pair.pair import Pair
from mangrove.gateway.pair.partnership import Partnership
from mangrove.gateway.probing.site_probe import HEAD, SiteProbe
from mangrove.gateway.report import gateway_report
from mangrove.gateway.retained import RetainedMirror
from mangrove.gateway.sealing.sealed_traffic import SealedTraffic
from mangrove.gateway.stimuli_file import SegmentHead, StimuliFile
from mangrove.gateway.trust.keys_in_force import KeysInForce
from mangrove.gateway.versions import Versions, kept_versions
from mangrove.host.audit.audit_log import AuditLog
from mangrove.host.daemon import run_daemon
from mangrove.host.event_file import EventFile
from mangrove.host.keys.login import LoginSource
from mangrove.host.keys.logins.external_login import external_login
from mangrove.host.keys.logins.user_login import login_of
from mangrove.host.status_publisher import StatusPublisher
from mangrove.host.tracing.tracer import Tracer
from mangrove.host.web.health import Readiness, telling_health
from mangrove.model.audit.entry import AuditKind, Fact
from mangrove.model.broker_kinds import BrokerKind
from mangrove.model.federation import Federation
from mangrove.model.gateway_settings import GatewaySettings
from mangrove.model.metrics.families import Families
from mangrove.model.metrics.gateway import put_gateway
from mangrove.model.metrics.topics import TopicMetrics
from mangrove.model.names.local_view import local_rules
from mangrove.model.questions.terms_question import TermsTold
from mangrove.model.security.users import GATEWAY_USER, PROBE_USER
from mangrove.model.shared_names import (
    GATEWAY_READY,
)
from mangrove.model.status import GatewayStatus, LimitFigures, SealingFigures
from mangrove.model.stream.messages import GATEWAY_PART, TOPICS_PART
from mangrove.model.subjects import egress_marker_subject
from mangrove.model.topic_counts import TopicTotals
from mangrove.model.versions.document import FederationDocument
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.events.happenings import StatementRefused
from mangrove.overlay.instructions import (
    AdoptDocument,
    ChangeSubscriptions,
    CloseLink,
    ConfirmSubscriptions,
    DeliverMessages,
    DropMessages,
    ForgetRoutes,
    HandToAgent,
    Instruction,
    KeepVersions,
    MakeTables,
    ResetTimer,
    RetargetMessages,
    SendFrame,
    ServeHead,
    ServeLink,
)
from mangrove.overlay.pair.messages import Role
from mangrove.overlay.pair.roles import Finding
from mangrove.overlay.protocol.frames import Frame
from mangrove.overlay.stimuli.recorded_engine import RecordedEngine
from mangrove.overlay.trust.trust import KeyTrust
from mangrove.routing.failover.gateway_tables import GatewayTables, prepared_network
from mangrove.routing.paths.shortest import load_search

if TYPE_CHECKING:
    from mangrove.gateway.sealing.domain_sealing import DomainSealing
    from mangrove.gateway.tracing.hop_spans import HopSpans

log = logging.getLogger(__name__)

MIN_TICK_S = 0.002
MAX_TICK_S = 1.0
"""A gateway that stands by has hardly anything to do."""
EDGES_SEEN_S = 2.5
"""An edge broker that has not heard the markers of so long may be cut off."""


class DisplacedError(MangroveError):
    """The other gateway of the domain carries."""

    def __init__(self) -> None:
        super().__init__("another gateway of this domain carries")


class Gateway:
    """One gateway: events from sockets go to the engine, its instructions go back to the sockets."""

    def __init__(
        self,
        settings: GatewaySettings,
        epoch: int,
        pair: Pair | None = None,
        tables: GatewayTables | None = None,
        *,
        keys: KeysInForce | None = None,
        audit: AuditLog | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        """With a `pair`, it stands by until that says otherwise. Without `keys` nothing is secured.

        The audit log is that of the process, as is the `tracer`, without which nothing is traced.
        """
        federation = settings.federation
        self._settings = settings
        self._audit = audit or AuditLog()
        second = settings.pair is not None and settings.pair.number == 2
        self._name = f"gateway-{settings.domain}{'-2' if second else ''}"
        """What this gateway calls itself at brokers."""
        self._pair = pair
        self._keys = keys
        self._tables = tables
        self._partnership: Partnership | None = None
        self._started = monotonic()
        self._ledger = Ledger(settings.domain, epoch)
        self._border_book = BorderBook(self._audit)
        mappings = federation.domains[settings.domain].names
        self._names = SiteNames(mappings) if mappings else None
        self._topic_metrics = TopicMetrics()
        self._publisher = StatusPublisher(
            settings.domain, {GATEWAY_PART: self._account, TOPICS_PART: self._topics}
        )
        self._event_file = EventFile(Path(settings.events_path) if settings.events_path else None, tracer)
        self._versions = Versions(settings.versions_path, self._audit)
        self._stimuli: StimuliFile | None = None
        self._sealing = self._make_sealing()
        self._engine = self._make_engine(epoch)
        self._hops = None if tracer is None else self._make_hops(tracer)
        self._sealed = self._make_sealed()
        self._journal = DeliveryJournal(Path(settings.journal_path) if settings.journal_path else None)
        self._engine.remember(self._journal.names())
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        """When the timer is served."""
        parts = kind_of(settings.head_kind)
        known = bool(settings.head_client_url)
        self._retained = self._make_retained(parts.retained) if known and parts.retained else None
        self._probe = self._make_probe(parts.probe) if known and parts.probe else None
        journal = settings.journal_path
        mark = LeaveMark(Path(f"{journal}.leaves") if journal else None)
        self._desk = AudienceDesk(
            settings.domain,
            Leaves(self._engine.rules, self._engine.is_unwanted),
            mark,
            self._hang_together,
            users=bool(settings.keys),
            names=None if self._names is None else self._names.names,
        )
        self._places: Places = []
        self._mirrors = self._make_mirrors()
        in_force = self._engine.federation
        self._mediation = (
            Mediation(in_force, self._engine.rules, self._ledger) if in_force.transforms else None
        )
        self._teller = TermsTeller(settings.domain, self._terms)
        self._tasks: asyncio.TaskGroup | None = None
        self._head = HeadConnection(
            self._engine,
            partial(
                kind_of(settings.head_kind).attach,
                self._name,
                settings.head_urls,
                together="" if settings.pair is None else f"gateways-{settings.domain}",
                login=self._attach_login(),
                places=self._places,
            ),
            self._ledger,
            max_message_bytes=federation.max_message_bytes,
            queue_bytes=federation.queue_bytes,
            buffer_done=self._flush,
            confirmed=lambda applied: self._carry_out(
                self._engine.subscriptions_confirmed(applied, monotonic())
            ),
            letters=self._retained,
            markers=self._probe,
            silence=self._desk,
            mirrors=self._mirrors,
            border_book=self._border_book,
            names=self._names,
            mediation=self._mediation,
            directions=self._directions(),
        )
        links = self._engine.federation.links_of(settings.domain)
        peers = tuple(link.other(settings.domain) for link in links)
        self._mail = AgentMail(
            settings.domain,
            peers,
            send=lambda peer, body: self._carry_out(self._engine.send_management(peer, body, monotonic())),
            ignored=self._ledger.ignore,
        )
        self._making: set[asyncio.Task[None]] = set()
        """Who makes tables."""
        self._links = Links(
            self._engine,
            peers,
            carry_out=self._carry_out,
            attached=self._tick,
            pair=pair,
            keys=keys,
            keys_changed=self._say_anew,
            audit=self._audit,
            hops=self._hops,
        )
        self._lines = Lines(settings, self._links)
        if pair is not None:
            self._partnership = Partnership(
                pair,
                self._engine,
                self._head,
                self._ledger,
                self._sealed,
                self._journal,
                mark,
                self._carry_out,
                self._versions,
            )

    def _make_engine(self, epoch: int) -> OverlayEngine:
        """The engine; one whose stimuli are recorded, if that is asked for."""
        federation, domain = self._settings.federation, self._settings.domain
        events_before = self._event_file.last_number()
        pair = self._settings.pair
        process = "" if pair is None or pair.number == 1 else pair.process
        standing_by = self._pair is not None
        trust = self._trust()
        kept = kept_versions(self._settings.versions_path, federation, domain)
        if kept.committed is not None and kept.committed.read().network is not None:
            self._tables = None  # those of the file are of other domains and links
        if not self._settings.stimuli_path:
            return OverlayEngine(
                federation,
                domain,
                epoch,
                tables=self._tables,
                events_before=events_before,
                process=process,
                standing_by=standing_by,
                trust=trust,
                kept=kept,
            )
        head = SegmentHead(
            federation=federation,
            domain=domain,
            epoch=epoch,
            events_before=events_before,
            process=process,
            standing_by=standing_by,
            secured=trust is not None,
            kept=kept,
        )
        self._stimuli = StimuliFile(Path(self._settings.stimuli_path), head)
        engine = RecordedEngine(
            federation,
            domain,
            epoch,
            self._stimuli.record,
            tables=self._tables,
            events_before=events_before,
            process=process,
            standing_by=standing_by,
            trust=trust,
            kept=kept,
        )
        self._stimuli.follow(engine)
        return engine

    def _make_hops(self, tracer: Tracer) -> HopSpans:
        """Who traces sampled messages."""
        from mangrove.gateway.tracing.hop_spans import HopSpans

        tracer.when_dropped = self._ledger.ignore
        return HopSpans(tracer, self._settings.domain, self._engine.rules)

    def _trust(self) -> KeyTrust | None:
        """What the engine signs with and judges by; None without keys."""
        if self._keys is None:
            return None
        ring = self._keys.ring
        verifier = self._sealing or ring
        return KeyTrust(self._settings.federation.name, ring, verifier, time_ns)

    def _say_anew(self) -> None:
        """Other keys are in force: what this gateway said of itself is said again under them."""
        if self._keys is not None and self._sealing is not None:
            self._sealing.take(self._keys.ring)
        trust = self._trust()
        if trust is not None:
            self._carry_out(self._engine.renew_keys(trust, monotonic()))

    def _make_sealing(self) -> DomainSealing | None:
        """Who seals and opens what is confidential; None without keys.

        It is there before any topic is confidential, since that may change from one frame to the next.
        """
        if self._keys is None:
            return None
        from mangrove.gateway.sealing.domain_sealing import DomainSealing

        return DomainSealing(self._settings.federation, self._settings.domain, self._keys.ring)

    def _make_sealed(self) -> SealedTraffic:
        """What is done with bodies that may be sealed, with keys or without."""
        if self._sealing is None:
            return SealedTraffic(self._engine, self._ledger)
        self._engine.seal_with(self._sealing.sealer)
        return SealedTraffic(self._engine, self._ledger, self._sealing.opener)

    def _make_mirrors(self) -> MirrorPlane | None:
        """The second way of mirrored topics; None if there are none.

        Without edges to lead it by, it still tells copies of messages apart that come from elsewhere.
        """
        settings = self._settings
        federation = settings.federation
        if not any(each.mirror for each in federation.topics.contracts):
            return None
        attach, name = kind_of(settings.head_kind).attach, f"{self._name}-mirror"
        return MirrorPlane(
            self._engine,
            {
                edge: partial(
                    attach,
                    name,
                    (url,),
                    login=login_of(settings.keys, GATEWAY_USER),
                    places=self._places,
                )
                for edge, url in settings.mirror_urls.items()
            },
            self._ledger,
            max_message_bytes=federation.max_message_bytes,
            buffer_done=self._flush,
        )

    def _flush(self) -> None:
        self._carry_out(self._engine.flush(monotonic()))

    def _make_retained(self, stores: RetainedStores) -> RetainedMirror:
        """Who keeps the retained messages of this domain in step with those of the others."""
        settings = self._settings
        return RetainedMirror(
            settings.domain,
            self._engine.rules,
            self._ledger,
            max_message_bytes=settings.federation.max_message_bytes,
            store=partial(self._retained_store, stores),
            send=self._send_letter,
            reachable=self._reachable,
            border=self._engine.border,
            border_book=self._border_book,
        )

    def _retained_store(self, stores: RetainedStores, owner: RetainedStoreOwner) -> RetainedStore:
        def store(owner: RetainedStoreOwner) -> RetainedStore:
            return stores(
                self._settings.head_client_url,
                self._name,
                owner,
                ours=self._settings.head_is_ours,
                login=self._client_login(HEAD),
            )

        return store(owner) if self._names is None else RenamedStore(self._names.names, store, owner)

    def _make_probe(self, probes: Probes) -> SiteProbe:
        """Who measures how long messages are inside this domain."""
        settings = self._settings
        urls = {HEAD: settings.head_client_url, **settings.edge_client_urls}
        subject = egress_marker_subject(settings.domain)
        return SiteProbe(
            settings.domain,
            lambda owner: {
                broker: probes(broker, url, subject, owner, self._client_login(broker))
                for broker, url in urls.items()
            },
            lambda ingress_ms, egress_ms: self._carry_out(
                self._engine.site_measured(ingress_ms, egress_ms, monotonic())
            ),
        )

    def _attach_login(self) -> LoginSource | None:
        """Who this gateway is where it attaches; somebody else's head knows no user of ours."""
        if not self._settings.head_is_ours:
            return self._external_login()
        return login_of(self._settings.keys, GATEWAY_USER)

    def _external_login(self) -> LoginSource | None:
        return external_login(self._settings.federation.domains[self._settings.domain].external)

    def _client_login(self, broker: str) -> LoginSource | None:
        """Who this gateway is at a broker as its client; somebody else's head knows no user of ours."""
        ours = broker != HEAD or self._settings.head_is_ours
        return login_of(self._settings.keys, PROBE_USER) if ours else self._external_login()

    def _hang_together(self) -> tuple[float, str]:
        """When the domain's brokers were last seen to hang together, and why its interest is not known."""
        now = monotonic()
        problem = self._head.subscribers_unknown
        if self._settings.head_kind is not BrokerKind.NATS:
            # Bindings are told of behind the moment in which they are in force.
            problem = problem or "this kind of broker tells of subscribers when it serves them already"
        if problem or not self._settings.edge_client_urls:
            return now, problem
        seen = float("-inf") if self._probe is None else self._probe.together_at
        return seen, "" if now - seen < EDGES_SEEN_S else "not every edge broker is known to be attached"

    def _reachable(self) -> frozenset[str]:
        federation, domain = self._engine.federation, self._settings.domain
        unusable = {
            link.pair for link in federation.links_of(domain) if not self._engine.usable(link.other(domain))
        }
        return federation.reachable(domain, unusable | self._engine.failed_links)

    def _send_letter(self, domain: str, letter: bytes) -> None:
        flow = self._engine.route_reply(domain)
        if flow is not None:
            flow.take(letter)
            self._flush()

    def _carry_out(self, instructions: list[Instruction]) -> None:
        served: set[str] = set()
        if self._partnership is not None:
            instructions = self._partnership.agreed(instructions)
        for instruction in instructions:
            match instruction:
                case ServeLink(peer):
                    if peer not in served:  # all that waited when the engine spoke has left, or cannot
                        served.add(peer)
                        self._links[peer].serve(monotonic())
                case SendFrame(peer, frame):
                    self._links[peer].send(frame)
                case CloseLink(peer, reason):
                    self._links.drop(peer, reason)
                case DeliverMessages(frame):
                    self._journal.record(frame)
                    if (body := self._sealed.opened(frame)) is not None:
                        origin = self._engine.federation.domain_order[frame.origin]
                        if self._hops is not None:
                            self._hops.delivered(frame, body)
                        self._head.deliver(body, frame.hop_limit, frame.topic_class, origin)
                case HandToAgent(peer, frame):
                    self._mail.arrived(peer, frame.body)
                case ChangeSubscriptions(add, remove):
                    self._head.change_subscriptions(add, remove)
                case ConfirmSubscriptions(applied):
                    self._head.confirm(applied)
                case ForgetRoutes(subjects):
                    self._head.forget_routes(subjects)
                case ServeHead():
                    self._head.serve()
                case ResetTimer():
                    self._set_timer()
                case DropMessages(frame, reason):
                    self._sealed.drop(frame, reason)
                case RetargetMessages(frame):
                    self._retarget(frame)
                case KeepVersions(kept, then, at_once):
                    self._versions.keep(kept, partial(self._carry_out, list(then)), at_once=at_once)
                case AdoptDocument(document):
                    self._adopt(document)
                case MakeTables(federation, version):
                    making = asyncio.get_running_loop().create_task(self._make_tables(federation, version))
                    self._making.add(making)
                    making.add_done_callback(self._making.discard)

    def _adopt(self, document: FederationDocument) -> None:
        """Another version of the federation document is in force."""
        self._adopt_network()
        self._take_transforms()
        if self._retained is not None:
            self._retained.border = self._engine.border
        self._head.contracts_changed(self._directions())
        self._teller.changed()
        self._versions.adopted(document)
        self._publisher.poke()

    def _take_transforms(self) -> None:
        """Transforms may be other ones; where there were none, whoever runs them begins."""
        federation = self._engine.federation
        if self._mediation is not None:
            self._mediation.transforms_changed(federation.transforms)
        elif federation.transforms:
            self._mediation = Mediation(federation, self._engine.rules, self._ledger)
            self._head.mediate(self._mediation)
            if self._tasks is not None:
                self._tasks.create_task(self._mediation.run(), name="transforms")

    def _adopt_network(self) -> None:
        """Open and close links as they are in force; nothing, if they are what they were."""
        engine, domain = self._engine, self._settings.domain
        if engine.departed:
            log.warning("%s has left the federation: nothing is exchanged with other domains", domain)
            self._links.adopt(())
            self._mail.adopt(())
            self._lines.adopt(None)
            return
        peers = [link.other(domain) for link in engine.federation.links_of(domain)]
        self._links.adopt(peers)
        self._mail.adopt(peers)
        self._lines.adopt(engine.federation)
        if self._sealing is not None:
            self._sealing.adopt(engine.federation)

    async def _make_tables(self, federation: Federation, version: int) -> None:
        """Make failover tables in a thread, while messages flow by those that there are."""
        began = monotonic()
        tables = await asyncio.to_thread(_tables_of, federation, self._settings.domain)
        took_ms = 1000 * (monotonic() - began)
        log.info("tables for version %d were made in %.0f ms", version, took_ms)
        self._carry_out(self._engine.tables_made(version, tables, monotonic()))

    def _directions(self) -> bytes:
        """What clients that ask are told, by the document in force."""
        directions = self._settings.directions
        if directions is None:
            return b""
        told = self._terms()
        return msgspec.json.encode(
            msgspec.structs.replace(directions, terms=told.terms, client_limits=told.client_limits)
        )

    def _terms(self) -> TermsTold:
        """What clients keep of the document in force, by the names of this domain."""
        federation = self._engine.federation
        return TermsTold(
            version=self._engine.document.version,
            terms=local_rules(federation, self._settings.domain).terms(),
            client_limits=federation.limits.client,
        )

    def _retarget(self, frame: Frame) -> None:
        """Sort the messages of a frame anew, whose destination is lost; or have its origin do it."""
        body = self._sealed.to_sort_anew(frame)
        origin = self._engine.federation.domain_order[frame.origin]
        if body is None:
            self._carry_out(self._engine.turn_back(frame, monotonic()))
        elif body and not self._head.retarget(body, frame.destinations, frame.hop_limit, origin):
            self._carry_out(self._engine.wait(frame, monotonic()))

    # -- two gateways of one domain -----------------------------------------------------------------------

    async def _follow_roles(self, partnership: Partnership, tasks: asyncio.TaskGroup) -> None:
        """Stand by, and carry when it is this gateway's turn; DisplacedError when it no longer is."""
        pair = partnership.pair
        while True:
            change = await pair.changes.get()
            match change.role:
                case Role.STANDBY:
                    log.info("%s, standing by", GATEWAY_READY)
                case Role.TAKING_OVER:
                    if change.finding is Finding.NOBODY_CARRIES and pair.settings.other_journal:
                        partnership.told_names(names_in(Path(pair.settings.other_journal)))
                    self._take_over(pair, change.finding.value)
                    self._begin(tasks)
                    pair.begun()
                    log.info(GATEWAY_READY)
                case Role.DISPLACED:
                    partnership.let_go(change.finding.value)
                    raise DisplacedError
                case _:
                    pass

    def _take_over(self, pair: Pair, reason: str) -> None:
        """Begin a life that is later than the other gateway's; neighbours greet whoever began last."""
        epoch = pair.take_over()
        self._desk.hold(pair.leaves_s)
        self._carry_out(self._engine.begin(epoch, reason, monotonic()))
        self._head.begin()
        self._links.begin()
        if self._mirrors is not None:
            self._mirrors.begin()

    def hand_over(self) -> None:
        """Told to stop: take nothing more from neighbours, and let the other gateway take over at once."""
        self._links.say_goodbye()
        if self._pair is not None:
            self._pair.stop()

    # -- time ---------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        """Let the engine do what is due, and come back when something is due again.

        Called early when a neighbour appears: from then on, heartbeats bring it back often enough for all
        else.
        """
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._carry_out(self._engine.handle_timer(monotonic()))
        self._sealed.tell(monotonic())
        self._write_events()
        self._head.arrivals.expire(monotonic())
        self._audit.settle()
        self._set_timer()

    def _write_events(self) -> None:
        """For the story; what was not believed also goes into the audit log."""
        events = self._engine.take_events()
        self._event_file.write(events)
        if events:
            self._publisher.poke()
        for event in events:
            match event.happening:
                case StatementRefused(peer=peer, origin=origin, what=what, reason=reason, count=count):
                    facts: dict[str, Fact] = {"peer": peer, "origin": origin, "what": what, "reason": reason}
                    self._audit.add(AuditKind.MESSAGE_REFUSED, facts, count)

    def _set_timer(self) -> None:
        """Come back when something is due; never later than was said before."""
        now = monotonic()
        due = max(min(self._engine.timer(), now + MAX_TICK_S), now + MIN_TICK_S)
        if self._timer is not None:
            if self._due <= due:
                return
            self._timer.cancel()
        self._due = due  # uvloop's handle does not tell it, if the time has passed already
        self._timer = asyncio.get_running_loop().call_at(due, self._tick)

    async def run(self) -> None:
        """Serve until cancelled, or until the other gateway of the domain has taken this one's place."""
        await self._lines.listen(self._engine.federation)
        try:
            async with (
                telling_health(self._settings.health, self._readiness, self._counted),
                asyncio.TaskGroup() as tasks,
            ):
                tasks.create_task(self._head.run(), name="head")
                tasks.create_task(self._links.run(), name="links")
                if self._mirrors is not None:
                    tasks.create_task(self._mirrors.run(), name="mirrors")
                if self._mediation is not None:
                    tasks.create_task(self._mediation.run(), name="transforms")
                self._tasks = tasks
                self._tick()
                if self._partnership is None:
                    self._begin(tasks)
                    log.info(GATEWAY_READY)
                else:
                    tasks.create_task(self._follow_roles(self._partnership, tasks), name="roles")
        except* DisplacedError:
            log.warning("displaced by the other gateway of %s", self._settings.domain)
        finally:
            self._engine.conclude(monotonic())
            self._write_events()
            if self._timer is not None:
                self._timer.cancel()
            self._desk.close()
            self._versions.close()
            self._journal.close()
            if self._stimuli is not None:
                self._stimuli.write()
            self._lines.close()
            for making in self._making:
                making.cancel()
            await self._links.close()

    def _begin(self, tasks: asyncio.TaskGroup) -> None:
        """Start all that only the gateway which carries does."""
        if self._retained is not None:
            tasks.create_task(self._retained.run(), name="retained messages")
        if self._probe is not None:
            tasks.create_task(self._probe.run(self._head), name="probe")
        self._lines.begin(tasks, self._engine.federation)
        if self._settings.management_urls:
            management = self._management(self._settings.management_urls)
            tasks.create_task(management.run(), name="management broker")

    def _management(self, urls: Sequence[str]) -> ManagementConnection:
        """The gateway on the management brokers of its domain."""
        answers = Answers(
            self._engine,
            self._head,
            self._ledger,
            started=self._started,
            status=self.status,
            carry_out=self._carry_out,
            voucher=Voucher(self._places, login_of(self._settings.keys, GATEWAY_USER)),
            versions=self._versions,
            teller=self._teller,
            names=None if self._names is None else self._names.names,
        )
        announcement = None if self._pair is None else Announcement(self._engine.domain, self._pair)
        return ManagementConnection(
            urls,
            self._name,
            answers.by_subject(users=bool(self._settings.keys)),
            self._mail,
            self._desk,
            announcement,
            login_of(self._settings.keys, GATEWAY_USER),
            self._publisher,
            self._teller,
        )

    async def _account(self) -> GatewayStatus:
        return self.status()

    def _readiness(self) -> Readiness:
        """One that stands by is ready to; one that carries needs its head broker."""
        role = Role.ACTIVE.value if self._pair is None else self._pair.status().role
        checks = {"head broker": self._head.connected} if role == Role.ACTIVE.value else {role: True}
        return Readiness(process=self._name, checks=checks)

    async def _counted(self) -> Families:
        families = Families()
        put_gateway(families, self._settings.domain, self.status())
        self._topic_metrics.put(families, await self._topics())
        return families

    async def _topics(self) -> TopicTotals:
        return self._ledger.history.so_far(monotonic() - self._started)

    def _sealing_figures(self) -> SealingFigures:
        if self._sealing is None:
            return self._sealed.figures()
        return self._sealed.figures(self._sealing.sealer.sealed, self._sealing.without_key)

    def status(self) -> GatewayStatus:
        """The gateway's account of itself."""
        self._head.book()
        return gateway_report(
            self._engine,
            self._links,
            self._ledger,
            now=monotonic(),
            uptime_s=monotonic() - self._started,
            head_connected=self._head.connected,
            head_follows=self._head.follows,
            head_broker=self._head.broker,
            inside=None if self._probe is None else self._probe.latency(),
            limits=LimitFigures(
                subjects=len(self._head.departures),
                clients=self._head.departures.clients,
                arrivals=self._head.arrivals.in_force,
            ),
            silence=self._desk.figures(),
            pair=None if self._pair is None else self._pair.status(),
            mirroring=None if self._mirrors is None else self._mirrors.figures(),
            sealing=self._sealing_figures(),
            access=self._border_book.figures(),
            audit=self._audit.figures(),
            transforms=None if self._mediation is None else self._mediation.figures(),
        )


def _tables_of(federation: Federation, domain: str) -> GatewayTables:
    tables = GatewayTables(prepared_network(federation), domain)
    load_search(tables.book.graph.size)  # where that is not done yet it takes seconds
    return tables


async def _serve(settings: GatewaySettings) -> None:
    # The working set is long-lived; fewer collections mean fewer pauses in the data path.
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    audit = AuditLog.at(settings.audit_path)
    audit.note(AuditKind.PROCESS_STARTED)
    following = None
    tracer = Tracer.from_environment("mangrove-gateway", **{"service.instance.id": settings.domain})
    try:
        keys = KeysInForce.read(settings.keys, audit) if settings.keys else None
        following = None if keys is None else asyncio.create_task(keys.follow(), name="keys")
        if settings.pair is None:
            await Gateway(settings, epoch=time_ns(), keys=keys, audit=audit, tracer=tracer).run()
        else:
            pair = Pair(settings.pair, settings.federation, settings.domain, keys=keys, audit=audit)
            await _serve_in_turn(settings, pair, keys, audit, tracer)
    finally:
        if following is not None:
            following.cancel()
        if tracer is not None:
            tracer.close()
        audit.note(AuditKind.PROCESS_STOPPED)
        audit.close()
        log.info("gateway stopped")


async def _serve_in_turn(
    settings: GatewaySettings,
    pair: Pair,
    keys: KeysInForce | None,
    audit: AuditLog,
    tracer: Tracer | None,
) -> None:
    """Stand by or carry; a gateway that was displaced is forgotten, and a new one stands by."""
    tables = _tables_of(settings.federation, settings.domain)
    async with asyncio.TaskGroup() as tasks:
        gateway = Gateway(settings, time_ns(), pair, tables, keys=keys, audit=audit, tracer=tracer)
        tasks.create_task(pair.run(), name="the other gateway")
        while True:
            serving = tasks.create_task(gateway.run(), name="gateway")
            try:
                await asyncio.shield(serving)
            except asyncio.CancelledError:
                gateway.hand_over()
                raise
            gateway = Gateway(settings, time_ns(), pair, tables, keys=keys, audit=audit, tracer=tracer)
            pair.let_go()


def main() -> None:
    """Run one gateway until it is told to stop."""
    run_daemon(GatewaySettings, _serve)


if __name__ == "__main__":
    main()
