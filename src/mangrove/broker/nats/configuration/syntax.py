"""The language of nats-server's configuration files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from mangrove.host.run_directory import RunDirectory
from mangrove.model.address import Address
from mangrove.model.endpoints import BrokerEndpoints

LOG_SIZE = "32MB"


def quoted(value: object) -> str:
    """A value as a string, whatever characters it has."""
    text = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def listing(values: Iterable[object]) -> str:
    """Values as a list of strings."""
    return f"[ {', '.join(map(quoted, values))} ]"


def listen(host: str, port: int) -> str:
    """An address to listen at."""
    return quoted(Address(host, port))


def common(endpoints: BrokerEndpoints, directory: Path, max_message_bytes: int) -> str:
    """What all brokers have: a name, a listener for clients, a log, and pages to be looked at."""
    lines = [
        f"server_name: {quoted(endpoints.name)}",
        f"listen: {listen(endpoints.host, endpoints.client_port)}",
        f"max_payload: {max_message_bytes}",
        f"log_file: {quoted(RunDirectory(directory).log(endpoints.name))}",
        f"logfile_size_limit: {LOG_SIZE}",
        "logfile_max_num: 3",
    ]
    if endpoints.monitor_port is not None:
        lines.append(f"http: {listen(endpoints.monitor_host or endpoints.host, endpoints.monitor_port)}")
    return "\n".join(lines)
