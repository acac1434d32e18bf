"""Every process of a domain has a port of its own to tell of its health, and with keys only at home."""

from __future__ import annotations

from msgspec.structs import replace

from mangrove.config import parse_federation
from mangrove.model.hosting.health_ports import HealthPort, health_address

HOSTS = """
federation: f
domains:
  here:
    edges: 1
    health_port: 9100
    hosts:
      h1: {address: 10.0.0.1, brokers: [head]}
      h2: {address: 10.0.0.2, brokers: [edge1]}
"""


def test_all_ports_differ_and_stay_at_home_with_keys() -> None:
    domain = parse_federation(HOSTS, "f").require().domains["here"]
    open_to_all = [
        health_address(domain, h, which, secured=False) for h in ("h1", "h2") for which in HealthPort
    ]
    assert [str(each) for each in open_to_all] == [
        *(f"10.0.0.1:{9100 + n}" for n in range(5)),
        *(f"10.0.0.2:{9105 + n}" for n in range(5)),
    ]
    at_home = health_address(domain, "h2", HealthPort.AGENT, secured=True)
    assert str(at_home) == "127.0.0.1:9108"
    assert health_address(domain, "h3", HealthPort.AGENT, secured=True) is None
    assert health_address(replace(domain, health_port=None), "h1", HealthPort.HOST, secured=False) is None


def test_ports_that_are_taken_are_a_mistake() -> None:
    text = HOSTS.replace("health_port: 9100", "health_port: 7005")
    (mistake, *_) = parse_federation(text, "f").mistakes
    assert "domains.here.health_port" in mistake.path
    assert "overlap" in mistake.problem
