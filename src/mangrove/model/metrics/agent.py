"""An agent's account, brokers and processes of hosts as metrics."""

from __future__ import annotations

from collections.abc import Iterable

from mangrove.model.agents.load import LoadState
from mangrove.model.agents.status import AgentStatus
from mangrove.model.hosting.broker_status import BrokerStatus
from mangrove.model.hosting.supervision import ProcessState
from mangrove.model.metrics.families import MAX_REASONS, Families

MAX_BROKERS = 200
MAX_PROCESSES = 200


def put_agent(families: Families, domain: str, status: AgentStatus | None) -> None:
    """Everything that an agent counts, and how loaded it finds the brokers."""
    families.put("agent_up", status is not None, domain)
    if status is None:
        return
    families.put("agent_uptime_seconds", status.uptime_s, domain)
    families.put("agent_leads", status.leads, domain)
    families.put("agent_term", status.term, domain)
    families.put("agent_paused", status.paused is not None, domain)
    families.put("agent_clients", status.clients, domain)
    families.put("agent_subscriptions", status.subscriptions, domain)
    families.put("agent_directory_records", status.records, domain)
    families.put("agent_unmirrored_topics", status.unmirrored, domain)
    families.put("agent_open_sessions", sum(not each.outcome for each in status.sessions), domain)
    families.put("agent_limits", status.congestion.limited, domain)
    families.put("agent_moves_total", status.moves, domain)
    families.put("agent_dead_brokers_total", status.failures.verdicts, domain)
    families.count_by("agent_refused_total", status.refused, MAX_REASONS, domain)
    for load in families.first(status.brokers, MAX_BROKERS, "loads"):
        for metric, ratio in load.utilisation.items():
            families.put("broker_utilisation_ratio", ratio, domain, load.broker, metric.value)
        families.put("broker_headroom_ratio", load.headroom, domain, load.broker)
        families.put("broker_overloaded", load.measured is LoadState.OVERLOAD, domain, load.broker)


def put_brokers(families: Families, domain: str, brokers: Iterable[BrokerStatus]) -> None:
    """What brokers count."""
    for broker in families.first(brokers, MAX_BROKERS, "brokers"):
        labels = (domain, broker.name, broker.role)
        families.put("broker_up", broker.reachable, *labels)
        if not broker.reachable:
            continue
        families.put("broker_connections", broker.connections, *labels)
        families.put("broker_subscriptions", broker.subscriptions, *labels)
        families.put("broker_memory_bytes", broker.memory_bytes, *labels)
        families.put("broker_cpu_ratio", broker.cpu_percent / 100, *labels)
        families.put("broker_received_messages_total", broker.messages_in, *labels)
        families.put("broker_sent_messages_total", broker.messages_out, *labels)
        families.put("broker_received_bytes_total", broker.bytes_in, *labels)
        families.put("broker_sent_bytes_total", broker.bytes_out, *labels)
        families.put("broker_slow_consumers_total", broker.slow_consumers, *labels)


def put_processes(families: Families, domain: str, host: str, processes: Iterable[ProcessState]) -> None:
    """What runs on a host; what is switched off on purpose is left out."""
    for process in families.first(processes, MAX_PROCESSES, "processes"):
        if not process.switched_off:
            families.put("process_up", process.pid is not None, domain, host, process.name)
            families.put("process_restarts_total", process.restarts, domain, host, process.name)
