"""What clients are told of their domain: no wildcard addresses, no passwords."""

from __future__ import annotations

import msgspec
import pytest

from mangrove.model.agents.directions import Directions, directions_of
from mangrove.model.balancing import Placement
from mangrove.model.endpoints import fixed_endpoints
from mangrove.model.federation import Domain, Edge, External, Federation, Link


def told(address: str, *, listens_at: str = "", external: External | None = None) -> Directions:
    site = Domain(
        name="a",
        base_port=7000,
        address=address,
        edges=(Edge(), Edge()),
        external=external,
        placement=Placement.WAN,
    )
    other = Domain(name="b", base_port=8000)
    link = Link(between=("a", "b"), endpoints={"a": listens_at} if listens_at else {})
    federation = Federation(name="f", domains={"a": site, "b": other}, links=(link,))
    return directions_of(federation, fixed_endpoints(site))


def test_all_brokers_are_told() -> None:
    found = told("10.0.0.7")
    assert (found.federation, found.domain, found.placement) == ("f", "a", "wan")
    assert (found.head.name, found.head.url) == ("a-head", "nats://10.0.0.7:7000")
    assert [edge.url for edge in found.edges] == ["nats://10.0.0.7:7010", "nats://10.0.0.7:7014"]
    assert found.management_url == "nats://10.0.0.7:7004"


@pytest.mark.parametrize("everywhere", ["0.0.0.0", "::"])
def test_an_address_for_neighbours_serves_clients_where_brokers_listen_everywhere(everywhere: str) -> None:
    found = told(everywhere, listens_at="203.0.113.5:9000")
    assert found.head.url == "nats://203.0.113.5:7000"
    assert found.management_url == "nats://203.0.113.5:7004"


@pytest.mark.parametrize("everywhere", ["0.0.0.0", "::"])
def test_without_one_the_client_goes_where_it_has_asked(everywhere: str) -> None:
    found = told(everywhere).seen_from("nats://user:secret@site.example:4222")
    assert found.head.url == "nats://site.example:7000"
    assert [edge.url for edge in found.edges] == ["nats://site.example:7010", "nats://site.example:7014"]
    assert found.management_url == "nats://site.example:7004"
    assert told(everywhere).seen_from("nats://[2001:db8::1]:4222").head.url == "nats://[2001:db8::1]:7000"


def test_an_address_that_is_known_is_not_replaced() -> None:
    found = told("10.0.0.7")
    assert found.seen_from("nats://site.example:4222") == found


def test_the_broker_that_was_asked_keeps_the_clients_password_and_no_other_gets_it() -> None:
    found = told("10.0.0.7").seen_from("nats://user:secret@10.0.0.7:7000")
    assert found.head.url == "nats://user:secret@10.0.0.7:7000"
    assert "secret" not in repr((found.edges, found.management_url))


def test_what_is_no_url_is_left_as_it_is() -> None:
    odd = msgspec.structs.replace(told("10.0.0.7"), management_url="nats://[:99999999")
    assert odd.seen_from("nats://10.0.0.7:7000").management_url == "nats://[:99999999"


def test_passwords_of_external_brokers_are_not_told() -> None:
    external = External(
        head="nats://admin:secret@hub:4222",
        leaf="nats-leaf://admin:secret@hub:7422",
        edges=("nats://u:p@e:1",),
    )
    found = told("10.0.0.7", external=external)
    assert found.head.url == "nats://hub:4222"
    assert found.edges[-1].url == "nats://e:1"
