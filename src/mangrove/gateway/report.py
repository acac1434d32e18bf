"""The gateway's account of itself, from its engine, its links and its ledger."""

from __future__ import annotations

import msgspec

from mangrove.gateway.ledger import Ledger
from mangrove.gateway.links import LinkEnd, Links
from mangrove.model.status import Drop, GatewayStatus, LinkFigures, LinkStatus
from mangrove.overlay.engine import OverlayEngine

MOST_ROWS = 100


def gateway_report(
    engine: OverlayEngine,
    links: Links,
    ledger: Ledger,
    *,
    now: float,
    uptime_s: float,
    head_connected: bool,
) -> GatewayStatus:
    """Everything that `mangrove status` shows of a gateway."""
    overlay = engine.status(now)
    return GatewayStatus(
        domain=engine.domain,
        epoch=engine.epoch,
        uptime_s=uptime_s,
        head_connected=head_connected,
        links=tuple(_link(overlay.links[link.peer], link) for link in links),
        interest=overlay.interest,
        subscribed=overlay.subscribed,
        sent=ledger.sent.total(),
        delivered=ledger.delivered.total(),
        duplicates=overlay.duplicates,
        colour=overlay.colour,
        failed_links=overlay.failed_links,
        parked_bytes=overlay.parked_bytes,
        routes=overlay.routes,
        arrivals=overlay.arrivals,
        drops=tuple(
            Drop(topic=topic, reason=reason, count=count)
            for (topic, reason), count in ledger.dropped.most_common(MOST_ROWS)
        ),
        topics_sent=dict(ledger.sent.most_common(MOST_ROWS)),
        topics_delivered=dict(ledger.delivered.most_common(MOST_ROWS)),
    )


def _link(figures: LinkFigures, link: LinkEnd) -> LinkStatus:
    return LinkStatus(
        **msgspec.structs.asdict(figures),
        loss_ratio=link.loss_ratio(),
        frames_out=link.frames_out,
        frames_in=link.frames_in,
        bytes_out=link.bytes_out,
        bytes_in=link.bytes_in,
        reconnects=max(0, link.connects - 1),
        last_error=link.last_error,
    )
