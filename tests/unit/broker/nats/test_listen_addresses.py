"""Brokers accept the configuration that they are given, for every kind of address."""

from __future__ import annotations

import subprocess
from pathlib import Path

import msgspec
import pytest

from mangrove.broker.nats.configuration.data_broker import data_broker_config
from mangrove.broker.nats.configuration.management_broker import management_broker_config
from mangrove.broker.nats.server import nats_server_binary
from mangrove.model.endpoints import fixed_endpoints
from mangrove.model.federation import Domain, Edge


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "localhost"])
def test_nats_server_accepts_its_configuration(address: str, tmp_path: Path) -> None:
    endpoints = fixed_endpoints(Domain(name="a", base_port=7000, address=address, edges=(Edge(),)))
    (edge,) = endpoints.edges
    texts = {
        "head": data_broker_config(endpoints.head, tmp_path, max_message_bytes=1024, jetstream_domain="a"),
        "edge": data_broker_config(
            edge,
            tmp_path,
            max_message_bytes=1024,
            jetstream_domain="a",
            attach_to=[endpoints.head.leaf_url],
            own_jetstream=False,
        ),
        "management": management_broker_config(endpoints.management, tmp_path),
        "without MQTT": data_broker_config(
            msgspec.structs.replace(endpoints.head, mqtt_port=None),
            tmp_path,
            max_message_bytes=1024,
            jetstream_domain="a",
        ),
    }
    for name, text in texts.items():
        path = tmp_path / "broker.conf"
        path.write_text(text)
        tried = subprocess.run(
            [nats_server_binary(), "-t", "--config", str(path)], capture_output=True, text=True, check=False
        )
        assert tried.returncode == 0, f"{name}: {tried.stderr}"
