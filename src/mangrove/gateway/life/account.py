"""What a gateway tells of itself: its status, whether it is ready, and its metrics."""

from __future__ import annotations

from time import monotonic

from mangrove.gateway.access.border_book import BorderBook
from mangrove.gateway.audience.desk import AudienceDesk
from mangrove.gateway.head.connection import HeadConnection
from mangrove.gateway.ledger import Ledger
from mangrove.gateway.life.security import Security
from mangrove.gateway.links.links import Links
from mangrove.gateway.mediation.transforms import Transforms
from mangrove.gateway.mirroring.mirror_plane import MirrorPlane
from mangrove.gateway.naming.site_names import SiteNames
from mangrove.gateway.pair.pair import Pair
from mangrove.gateway.probing.site_probe import SiteProbe
from mangrove.gateway.report import gateway_report
from mangrove.gateway.sealing.sealed_traffic import SealedTraffic
from mangrove.host.audit.audit_log import AuditLog
from mangrove.host.status_publisher import StatusPublisher
from mangrove.host.web.health import Readiness
from mangrove.model.metrics.families import Families
from mangrove.model.metrics.gateway import put_gateway
from mangrove.model.metrics.topics import TopicMetrics
from mangrove.model.names.mapping import names_digest
from mangrove.model.status import GatewayStatus, LimitFigures
from mangrove.model.stream.messages import GATEWAY_PART, TOPICS_PART
from mangrove.model.topic_counts import TopicTotals
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.pair.messages import Role


class Account:
    """Asks every part for its figures, when somebody asks for them."""

    def __init__(
        self,
        name: str,
        engine: OverlayEngine,
        ledger: Ledger,
        head: HeadConnection,
        links: Links,
        desk: AudienceDesk,
        *,
        started: float,
        security: Security,
        sealed: SealedTraffic,
        border_book: BorderBook,
        audit: AuditLog,
        transforms: Transforms,
        names: SiteNames,
        mirrors: MirrorPlane | None,
        probe: SiteProbe | None,
        pair: Pair | None,
    ) -> None:
        self.started = started
        """When this life began."""
        self._name = name
        self._engine = engine
        self._ledger = ledger
        self._head = head
        self._links = links
        self._desk = desk
        self._security = security
        self._sealed = sealed
        self._border_book = border_book
        self._audit = audit
        self._transforms = transforms
        self._names = names
        self._mirrors = mirrors
        self._probe = probe
        self._pair = pair
        self._topic_metrics = TopicMetrics()

    def publisher(self) -> StatusPublisher:
        """Who tells of it on the management broker."""
        return StatusPublisher(
            self._engine.domain, {GATEWAY_PART: self._status, TOPICS_PART: self._topic_totals}
        )

    def readiness(self) -> Readiness:
        """One that stands by is ready to; one that carries needs its head broker."""
        role = Role.ACTIVE.value if self._pair is None else self._pair.status().role
        checks = {"head broker": self._head.connected} if role == Role.ACTIVE.value else {role: True}
        return Readiness(process=self._name, checks=checks)

    async def metrics(self) -> Families:
        """All that is counted, for a page of metrics."""
        families = Families()
        put_gateway(families, self._engine.domain, self.status())
        self._topic_metrics.put(families, await self._topic_totals())
        return families

    async def _topic_totals(self) -> TopicTotals:
        return self._ledger.history.so_far(monotonic() - self.started)

    async def _status(self) -> GatewayStatus:
        return self.status()

    def status(self) -> GatewayStatus:
        """The gateway's account of itself."""
        head = self._head
        head.book()
        return gateway_report(
            self._engine,
            self._links,
            self._ledger,
            now=monotonic(),
            uptime_s=monotonic() - self.started,
            head_connected=head.connected,
            head_follows=head.follows,
            head_broker=head.broker,
            names=names_digest(self._names.names.mappings),
            inside=None if self._probe is None else self._probe.latency(),
            limits=LimitFigures(
                subjects=len(head.departures),
                clients=head.departures.clients,
                arrivals=head.arrivals.in_force,
            ),
            silence=self._desk.figures(),
            pair=None if self._pair is None else self._pair.status(),
            mirroring=None if self._mirrors is None else self._mirrors.figures(),
            sealing=self._security.figures(self._sealed),
            access=self._border_book.figures(),
            audit=self._audit.figures(),
            transforms=self._transforms.figures(),
        )
