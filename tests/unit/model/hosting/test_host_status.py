"""What is said of the hosts of a domain."""

from __future__ import annotations

from mangrove.model.endpoints import fixed_endpoints
from mangrove.model.federation import Domain, Edge, Elastic, Host
from mangrove.model.hosting.host_status import host_statuses, loss_of_a_host
from mangrove.model.hosting.supervision import HostAnswer, HostGreeting, ProcessState


def domain(*hosts: Host, gateways: int = 1) -> Domain:
    return Domain(
        name="oslo",
        base_port=7000,
        edges=(Edge(),),
        hosts=hosts,
        gateways=gateways,
        elastic=Elastic(enabled=True, max_edges=2),
    )


H1 = Host(name="h1", address="10.0.0.1", brokers=("head",))
H2 = Host(name="h2", address="10.0.0.2", brokers=("edge1",))
H3 = Host(name="h3", address="10.0.0.3")


def test_the_cost_of_a_loss() -> None:
    assert loss_of_a_host(domain()) == "one host: everything stops if it is lost"
    two = loss_of_a_host(domain(H1, H2))
    assert two.startswith("2 hosts: control stops while h1 is lost, data goes on")
    assert "other domains are out of reach while h1 is lost" in two
    three = loss_of_a_host(domain(H1, H2, H3, gateways=2))
    assert three == "3 hosts: any one may be lost, control and data go on"


def test_what_does_not_run_is_told_unless_it_is_not_needed() -> None:
    site = domain(H1, H2)
    answer = HostAnswer(
        greeting=HostGreeting(host="h2", digest="d", started_at=0.0),
        processes=(
            ProcessState(name="oslo-edge1", pid=None, switched_off=True),
            ProcessState(name="oslo-edge2", pid=None),
            ProcessState(name="oslo-h2-agent", pid=None, restarts=3),
        ),
    )
    first, second = host_statuses(site, fixed_endpoints(site), {"h2": answer})
    assert (first.answers, first.agent) == (False, "oslo-agent")
    assert first.brokers == ("oslo-head", "oslo-edge2", "oslo-management")
    assert (second.answers, second.agent) == (True, "oslo-h2-agent")
    assert second.down == ("oslo-h2-agent",)
    assert second.switched_off == ("oslo-edge1",)
