"""How load is judged and moved, as the federation file has it; what cannot be is refused with its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mangrove.config import load_federation, parse_federation
from mangrove.model.balancing import Balancing

FEDERATION = """
federation: four
domains:
  a: {{head: {{capacity: 900}}, edges: [{{capacity: 500, bandwidth_mbps: 10}}, {{}}], {domain}}}
  b: {{edges: 2, accept_load_from: [a]}}
  c: {{}}
links: [{{between: [b, a]}}, {{between: [b, c]}}]
{top}
"""


def mistakes(*, top: str = "", domain: str = "") -> list[str]:
    return [
        str(mistake) for mistake in parse_federation(FEDERATION.format(top=top, domain=domain), "x").mistakes
    ]


def test_what_is_left_out_has_the_published_values() -> None:
    federation = parse_federation(FEDERATION.format(top="", domain="placement: wan"), "x").require()
    assert federation.balancing == Balancing()
    assert (federation.balancing.low, federation.balancing.high) == (0.90, 0.95)
    assert federation.domains["b"].accept_load_from == ("a",)
    assert federation.domains["a"].placement == "wan"


@pytest.mark.parametrize("method", ["drd", "drd-optimal", "peer", "peer-drd"])
@pytest.mark.parametrize("distribution", ["headroom", "round-robin", "least-connections", "random"])
def test_known_names_are_taken(method: str, distribution: str) -> None:
    text = FEDERATION.format(top=f"balancing: {{method: {method}, distribution: {distribution}}}", domain="")
    balancing = parse_federation(text, "x").require().balancing
    assert (balancing.method, balancing.distribution) == (method, distribution)


@pytest.mark.parametrize(
    ("balancing", "mistake"),
    [
        ("{low: 0.95}", "balancing.low: low is 0.95 and high is 0.95 (allowed: a low below high)"),
        ("{low: 0.8, high: 0.7}", "balancing.low: low is 0.8 and high is 0.7"),
        ("{high: 0.9}", "balancing.high: low is 0.9 and high is 0.9"),
        ("{ceiling: 0.96}", "balancing.ceiling: found 0.96 (allowed: up to high, which is 0.95)"),
        (
            "{target: 0.9, high: 0.8, low: 0.7}",
            "balancing.target: found 0.9 (allowed: up to high, which is 0.8)",
        ),
        ("{method: best}", "balancing.method: found 'best' (allowed: drd, drd-optimal, peer, peer-drd)"),
        (
            "{distribution: any}",
            "balancing.distribution: found 'any' (allowed: headroom, round-robin, least-connections, random)",
        ),
        ("{high: 0}", "balancing.high: found 0"),
        ("{high: .nan}", "balancing.high: found nan"),
        ("{period: 1}", "balancing.period: unknown key"),
        ("{window: 0}", "balancing.window: found 0"),
    ],
)
def test_thresholds_and_names_that_cannot_be(balancing: str, mistake: str) -> None:
    assert any(each.startswith(mistake) for each in mistakes(top=f"balancing: {balancing}"))


@pytest.mark.parametrize(
    ("accepted", "mistake"),
    [
        ("[z]", "domains.a.accept_load_from[0]: there is no domain 'z' (allowed: b, c)"),
        ("[b, a]", "domains.a.accept_load_from[1]: is the domain itself"),
        ("[c]", "domains.a.accept_load_from[0]: no link joins a and c"),
        ("[b, b]", "domains.a.accept_load_from[1]: b is named twice"),
    ],
)
def test_load_is_accepted_from_linked_domains_alone(accepted: str, mistake: str) -> None:
    (found,) = mistakes(domain=f"accept_load_from: {accepted}")
    assert found.startswith(mistake)


@pytest.mark.parametrize("value", ["0", "-5", "0.0"])
def test_a_capacity_of_nothing_is_refused(value: str) -> None:
    broker = f"head: {{bandwidth_mbps: {value}}}, edges: [{{capacity: {value}}}]"
    text = f"federation: x\ndomains: {{a: {{{broker}}}}}"
    found = [str(mistake) for mistake in parse_federation(text, "x").mistakes]
    assert [each.partition(":")[0] for each in found] == [
        "domains.a.head.bandwidth_mbps",
        "domains.a.edges[0].capacity",
    ]
    assert all("is above 0; leave it out if it is not known" in each for each in found)


def written(directory: Path, model: object) -> Path:
    (directory / "model.json").write_text(model if isinstance(model, str) else json.dumps(model))
    path = directory / "four.yaml"
    path.write_text(FEDERATION.format(top="calibration: model.json", domain=""))
    return path


@pytest.mark.parametrize("typed", [True, False])
def test_calibrated_capacity_is_taken_where_a_broker_states_none(tmp_path: Path, typed: bool) -> None:
    model = {"t_rcv": 1.5e-5, "t_fltr": 1e-8, "t_tx": 5e-6}
    federation = load_federation(
        written(tmp_path, {"models": {"nats-server-2.12": model}} if typed else model)
    )
    a, b = federation.domains["a"], federation.domains["b"]
    assert a.head.capacity == 900
    assert [edge.capacity for edge in a.edges] == [500, pytest.approx(50_000)]
    assert a.edges[0].bandwidth_mbps == 10
    assert [broker.capacity for broker in (b.head, *b.edges)] == [pytest.approx(50_000)] * 3


@pytest.mark.parametrize(
    ("model", "mistake"),
    [
        ("{", "is not JSON"),
        ([], "is not a broker model"),
        ({"t_rcv": 1e-5, "t_tx": 1e-5}, "is not a broker model"),
        ({"t_rcv": -1e-5, "t_fltr": 0, "t_tx": 1e-5}, "is not a broker model"),
        ({"t_rcv": "1", "t_fltr": 0, "t_tx": 1e-5}, "is not a broker model"),
        ('{"t_rcv": NaN, "t_fltr": 0, "t_tx": 1}', "is not a broker model"),
        ({"t_rcv": 0, "t_fltr": 1, "t_tx": 0}, "has no time for receiving and sending"),
        ({"models": {"one": {}, "two": {}}}, "has models of 2 broker types"),
        ({"models": {}}, "has models of 0 broker types"),
    ],
)
def test_a_calibration_that_says_nothing_is_refused(tmp_path: Path, model: object, mistake: str) -> None:
    reading = parse_federation(written(tmp_path, model).read_text(), "x", tmp_path)
    assert len(reading.mistakes) == 1
    assert str(reading.mistakes[0]).startswith("calibration: ")
    assert mistake in str(reading.mistakes[0])


def test_a_calibration_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, {})
    (tmp_path / "model.json").unlink()
    (found,) = parse_federation(path.read_text(), "x", tmp_path).mistakes
    assert "cannot read" in str(found)
    assert "model.json" in str(found)


def test_only_a_domain_whose_clients_somebody_takes_leads_them_elsewhere() -> None:
    text = FEDERATION.format(top="", domain="steer: true")
    assert parse_federation(text, "x").require().domains["a"].steer
    (found,) = parse_federation(text.replace("accept_load_from: [a]", ""), "x").mistakes
    assert str(found) == (
        "domains.a.steer: no other domain takes clients from this one "
        "(allowed: a in `accept_load_from` of a linked domain, or `steer: false`)"
    )
