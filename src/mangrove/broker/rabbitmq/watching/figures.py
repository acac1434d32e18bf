"""What a RabbitMQ of ours counts: its page for Prometheus, which its own machine sees without a login."""

from __future__ import annotations

import re
from collections import Counter

import msgspec

from mangrove.broker.pages import PageTooLargeError, fetch, port_answers
from mangrove.model.endpoints import BrokerEndpoints
from mangrove.model.hosting.broker_status import BrokerFigures, BrokerStatus

_SAMPLE = re.compile(r"^(?P<name>[a-z_]+)(?:\{(?P<labels>[^}]*)\})? (?P<value>\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


class RabbitFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Some of the page."""

    node: str
    version: str
    started: str
    figures: BrokerFigures


async def broker_figures(broker: BrokerEndpoints, timeout_s: float = 2.0) -> RabbitFigures | None:
    """The page of a broker of ours; None if it does not answer, or somebody else does in its place."""
    if broker.external or broker.monitor_url is None:
        return None
    try:
        page = await fetch(f"{broker.monitor_url}/metrics", timeout_s=timeout_s)
        found = None if page is None else read_page(page.decode())
    except (PageTooLargeError, ValueError):
        return None
    return found if found is not None and found.node == node_name(broker.name) else None


def node_name(broker: str) -> str:
    """What Erlang calls a broker of ours."""
    return f"{broker}@localhost"


def read_page(text: str) -> RabbitFigures:
    """Read the page; a figure that is not there is zero. ValueError if a number is none."""
    sums: Counter[str] = Counter()
    labels: dict[str, str] = {}
    for sample in _SAMPLE.finditer(text):
        sums[sample["name"]] += float(sample["value"])  # type: ignore[assignment]
        if sample["name"] in ("rabbitmq_build_info", "rabbitmq_identity_info"):
            labels |= dict(_LABEL.findall(sample["labels"] or ""))
    figures = BrokerFigures(
        version=labels.get("rabbitmq_version", ""),
        uptime=_duration(sums["rabbitmq_erlang_uptime_seconds"]),
        connections=int(sums["rabbitmq_connections"]),
        subscriptions=int(sums["rabbitmq_consumers"]),
        messages_in=int(sums["rabbitmq_global_messages_received_total"]),
        messages_out=int(sums["rabbitmq_global_messages_delivered_total"]),
        bytes_in=int(sums["erlang_vm_statistics_bytes_received_total"]),
        bytes_out=int(sums["erlang_vm_statistics_bytes_output_total"]),
        memory_bytes=int(sums["rabbitmq_process_resident_memory_bytes"]),
    )
    return RabbitFigures(
        node=labels.get("rabbitmq_node", ""),
        version=figures.version,
        started=f"{sums['process_start_time_seconds']:.0f}",
        figures=figures,
    )


async def broker_status(broker: BrokerEndpoints, role: str) -> BrokerStatus:
    """A broker's account of itself; of somebody else's, whether its port answers."""
    known = BrokerStatus(
        name=broker.name,
        role=role,
        url=broker.client_url,
        mqtt=str(broker.mqtt_address or ""),
        reachable=False,
    )
    if broker.external:
        answers = await port_answers(broker.host, broker.client_port)
        return msgspec.structs.replace(known, reachable=answers)
    found = await broker_figures(broker)
    if found is None:
        return known
    return msgspec.structs.replace(known, reachable=True, **msgspec.structs.asdict(found.figures))


def _duration(seconds: float) -> str:
    """As nats-server writes it."""
    rest, text = int(seconds), ""
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if rest >= length or text:
            text += f"{rest // length}{unit}"
            rest %= length
    return f"{text}{rest}s"
