"""Where everything of a domain listens."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mangrove.model.endpoints import fixed_endpoints, port_span
from mangrove.model.federation import Domain, Edge, Elastic, Host


@st.composite
def domains(draw: st.DrawFn) -> Domain:
    edges = draw(st.integers(0, 5))
    names = ["head", *(f"edge{number + 1}" for number in range(edges))]
    count = draw(st.integers(0, 4))
    placed: list[list[str]] = [[] for _ in range(count)]
    if count:
        for name in names:
            placed[draw(st.integers(0, count - 1))].append(name)
    hosts = tuple(
        Host(
            name=f"h{number}", address=draw(st.sampled_from(["127.0.0.1", "127.0.0.2"])), brokers=tuple(held)
        )
        for number, held in enumerate(placed)
    )
    return Domain(
        name="oslo",
        base_port=7000,
        edges=(Edge(),) * edges,
        hosts=hosts,
        gateways=draw(st.integers(1, 2)),
        elastic=Elastic(enabled=draw(st.booleans()), max_edges=draw(st.integers(0, 7))),
    )


@given(domains())
def test_no_two_things_share_a_port_and_all_are_in_the_span(domain: Domain) -> None:
    endpoints = fixed_endpoints(domain)
    ports = [address.port for address in endpoints.gateways]
    for broker in (*endpoints.brokers(), *endpoints.spares):
        offered = (
            broker.client_port,
            broker.monitor_port,
            broker.mqtt_port,
            broker.leaf_port,
            broker.route_port,
        )
        ports += [port for port in offered if port is not None]
    assert len(ports) == len(set(ports))
    end = domain.base_port + port_span(domain.edge_slots, len(domain.all_hosts))
    assert all(domain.base_port <= port < end for port in ports)


@given(domains())
def test_each_broker_is_where_its_host_is(domain: Domain) -> None:
    endpoints = fixed_endpoints(domain)
    places = {host.name: host for host in domain.all_hosts}
    for broker in (*endpoints.brokers(), *endpoints.spares):
        assert broker.host == places[broker.machine].address
    for broker in endpoints.succession:
        assert broker.name.removeprefix("oslo-") in places[broker.machine].brokers
    assert len(endpoints.managements) == (3 if len(domain.hosts) >= 3 else 1)
    assert [broker.machine for broker in endpoints.managements] == [
        host.name for host in domain.all_hosts[: len(endpoints.managements)]
    ]


def test_every_data_broker_can_be_attached_to_and_the_first_ports_stay() -> None:
    endpoints = fixed_endpoints(Domain(name="oslo", base_port=7000, edges=(Edge(), Edge())))
    assert [broker.leaf_port for broker in endpoints.succession] == [7003, 7013, 7017]
    assert (endpoints.head.client_port, endpoints.management.client_port) == (7000, 7004)
    assert (endpoints.gateway.port, endpoints.edges[0].client_port) == (7006, 7010)
    assert endpoints.management.route_port is None
    assert {broker.machine for broker in endpoints.brokers()} == {""}


def test_two_gateways_are_on_two_hosts_where_there_are_two() -> None:
    hosts = (Host(name="a", address="10.0.0.1", brokers=("head",)), Host(name="b", address="10.0.0.2"))
    pair = fixed_endpoints(Domain(name="oslo", base_port=7000, hosts=hosts, gateways=2))
    assert [str(gateway) for gateway in pair.gateways] == ["10.0.0.1:7006", "10.0.0.2:7007"]
    alone = fixed_endpoints(Domain(name="oslo", base_port=7000, gateways=2))
    assert [str(gateway) for gateway in alone.gateways] == ["127.0.0.1:7006", "127.0.0.1:7007"]


def test_edges_that_may_be_added_come_last_and_on_the_emptiest_hosts() -> None:
    hosts = (
        Host(name="a", address="10.0.0.1", brokers=("head", "edge1")),
        Host(name="b", address="10.0.0.2", brokers=("edge2",)),
    )
    domain = Domain(
        name="oslo",
        base_port=7000,
        edges=(Edge(), Edge()),
        hosts=hosts,
        elastic=Elastic(enabled=True, max_edges=4),
    )
    endpoints = fixed_endpoints(domain)
    assert [(spare.name, spare.machine) for spare in endpoints.spares] == [
        ("oslo-edge3", "b"),
        ("oslo-edge4", "a"),
    ]
    assert endpoints.succession[-2:] == endpoints.spares
