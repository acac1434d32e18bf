"""One gateway: puts the overlay engine, the head broker and the links together, and serves for one life."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from mangrove.gateway.access.border_book import BorderBook
from mangrove.gateway.audience.completeness import Completeness
from mangrove.gateway.audience.desk import AudienceDesk
from mangrove.gateway.audience.leave_mark import LeaveMark
from mangrove.gateway.audience.leaves import Leaves
from mangrove.gateway.delivery_journal import DeliveryJournal
from mangrove.gateway.head.connection import HeadConnection
from mangrove.gateway.ledger import Ledger
from mangrove.gateway.letter_post import LetterPost
from mangrove.gateway.life.account import Account
from mangrove.gateway.life.adoption import Adoption
from mangrove.gateway.life.broker_parts import BrokerParts
from mangrove.gateway.life.engine_making import make_engine
from mangrove.gateway.life.engine_timer import EngineTimer
from mangrove.gateway.life.event_writer import EventWriter
from mangrove.gateway.life.executor import Executor
from mangrove.gateway.life.security import Security
from mangrove.gateway.life.table_making import TableMaking
from mangrove.gateway.links.lines import Lines
from mangrove.gateway.links.links import Links
from mangrove.gateway.links.neighbourhood import Neighbourhood
from mangrove.gateway.management.agent_mail import AgentMail
from mangrove.gateway.management.answers import Answers
from mangrove.gateway.management.broker_connection import ManagementConnection
from mangrove.gateway.management.terms_in_force import TermsInForce
from mangrove.gateway.management.terms_teller import TermsTeller
from mangrove.gateway.mediation.transforms import Transforms
from mangrove.gateway.naming.names_in_force import NamesInForce
from mangrove.gateway.naming.renaming import Renaming
from mangrove.gateway.naming.site_names import SiteNames
from mangrove.gateway.pair.announcement import Announcement
from mangrove.gateway.pair.pair import Pair
from mangrove.gateway.pair.partnership import Partnership
from mangrove.gateway.pair.turns import DisplacedError, Turns
from mangrove.gateway.trust.keys_in_force import KeysInForce
from mangrove.gateway.versions import Versions
from mangrove.host.audit.audit_log import AuditLog
from mangrove.host.event_file import EventFile
from mangrove.host.tracing.tracer import Tracer
from mangrove.host.web.health import telling_health
from mangrove.model.gateway_settings import GatewaySettings
from mangrove.model.shared_names import GATEWAY_READY
from mangrove.routing.failover.gateway_tables import GatewayTables

if TYPE_CHECKING:
    from mangrove.gateway.tracing.hop_spans import HopSpans

log = logging.getLogger(__name__)


class Gateway:
    """Events from sockets go to the engine, its instructions go back to the sockets."""

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
        started = monotonic()
        federation, domain = settings.federation, settings.domain
        self._settings = settings
        self._pair = pair
        audit = audit or AuditLog()
        second = settings.pair is not None and settings.pair.number == 2
        self._name = f"gateway-{domain}{'-2' if second else ''}"
        """What this gateway calls itself at brokers."""
        self._ledger = Ledger(domain, epoch)
        border_book = BorderBook(audit)
        names_in_force = NamesInForce(settings)
        self._names = names = SiteNames(names_in_force.read())
        event_file = EventFile(Path(settings.events_path) if settings.events_path else None, tracer)
        self._versions = Versions(settings.versions_path, audit)
        self._security = Security(federation, domain, keys)
        self._engine, self._stimuli = make_engine(
            settings,
            epoch,
            tables=tables,
            events_before=event_file.last_number(),
            standing_by=pair is not None,
            trust=self._security.trust(),
        )
        engine = self._engine
        hops = None if tracer is None else self._make_hops(tracer)
        sealed = self._security.traffic(engine, self._ledger)
        self._journal = DeliveryJournal(Path(settings.journal_path) if settings.journal_path else None)
        engine.remember(self._journal.names())
        self._executor = Executor(engine, sealed, self._journal, self._versions, hops)
        flush, carry_out = self._executor.flush, self._executor.carry_out

        self._parts = BrokerParts(settings, self._name, engine, self._ledger, border_book, names)
        self._retained = self._parts.retained(LetterPost(engine, flush))
        self._probe = self._parts.probe(
            lambda ingress_ms, egress_ms: carry_out(engine.site_measured(ingress_ms, egress_ms, monotonic()))
        )
        self._mirrors = self._parts.mirrors(flush)
        mark = LeaveMark(Path(f"{settings.journal_path}.leaves") if settings.journal_path else None)
        self._desk = AudienceDesk(
            domain,
            Leaves(engine.rules, engine.is_unwanted),
            mark,
            Completeness(settings, self._probe, lambda: self._head.subscribers_unknown).seen,
            users=bool(settings.keys),
            names=names,
        )
        self._transforms = Transforms(engine, self._ledger)
        terms = TermsInForce(settings, engine, names)
        self._teller = TermsTeller(domain, terms.terms)
        self._head = HeadConnection(
            engine,
            self._parts.attach(),
            self._ledger,
            max_message_bytes=federation.max_message_bytes,
            queue_bytes=federation.queue_bytes,
            buffer_done=flush,
            confirmed=lambda applied: carry_out(engine.subscriptions_confirmed(applied, monotonic())),
            letters=self._retained,
            markers=self._probe,
            silence=self._desk,
            mirrors=self._mirrors,
            border_book=border_book,
            names=names,
            mediation=self._transforms.mediation,
            directions=terms.directions(),
        )
        peers = tuple(link.other(domain) for link in engine.federation.links_of(domain))
        self._mail = AgentMail(
            domain,
            peers,
            send=lambda peer, body: carry_out(engine.send_management(peer, body, monotonic())),
            ignored=self._ledger.ignore,
        )
        self._links = Links(
            engine,
            peers,
            carry_out=carry_out,
            attached=lambda: self._timer.tick(),
            pair=pair,
            keys=keys,
            keys_changed=self._say_anew,
            audit=audit,
            hops=hops,
        )
        self._lines = Lines(settings, self._links)
        self._account = Account(
            self._name,
            engine,
            self._ledger,
            self._head,
            self._links,
            self._desk,
            started=started,
            security=self._security,
            sealed=sealed,
            border_book=border_book,
            audit=audit,
            transforms=self._transforms,
            names=names,
            mirrors=self._mirrors,
            probe=self._probe,
            pair=pair,
        )
        self._publisher = self._account.publisher()
        self._events = EventWriter(engine, event_file, audit, self._publisher.poke)
        self._timer = EngineTimer(engine, carry_out, sealed, self._events, self._head.arrivals, audit)
        self._tables = TableMaking(engine, carry_out)
        adoption = Adoption(
            engine,
            Neighbourhood(engine, self._links, self._lines, self._mail),
            self._security,
            self._transforms,
            self._retained,
            self._head,
            terms=terms,
            teller=self._teller,
            versions=self._versions,
            told=self._publisher.poke,
        )
        self._renaming = Renaming(
            names_in_force,
            names,
            self._head,
            self._desk,
            self._retained,
            rules=lambda: engine.federation.topics,
            terms=terms,
            teller=self._teller,
            told=self._publisher.poke,
            audit=audit,
        )
        self._executor.join(self._head, self._links, self._mail, self._timer, self._tables, adoption)
        self._turns: Turns | None = None
        if pair is not None:
            partnership = Partnership(
                pair,
                engine,
                self._head,
                self._ledger,
                sealed,
                self._journal,
                mark,
                carry_out,
                self._versions,
            )
            self._executor.consult(partnership)
            self._turns = Turns(
                partnership, engine, self._desk, self._head, self._links, self._mirrors, carry_out
            )

    def _make_hops(self, tracer: Tracer) -> HopSpans:
        """Who traces sampled messages."""
        from mangrove.gateway.tracing.hop_spans import HopSpans

        tracer.when_dropped = self._ledger.ignore
        return HopSpans(tracer, self._settings.domain, self._engine.rules)

    def _say_anew(self) -> None:
        """Other keys are in force: what this gateway said of itself is said again under them."""
        trust = self._security.renewed_trust()
        if trust is not None:
            self._executor.carry_out(self._engine.renew_keys(trust, monotonic()))

    def hand_over(self) -> None:
        """Told to stop: take nothing more from neighbours, and let the other gateway take over at once."""
        self._links.say_goodbye()
        if self._pair is not None:
            self._pair.stop()

    async def run(self) -> None:
        """Serve until cancelled, or until the other gateway of the domain has taken this one's place."""
        await self._lines.listen(self._engine.federation)
        try:
            async with (
                telling_health(self._settings.health, self._account.readiness, self._account.metrics),
                asyncio.TaskGroup() as tasks,
            ):
                tasks.create_task(self._head.run(), name="head")
                tasks.create_task(self._links.run(), name="links")
                if self._mirrors is not None:
                    tasks.create_task(self._mirrors.run(), name="mirrors")
                tasks.create_task(self._renaming.run(), name="names")
                self._transforms.begin(tasks)
                self._timer.tick()
                if self._turns is None:
                    self._begin(tasks)
                    log.info(GATEWAY_READY)
                else:
                    tasks.create_task(self._turns.follow(lambda: self._begin(tasks)), name="roles")
        except* DisplacedError:
            log.warning("displaced by the other gateway of %s", self._settings.domain)
        finally:
            self._engine.conclude(monotonic())
            self._events.write()
            self._timer.stop()
            self._desk.close()
            self._versions.close()
            self._journal.close()
            if self._stimuli is not None:
                self._stimuli.write()
            self._lines.close()
            self._tables.close()
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
        users = bool(self._settings.keys)
        answers = Answers(
            self._engine,
            self._head,
            self._ledger,
            started=self._account.started,
            status=self._account.status,
            carry_out=self._executor.carry_out,
            voucher=self._parts.voucher(),
            versions=self._versions,
            teller=self._teller,
            names=self._names,
        )
        announcement = None if self._pair is None else Announcement(self._engine.domain, self._pair)
        return ManagementConnection(
            urls,
            self._name,
            answers.by_subject(users=users),
            self._mail,
            self._desk,
            announcement,
            self._parts.login(),
            self._publisher,
            self._teller,
        )
