"""The federation file: defaults, and every mistake reported with its place, all at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from mangrove.config import load_federation, parse_federation
from mangrove.errors import InputError, InvalidDocumentError
from mangrove.model.broker_kinds import BrokerKind
from mangrove.model.endpoints import fixed_endpoints
from mangrove.model.topics import Late, Scope


def mistakes(text: str) -> list[str]:
    return [str(mistake) for mistake in parse_federation(text, "test.yaml").mistakes]


def test_three_lines_are_enough() -> None:
    federation = parse_federation("federation: tiny\ndomains:\n  here:\n", "tiny.yaml").require()
    assert federation.name == "tiny"
    assert federation.domains["here"].edges == ()
    assert fixed_endpoints(federation.domains["here"]).head.client_port == 7000


def test_the_example_of_the_documentation() -> None:
    federation = parse_federation(
        """
federation: pacific
domains:
  seattle:  {location: [47.61, -122.33], edges: 2}
  denver:   {location: [39.74, -104.99], edges: [{capacity: 5000}, {capacity: 8000}], address: 10.0.0.2}
links:
  - between: [seattle, denver]
    delay_ms: 15
    bandwidth_mbps: 1000
    endpoints: {seattle: "10.1.0.1:9000", denver: "10.1.0.2:9000"}
topics:
  - {match: "alert.>",  deadline_ms: 150, paths: 2, separation_km: 300, mirror: true, late: drop}
  - {match: "plant.>",  scope: domain}
""",
        "pacific.yaml",
    ).require()
    assert [edge.capacity for edge in federation.domains["denver"].edges] == [5000, 8000]
    assert federation.links[0].endpoints["denver"] == "10.1.0.2:9000"
    assert federation.topics.contracts[0].late is Late.DROP
    assert federation.topics.contracts[1].scope is Scope.DOMAIN
    assert federation.domains["denver"].base_port != federation.domains["seattle"].base_port


def test_all_mistakes_are_reported_at_once() -> None:
    found = mistakes(
        """
federation: bad name!
domains:
  seattle: {location: [147.61, -122.33], colour: red}
  denver: {edges: 2}
  denver: {edges: 3}
links:
  - {between: [seattle, denver], delay_ms: -1}
  - {between: [seattle, tokyo]}
topics:
  - {match: "alert..x"}
surprise: 1
"""
    )
    text = "\n".join(found)
    for expected in (
        "federation: found 'bad name!'",
        "domains.seattle.location[0]: found 147.61",
        "domains.seattle.colour: unknown key (allowed: location,",
        "line 6: 'denver' stands here again; it was first at line 5",
        "links[0].delay_ms: found -1",
        "links[1].between[1]: there is no domain 'tokyo' (allowed: seattle, denver)",
        "topics[0].match: found 'alert..x': not a valid subject",
        "surprise: unknown key",
    ):
        assert expected in text
    assert len(found) == 8


@pytest.mark.parametrize(
    ("fragment", "expected"),
    [
        ("links: [{between: [a, a]}]", "links 'a' with itself"),
        ("links: [{between: [a, b]}, {between: [b, a]}]", "are linked already by links[0]"),
        ("links: [{between: [a, b], endpoints: {c: 'x:1'}}]", "is not an end of this link"),
        ("links: [{between: [a, b], endpoints: {a: 'nowhere'}}]", "host:port is expected"),
        ("links: [{between: [a, b], loss_ratio: 1.0}]", "links[0].loss_ratio: found 1.0"),
        ("links: [{between: [a]}]", "links[0].between"),
        ("links: {}", "links: found {}"),
        ("topics: [{match: '$SYS.>'}]", "belong to the brokers"),
        ("topics: [{match: a, paths: 0}]", "topics[0].paths: found 0"),
        ("topics: [{match: a, late: never}]", "topics[0].late: found 'never' (allowed: 'deliver' or 'drop')"),
        ("topics: [{deadline_ms: 5}]", "topics[0].match: is missing"),
        ("topics: [{match: a, deadline_ms: .nan}]", "topics[0].deadline_ms: found nan"),
        ("max_message_bytes: 99999999999", "max_message_bytes: found"),
    ],
)
def test_single_mistakes(fragment: str, expected: str) -> None:
    found = mistakes(f"federation: f\ndomains: {{a: {{}}, b: {{}}}}\n{fragment}\n")
    assert any(expected in mistake for mistake in found), found


@pytest.mark.parametrize(
    ("domain", "expected"),
    [
        ("{base_port: 7005}", "overlap with those of domains.a.base_port (7000 to 7009)"),
        ("{base_port: 70000}", "domains.b.base_port: found 70000"),
        ("{base_port: 65000, edges: 64}", None),
        ("{edges: -1}", "domains.b.edges: found -1"),
        ("{edges: many}", "domains.b.edges"),
        (
            "{external: {head: 'http://x'}}",
            "nats://host:port, amqp://host:port, amqps://host:port is expected",
        ),
        ("{external: {}}", "domains.b.external.head: is missing"),
        ("{edges: 1, external: {head: 'nats://x:1', edges: ['nats://y:1']}}", "not both"),
        ("{address: 'not a host'}", "an IP address or a host name is expected"),
        ("[1, 2]", "domains.b"),
    ],
)
def test_mistakes_in_domains(domain: str, expected: str | None) -> None:
    found = mistakes(f"federation: f\ndomains: {{a: {{}}, b: {domain}}}\n")
    if expected is None:
        assert found == []
    else:
        assert any(expected in mistake for mistake in found), found


def test_link_endpoints_may_not_collide() -> None:
    found = mistakes(
        "federation: f\ndomains: {a: {}, b: {}}\n"
        "links: [{between: [a, b], endpoints: {a: '127.0.0.1:7006', b: '127.0.0.2:7006'}}]\n"
    )
    assert len(found) == 1
    assert "links[0].endpoints.a: ports 7006 to 7006 on 127.0.0.1 overlap" in found[0]


@pytest.mark.parametrize("text", ["", "- just\n- a list\n", "a: b: c", "\t", "federation: f\ndomains: {}\n"])
def test_hopeless_files(text: str) -> None:
    assert mistakes(text)


def test_a_missing_file_names_its_path(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nothing\.yaml"):
        load_federation(tmp_path / "nothing.yaml")


def test_the_error_carries_the_mistakes(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_text("federation: f\n")
    with pytest.raises(InvalidDocumentError) as caught:
        load_federation(path)
    assert [mistake.path for mistake in caught.value.mistakes] == ["domains"]
    assert caught.value.exit_code == 2
    assert "has 1 mistake:" in caught.value.message


def test_external_brokers_default_to_the_usual_leaf_port() -> None:
    text = "federation: f\ndomains: {a: {external: {head: 'nats://u:p@broker.example:4222'}}}\n"
    reading = parse_federation(text, "f.yaml")
    assert {path: url for path, (url, _) in reading.external_heads.items()} == {
        "domains.a.external.head": "nats-leaf://u:p@broker.example:7422",
    }
    head = fixed_endpoints(reading.require().domains["a"]).head
    assert (head.external, head.leaf_port, head.client_url) == (True, 7422, "nats://u:p@broker.example:4222")


def test_external_brokers_are_of_a_known_kind() -> None:
    text = "federation: f\ndomains: {a: {external: {kind: %s, head: 'nats://broker.example:4222'}}}\n"
    federation = parse_federation(text % "nats", "f.yaml").require()
    assert federation.domains["a"].external is not None
    assert federation.domains["a"].external.kind is BrokerKind.NATS
    assert fixed_endpoints(federation.domains["a"]).head.kind is BrokerKind.NATS
    unknown = parse_federation(text % "carrier-pigeon", "f.yaml")
    assert [(mistake.path, mistake.allowed) for mistake in unknown.mistakes] == [
        ("domains.a.external.kind", "'nats' or 'rabbitmq'")
    ]
    assert unknown.external_heads == {}, "nobody knows how to look whether it can be reached"


def test_topology_hash_depends_on_what_gateways_must_agree_on() -> None:
    base = "federation: f\ndomains: {a: {}, b: {}}\nlinks: [{between: [a, b]}]\n"
    one = parse_federation(base, "").require().topology_hash()
    assert parse_federation(base + "queue_bytes: 1000000\n", "").require().topology_hash() == one
    swapped = base.replace("{a: {}, b: {}}", "{b: {}, a: {}}").replace("[a, b]", "[b, a]")
    assert parse_federation(swapped, "").require().topology_hash() == one
    assert parse_federation(base + "topics: [{match: x}]\n", "").require().topology_hash() != one
    twice = base.replace("a: {}", "a: {gateways: 2}")
    assert parse_federation(twice, "").require().topology_hash() != one, "neighbours call both"


def test_limits_are_configurable_and_checked() -> None:
    base = "federation: x\ndomains: {a: {}}\n"
    assert parse_federation(base, "").require().limits.subjects == 1_000_000
    assert parse_federation(base + "limits: {subjects: 5}\n", "").require().limits.subjects == 5
    assert any("limits.subjects" in mistake for mistake in mistakes(base + "limits: {subjects: 0}\n"))
    assert any("limits.messages" in mistake for mistake in mistakes(base + "limits: {messages: 1}\n"))


@pytest.mark.parametrize(
    ("text", "mode", "keys"),
    [
        ("", "keys", ""),
        ("security: none", "none", ""),
        ("security: keys", "keys", ""),
        ("security: {keys: secret/ring}", "keys", str(Path("here/secret/ring").absolute())),
        ("security: {keys: /etc/mangrove}", "keys", "/etc/mangrove"),
        ("security: {mode: keys}", "keys", ""),
    ],
)
def test_security_is_asked_for_in_few_words(text: str, mode: str, keys: str) -> None:
    reading = parse_federation(f"federation: f\ndomains: {{a: {{}}}}\n{text}\n", "f", Path("here"))
    security = reading.require().security
    assert (security.mode.value, security.keys, security.secured) == (mode, keys, mode == "keys")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("security: tls", "security.mode: found 'tls' (allowed: 'keys' or 'none')"),
        ("security: true", "security: found True"),
        ("security: {keys: 1}", "security.keys: found 1"),
        ("security: {key: x}", "security.key: unknown key (allowed: mode, keys)"),
        ("security: {mode: none, keys: x}", "security: keys are named, and none are to be used"),
    ],
)
def test_mistakes_about_security(text: str, expected: str) -> None:
    found = mistakes(f"federation: f\ndomains: {{a: {{}}}}\n{text}\n")
    assert [mistake for mistake in found if expected in mistake], found


def test_hosts_agree_on_security_and_not_on_where_keys_are() -> None:
    def digest(security: str) -> str:
        return (
            parse_federation(f"federation: f\ndomains: {{a: {{}}}}\nsecurity: {security}\n", "f")
            .require()
            .digest()
        )

    assert digest("{keys: x}") == digest("{keys: y}") == digest("keys") != digest("none")


def test_a_topic_name_of_a_megabyte_is_refused_in_a_few_lines() -> None:
    with pytest.raises(InvalidDocumentError) as caught:
        parse_federation(
            f"federation: f\ndomains: {{a: {{}}}}\ntopics: [{{match: {'m' * 2**20}}}]", "f"
        ).require()
    assert "longer than 1024 bytes" in caught.value.message
    assert len(caught.value.message) < 1_000
