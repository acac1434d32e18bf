"""Secured configurations as nats-server itself reads them."""

from __future__ import annotations

import subprocess
from pathlib import Path

from mangrove.agent.hosting.broker_keys import BrokerKeys
from mangrove.agent.hosting.host_brokers import HostBrokers
from mangrove.agent.site import new_system_user
from mangrove.broker.nats.server import nats_server_binary
from mangrove.config import parse_federation
from mangrove.host.keys.making import make_keys
from mangrove.host.run_directory import RunDirectory
from mangrove.model.endpoints import fixed_endpoints

SITE = """
federation: one
domains:
  here:
    edges: 2
    hosts:
      a: {address: 127.0.0.1, brokers: [head]}
      b: {address: 127.0.0.2, brokers: [edge1]}
      c: {address: 127.0.0.3, brokers: [edge2]}
"""


def test_nats_server_takes_all_of_them(tmp_path: Path) -> None:
    federation = parse_federation(SITE, "one").require()
    keys = make_keys(federation, tmp_path / "keys")
    broker_keys = BrokerKeys(str(keys.domain("here").path), federation, "here")
    run = RunDirectory(tmp_path / "run")
    endpoints = fixed_endpoints(federation.domains["here"])
    names: set[str] = set()
    for host in ("a", "b", "c"):
        brokers = HostBrokers(federation, endpoints, host, run, new_system_user(), broker_keys)
        names |= brokers.processes.keys()
    assert len(names) == 6
    for name in names:
        config = run.broker_config(name)
        checked = subprocess.run(
            [nats_server_binary(), "-t", "-c", str(config)], capture_output=True, text=True, check=False
        )
        assert checked.returncode == 0, checked.stderr
        assert config.stat().st_mode & 0o077 == 0
        text = config.read_text()
        assert "password_hash" not in text
        assert ("verify_and_map: true" in text) == ("management" in name)
        assert ('nkey: "SU' in text) == ("edge" in name), "only an edge needs a secret to attach"
