"""Every metric that there is: its name by Prometheus' conventions, what it means, and how it is told apart.

Dashboards, alert rules and the reference page are checked against this table.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class MetricKind(StrEnum):
    """What may happen to a value: a counter only grows, until its process starts anew."""

    COUNTER = "counter"
    GAUGE = "gauge"


class Metric(msgspec.Struct, frozen=True):
    """One metric; the name of a counter ends with `_total`."""

    name: str
    kind: MetricKind
    meaning: str
    labels: tuple[str, ...] = ("domain",)


def _gauge(name: str, meaning: str, *labels: str) -> Metric:
    return Metric(f"mangrove_{name}", MetricKind.GAUGE, meaning, labels)


def _counter(name: str, meaning: str, *labels: str) -> Metric:
    return Metric(f"mangrove_{name}_total", MetricKind.COUNTER, meaning, labels)


_D, _L, _T = ("domain",), ("domain", "peer"), ("domain", "topic")
_B, _R = ("domain", "broker", "role"), ("domain", "destination", "contract")
_A = ("domain", "origin", "contract")

CATALOGUE: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        _gauge("federation_healthy", "1 if every process answers and all links are up."),
        _gauge("domain_heard", "1 while the domain's status stream is heard.", *_D),
        _gauge("domain_heard_timestamp_seconds", "When the domain was heard last, since 1970.", *_D),
        _counter("domain_updates_lost", "Updates of the status stream that were missed or unreadable.", *_D),
        _gauge("process_up", "1 if a process of a host runs.", "domain", "host", "process"),
        _counter("process_restarts", "How often a process was started again.", "domain", "host", "process"),
        # gateways
        _gauge("gateway_up", "1 if the gateway answers.", *_D),
        _gauge("gateway_uptime_seconds", "Since the gateway's process started.", *_D),
        _gauge("gateway_head_connected", "1 if the gateway is attached to its head broker.", *_D),
        _gauge("gateway_parked_bytes", "Messages that wait for a way to their destination.", *_D),
        _gauge("gateway_failed_links", "Links of the federation that are down, as this gateway knows.", *_D),
        _gauge("gateway_wanted_subjects", "Subjects that other domains want of this one's head broker.", *_D),
        _gauge("gateway_standby_away", "1 if the second of two gateways is not there.", *_D),
        _counter("gateway_takeovers", "How often this gateway process took over from the other.", *_D),
        _counter("messages_sent", "Messages that left the domain.", *_D),
        _counter("messages_delivered", "Messages of other domains that were delivered here.", *_D),
        _counter("messages_duplicate", "Copies that had arrived before and were left out.", *_D),
        _counter("messages_dropped", "Messages that ended before they arrived.", "domain", "reason"),
        _counter("messages_kept_back", "Copies not sent: nobody there selects them. No loss.", *_D),
        _counter("delivery_gaps", "Times that messages were delivered without what comes before.", *_D),
        _counter("topic_sent", "Messages of a topic that left the domain since it is told apart.", *_T),
        _counter("topic_delivered", "Messages of a topic that were delivered here since then.", *_T),
        _counter("topic_dropped", "Messages of a topic that were dropped here since then.", *_T),
        _gauge("arrival_delay_seconds", "Smoothed delay from publisher to here.", *_A),
        _gauge("arrival_delay_median_seconds", "Half of the recent frames took no longer.", *_A),
        _gauge("arrival_delay_highest_seconds", "All but one in a hundred took no longer.", *_A),
        _counter("arrival_frames", "Frames that arrived: messages that left together.", "domain", "contract"),
        _counter(
            "arrival_copies", "Frames that came again and were not delivered again.", "domain", "contract"
        ),
        _counter("arrival_late", "Frames that arrived after their deadline.", "domain", "contract"),
        _gauge("contract_deadline_seconds", "The deadline of a contract.", "domain", "contract"),
        _gauge("route_predicted_seconds", "Predicted delay of the quickest active path.", *_R),
        _gauge("route_active_paths", "Paths of a contract's set that are in use.", *_R),
        _gauge("route_unmet", "1 if the paths do not give all that the contract asks for.", *_R),
        _counter("connections_refused", "Connections of strangers and misfits.", "domain", "reason"),
        _counter("access_refused", "Messages that access rules kept from passing.", "domain", "rule"),
        # links, seen from one end
        _gauge("link_up", "1 if the link can be used.", *_L),
        _gauge("link_rtt_seconds", "Round-trip time of a link.", *_L),
        _gauge("link_jitter_seconds", "Smoothed deviation of the round-trip time.", *_L),
        _gauge("link_availability_ratio", "Share of time in which the link could be used.", *_L),
        _gauge("link_loss_ratio", "Segments that TCP had to send again, of all.", *_L),
        _gauge("link_queued_bytes", "Data that waits for the link.", *_L),
        _gauge("link_unacknowledged_frames", "Frames that the neighbour has not acknowledged.", *_L),
        _gauge("link_secured", "1 if the neighbour has proven who it is.", *_L),
        _counter("link_failures", "How often the link was given up.", *_L),
        _counter("link_reconnects", "How often its connection was made again.", *_L),
        _counter("link_sent_bytes", "Bytes that this end sent.", *_L),
        _counter("link_received_bytes", "Bytes that this end received.", *_L),
        _counter("link_sent_frames", "Frames that this end sent.", *_L),
        _counter("link_received_frames", "Frames that this end received.", *_L),
        # agents
        _gauge("agent_up", "1 if the domain's leading agent answers.", *_D),
        _gauge("agent_uptime_seconds", "Since the agent's process started.", *_D),
        _gauge("agent_leads", "1 if the agent that answers leads.", *_D),
        _gauge("agent_term", "How often a leader was elected.", *_D),
        _gauge("agent_paused", "1 if automatic decisions are paused.", *_D),
        _gauge("agent_clients", "Clients that are registered.", *_D),
        _gauge("agent_subscriptions", "Subscriptions that are registered.", *_D),
        _gauge("agent_directory_records", "Topics in the directory.", *_D),
        _gauge("agent_unmirrored_topics", "Topics that want a mirror, and have none.", *_D),
        _gauge("agent_open_sessions", "Offload sessions that are open.", *_D),
        _gauge("agent_limits", "Limits on publishers that are in force.", *_D),
        _counter("agent_moves", "Subscriptions and publishers that were moved.", *_D),
        _counter("agent_dead_brokers", "How often a broker was found dead.", *_D),
        _counter("agent_refused", "Messages that the agent refused.", "domain", "reason"),
        # brokers
        _gauge("broker_up", "1 if the broker answers.", *_B),
        _gauge("broker_connections", "Clients and others that are connected.", *_B),
        _gauge("broker_subscriptions", "Subscriptions at the broker.", *_B),
        _gauge("broker_memory_bytes", "What the broker's process holds.", *_B),
        _gauge("broker_cpu_ratio", "Cores that the broker's process uses.", *_B),
        _counter("broker_received_messages", "Messages that the broker received.", *_B),
        _counter("broker_sent_messages", "Messages that the broker sent.", *_B),
        _counter("broker_received_bytes", "Bytes that the broker received.", *_B),
        _counter("broker_sent_bytes", "Bytes that the broker sent.", *_B),
        _counter("broker_slow_consumers", "Clients that were cut off because they were slow.", *_B),
        _gauge("broker_utilisation_ratio", "Smoothed load, of the capacity.", "domain", "broker", "metric"),
        _gauge("broker_headroom_ratio", "The least room up to the high threshold.", "domain", "broker"),
        _gauge("broker_overloaded", "1 if the broker is overloaded.", "domain", "broker"),
        # of the metrics themselves
        _gauge("metrics_omitted_rows", "Rows beyond the bound, which are left out.", "kind"),
    )
}


def metrics_reference() -> str:
    """The reference page of all metrics."""
    lines = ["# Metrics", "", "Generated from the code by `make docs`.", ""]
    lines += ["How to collect them: [collect metrics](../how-to/collect-metrics.md).", ""]
    lines += ["| metric | kind | labels | meaning |", "|---|---|---|---|"]
    for metric in CATALOGUE.values():
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        lines.append(f"| `{metric.name}` | {metric.kind.value} | {labels} | {metric.meaning} |")
    return "\n".join(lines) + "\n"
