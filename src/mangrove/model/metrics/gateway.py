"""A gateway's account as metrics."""

from __future__ import annotations

from itertools import groupby

from mangrove.model.metrics.families import MAX_REASONS, Families
from mangrove.model.status import GatewayStatus, LinkStatus, RouteStatus

MAX_LINKS = 200
MAX_ROWS = 200
"""Of arrivals, and of routes, in each domain."""


def put_gateway(families: Families, domain: str, status: GatewayStatus | None) -> None:
    """Everything that a gateway counts, except for topics."""
    families.put("gateway_up", status is not None, domain)
    if status is None:
        return
    families.put("gateway_uptime_seconds", status.uptime_s, domain)
    families.put("gateway_head_connected", status.head_connected, domain)
    families.put("gateway_parked_bytes", status.parked_bytes, domain)
    families.put("gateway_failed_links", len(status.failed_links), domain)
    families.put("gateway_wanted_subjects", status.subscribed, domain)
    if status.pair is not None:
        families.put("gateway_standby_away", status.pair.other == "away", domain)
        families.put("gateway_takeovers_total", status.pair.takeovers, domain)
    families.put("messages_sent_total", status.sent, domain)
    families.put("messages_delivered_total", status.delivered, domain)
    families.put("messages_duplicate_total", status.duplicates, domain)
    families.count_by("messages_dropped_total", status.dropped, MAX_REASONS, domain)
    families.put("messages_kept_back_total", status.kept_back, domain)
    families.put("delivery_gaps_total", status.gaps, domain)
    families.count_by("connections_refused_total", status.refused_by_reason, MAX_REASONS, domain)
    refused: dict[str, int] = {}
    for refusal in status.access:
        refused[refusal.rule] = refused.get(refusal.rule, 0) + refusal.count
    families.count_by("access_refused_total", refused, MAX_REASONS, domain)
    _put_arrivals(families, domain, status)
    _put_frames(families, domain, status)
    _put_routes(families, domain, status.routes)
    for link in families.first(status.links, MAX_LINKS, "links"):
        _put_link(families, domain, link)


def _put_arrivals(families: Families, domain: str, status: GatewayStatus) -> None:
    # The latest compared with their deadlines come first.
    worst = sorted(status.arrivals, key=lambda each: -each.observed_ms / (each.deadline_ms or float("inf")))
    for arrival in families.first(worst, MAX_ROWS, "arrivals"):
        delay_s = arrival.observed_ms / 1000
        families.put("arrival_delay_seconds", delay_s, domain, arrival.origin, arrival.topic)
        for name, found_ms in (("median", arrival.p50_ms), ("highest", arrival.p99_ms)):
            seconds = None if found_ms is None else found_ms / 1000
            families.put(f"arrival_delay_{name}_seconds", seconds, domain, arrival.origin, arrival.topic)
        if arrival.deadline_ms is not None:
            families.put("contract_deadline_seconds", arrival.deadline_ms / 1000, domain, arrival.topic)


def _put_frames(families: Families, domain: str, status: GatewayStatus) -> None:
    """By contract, whichever domain they are from: rates of these are shares in time."""
    sums: dict[str, list[int]] = {}
    for arrival in status.arrivals:
        found = sums.setdefault(arrival.topic, [0, 0, 0])
        for place, count in enumerate((arrival.frames, arrival.copies, arrival.late)):
            found[place] += count
    busiest = sorted(sums.items(), key=lambda each: (-each[1][2], -each[1][0], each[0]))
    for topic, counts in families.first(busiest, MAX_ROWS, "contracts"):
        for name, count in zip(("frames", "copies", "late"), counts, strict=True):
            families.put(f"arrival_{name}_total", count, domain, topic)


def _put_routes(families: Families, domain: str, routes: tuple[RouteStatus, ...]) -> None:
    def pair(route: RouteStatus) -> tuple[str, str]:
        return route.destination, route.topic

    sets = [(key, list(each)) for key, each in groupby(sorted(routes, key=pair), key=pair)]
    sets.sort(key=lambda each: not any(route.unmet for route in each[1]))
    for (destination, topic), paths in families.first(sets, MAX_ROWS, "routes"):
        active = [path.predicted_ms for path in paths if path.active]
        labels = (domain, destination, topic)
        families.put("route_active_paths", len(active), *labels)
        families.put("route_predicted_seconds", min(active) / 1000 if active else None, *labels)
        families.put("route_unmet", any(path.unmet for path in paths), *labels)


def _put_link(families: Families, domain: str, link: LinkStatus) -> None:
    labels = (domain, link.peer)
    families.put("link_up", link.up, *labels)
    families.put("link_rtt_seconds", None if link.rtt_ms is None else link.rtt_ms / 1000, *labels)
    families.put("link_jitter_seconds", link.jitter_ms / 1000, *labels)
    families.put("link_availability_ratio", link.availability, *labels)
    families.put("link_loss_ratio", link.loss_ratio, *labels)
    families.put("link_queued_bytes", link.queued_bytes, *labels)
    families.put("link_unacknowledged_frames", link.unacknowledged, *labels)
    families.put("link_secured", link.secured, *labels)
    families.put("link_failures_total", link.failures, *labels)
    families.put("link_reconnects_total", link.reconnects, *labels)
    families.put("link_sent_bytes_total", link.bytes_out, *labels)
    families.put("link_received_bytes_total", link.bytes_in, *labels)
    families.put("link_sent_frames_total", link.frames_out, *labels)
    families.put("link_received_frames_total", link.frames_in, *labels)
