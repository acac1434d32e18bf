"""Hosts, gateways, elastic sites and plans in the federation file."""

from __future__ import annotations

from pathlib import Path

import pytest

from mangrove.config import parse_federation
from mangrove.model.federation import Elastic, Host
from mangrove.model.plans.rules import PlanPolicy, PlanRules

SITE = """
federation: f
domains:
  oslo:
    edges: 2
    gateways: 2
    elastic: {max_edges: 4}
    hosts:
      h1: {address: 10.0.0.1, brokers: [head, edge1]}
      h2: {address: 10.0.0.2, brokers: [edge2]}
      h3: {address: 10.0.0.3}
plans: {policy: propose, directory: made, window: ["22:00-05:30"], moves_at_once: 3, max_age_h: 12}
"""


def found(domain: str) -> list[str]:
    reading = parse_federation(f"federation: f\ndomains: {{a: {domain}}}\n", "f")
    return [f"{mistake.path}: {mistake.problem}" for mistake in reading.mistakes]


def test_what_the_file_says_is_in_the_model() -> None:
    federation = parse_federation(SITE, "f", Path("/etc/sites")).require()
    oslo = federation.domains["oslo"]
    assert oslo.hosts == (
        Host(name="h1", address="10.0.0.1", brokers=("head", "edge1")),
        Host(name="h2", address="10.0.0.2", brokers=("edge2",)),
        Host(name="h3", address="10.0.0.3"),
    )
    assert (oslo.gateways, oslo.elastic) == (2, Elastic(enabled=True, max_edges=4))
    assert federation.plans == PlanRules(
        policy=PlanPolicy.PROPOSE,
        directory="/etc/sites/made",
        window=("22:00-05:30",),
        moves_at_once=3,
        max_age_s=12 * 3600,
    )


def test_nothing_said_means_one_host_and_plans_by_hand() -> None:
    federation = parse_federation("federation: f\ndomains: {a: {edges: 1}}\n", "f").require()
    domain = federation.domains["a"]
    assert (domain.hosts, domain.gateways, domain.elastic) == ((), 1, Elastic())
    assert domain.all_hosts == (Host(name="", address="127.0.0.1", brokers=("head", "edge1")),)
    assert federation.plans == PlanRules()


def test_elastic_alone_switches_brokers_off_and_adds_none() -> None:
    federation = parse_federation("federation: f\ndomains: {a: {edges: 1, elastic: true}}\n", "f").require()
    assert federation.domains["a"].elastic == Elastic(enabled=True)
    assert federation.domains["a"].edge_slots == 1


@pytest.mark.parametrize(
    ("domain", "expected"),
    [
        ("{hosts: {h: {address: 10.0.0.1}}}", "domains.a.hosts: no host runs head"),
        (
            "{edges: 2, hosts: {h: {address: 10.0.0.1, brokers: [head]}}}",
            "domains.a.hosts: no host runs edge1, edge2",
        ),
        (
            "{hosts: {h: {address: 10.0.0.1, brokers: [head, edge1]}}}",
            "domains.a.hosts.h.brokers[1]: there is no broker 'edge1' of ours",
        ),
        (
            "{hosts: {h: {address: x, brokers: [head]}, k: {address: y, brokers: [head]}}}",
            "domains.a.hosts.k.brokers[0]: head runs at hosts.h already",
        ),
        (
            "{external: {head: 'nats://x:1'}, hosts: {h: {address: x, brokers: [head]}}}",
            "domains.a.hosts.h.brokers[0]: there is no broker 'head' of ours",
        ),
        (
            "{hosts: {h: {address: 0.0.0.0, brokers: [head]}, k: {address: y}}}",
            "domains.a.hosts.h.address: found '0.0.0.0': the other hosts could not reach it",
        ),
        (
            "{address: x, hosts: {h: {address: x, brokers: [head]}}}",
            "domains.a.address: the hosts have addresses of their own",
        ),
        ("{hosts: {h: {brokers: [head]}}}", "domains.a.hosts.h.address: is missing"),
        ("{hosts: {'h 1': {address: x, brokers: [head]}}}", "domains.a.hosts.h 1: found 'h 1'"),
        ("{hosts: {h: {address: x, brokers: [head], ram: 2}}}", "domains.a.hosts.h.ram: unknown key"),
        ("{hosts: {h: {address: x, brokers: [[head]]}}}", "domains.a.hosts.h.brokers[0]: found ['head']"),
        ("{hosts: 3}", "domains.a.hosts: found 3"),
        ("{gateways: 3}", "domains.a.gateways: found 3"),
        ("{gateways: 0}", "domains.a.gateways: found 0"),
        ("{elastic: maybe}", "domains.a.elastic: found 'maybe'"),
        ("{edges: 3, elastic: {max_edges: 2}}", "domains.a.elastic.max_edges: found 2"),
        ("{elastic: {max_edges: 65}}", "domains.a.elastic.max_edges: found 65"),
    ],
)
def test_mistakes_have_their_place(domain: str, expected: str) -> None:
    told = found(domain)
    assert any(mistake.startswith(expected) for mistake in told), told


@pytest.mark.parametrize(
    ("plans", "expected"),
    [
        ("{policy: always}", "plans.policy"),
        ("{window: ['24:00-05:00']}", "plans.window[0]"),
        ("{window: [night]}", "plans.window[0]"),
        ("{moves_at_once: 0}", "plans.moves_at_once"),
        ("{max_age_h: .nan}", "plans.max_age_h"),
        ("{max_age_h: -1}", "plans.max_age_h"),
        ("{folder: x}", "plans.folder"),
    ],
)
def test_mistakes_in_plans(plans: str, expected: str) -> None:
    reading = parse_federation(f"federation: f\ndomains: {{a: {{}}}}\nplans: {plans}\n", "f")
    assert [mistake.path for mistake in reading.mistakes] == [expected]


def test_all_mistakes_are_told_at_once() -> None:
    told = found("{edges: 1, gateways: 9, hosts: {h: {address: x, brokers: [edge7]}}}")
    assert len(told) == 3


def test_two_hosts_may_share_an_address_and_two_domains_their_hosts_if_ports_differ() -> None:
    hosts = "{h: {address: 10.0.0.1, brokers: [head]}, k: {address: 10.0.0.1}}"
    assert found(f"{{hosts: {hosts}}}") == []
    text = "federation: f\ndomains: {{a: {{hosts: {0}}}, b: {{base_port: {1}, hosts: {0}}}}}\n"
    assert parse_federation(text.format(hosts, 7100), "f").mistakes == ()
    (mistake,) = parse_federation(text.format(hosts, 7009), "f").mistakes
    assert mistake.path == "domains.b.base_port"
    assert "on 10.0.0.1 overlap with those of domains.a.base_port" in mistake.problem
