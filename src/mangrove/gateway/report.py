"""The gateway's account of itself, from its engine, its links and its ledger."""

from __future__ import annotations

import msgspec

from mangrove.gateway.ledger import Ledger
from mangrove.gateway.links.end import LinkEnd
from mangrove.gateway.links.links import Links
from mangrove.model.access.refusals import AccessRefusal
from mangrove.model.audit.entry import AuditFigures
from mangrove.model.mediation.figures import TransformFigures
from mangrove.model.status import (
    GatewayStatus,
    LimitFigures,
    LinkFigures,
    LinkStatus,
    MirrorFigures,
    PairStatus,
    SealingFigures,
    SilenceFigures,
    SiteLatency,
)
from mangrove.overlay.engine import OverlayEngine

MAX_DROP_ROWS = 100
MAX_BUSIEST = 20


def gateway_report(
    engine: OverlayEngine,
    links: Links,
    ledger: Ledger,
    *,
    now: float,
    uptime_s: float,
    head_connected: bool,
    head_follows: bool,
    head_broker: str = "",
    names: str = "",
    inside: SiteLatency | None = None,
    limits: LimitFigures | None = None,
    silence: SilenceFigures | None = None,
    pair: PairStatus | None = None,
    mirroring: MirrorFigures | None = None,
    access: tuple[AccessRefusal, ...] = (),
    sealing: SealingFigures | None = None,
    audit: AuditFigures | None = None,
    transforms: dict[str, TransformFigures] | None = None,
) -> GatewayStatus:
    """Everything that `mangrove status` shows of a gateway. Nothing that is counted is left out here."""
    overlay = engine.status(now)
    totals = ledger.history.totals
    return GatewayStatus(
        domain=engine.domain,
        epoch=engine.epoch,
        version=engine.document.version,
        names=names,
        versions=engine.versions_in_force(),
        uptime_s=uptime_s,
        head_connected=head_connected,
        head_follows=head_follows,
        head_broker=head_broker,
        links=tuple(_link(overlay.links[link.peer], link) for link in links),
        interest=overlay.interest,
        subscribed=overlay.subscribed,
        sent=totals.sent.total,
        delivered=totals.delivered.total,
        duplicates=overlay.duplicates,
        colour=overlay.colour,
        failed_links=overlay.failed_links,
        parked_bytes=overlay.parked_bytes,
        routes=overlay.routes,
        arrivals=overlay.arrivals,
        drops=ledger.largest_drops(MAX_DROP_ROWS),
        dropped=dict(ledger.dropped),
        busiest_sent=dict(totals.sent.topics.most_common(MAX_BUSIEST)),
        busiest_delivered=dict(totals.delivered.topics.most_common(MAX_BUSIEST)),
        requests_sent=totals.sent.requests,
        requests_delivered=totals.delivered.requests,
        sent_on=ledger.sent_on,
        kept_back=ledger.kept_back.total,
        kept_back_by_topic=dict(ledger.kept_back.topics.most_common(MAX_BUSIEST)),
        malformed_bodies=totals.malformed_bodies,
        refused_connections=links.refusals.total,
        refused_by_reason=dict(links.refusals.counts),
        refused_subjects=overlay.refused_subjects,
        gaps=overlay.gaps,
        out_of_turn=overlay.out_of_turn,
        refused_examples=overlay.refused_examples,
        warnings=(*overlay.warnings, *_alone(engine.domain, pair), *_keys(links), *_keyless(sealing)),
        endangered=overlay.endangered,
        exposed=overlay.exposed,
        routes_settled=overlay.routes_settled,
        ways=overlay.ways,
        ignored={**overlay.ignored, **ledger.ignored},
        inside=inside or SiteLatency(),
        tables=overlay.tables,
        asks=overlay.asks,
        limits=limits or LimitFigures(),
        silence=silence or SilenceFigures(),
        pair=pair,
        mirroring=mirroring or MirrorFigures(),
        access=access,
        sealing=sealing or SealingFigures(),
        audit=audit or AuditFigures(),
        transforms=transforms or {},
    )


def _alone(domain: str, pair: PairStatus | None) -> tuple[str, ...]:
    if pair is None or pair.other != "away":
        return ()
    return (f"{domain} has only one of its two gateways: were that to fail, nobody would take over",)


def _keys(links: Links) -> tuple[str, ...]:
    if links.keys is None or not links.keys.problem:
        return ()
    return (f"the keys have changed and cannot be used, those before stay: {links.keys.problem}",)


def _keyless(sealing: SealingFigures | None) -> tuple[str, ...]:
    if sealing is None or not sealing.without_key:
        return ()
    return (f"no sealing key is known of {', '.join(sealing.without_key)}: nothing confidential gets there",)


def _link(figures: LinkFigures, link: LinkEnd) -> LinkStatus:
    return LinkStatus(
        **msgspec.structs.asdict(figures),
        loss_ratio=link.loss_ratio(),
        frames_out=link.frames_out,
        frames_in=link.frames_in,
        bytes_out=link.bytes_out,
        bytes_in=link.bytes_in,
        reconnects=max(0, link.connects - 1),
        secured=link.secured,
        renewals=link.renewals,
        last_error=link.last_error,
    )
