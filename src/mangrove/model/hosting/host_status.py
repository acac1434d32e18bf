"""The hosts of a domain: what runs there, and what the loss of one would cost."""

from __future__ import annotations

import msgspec

from mangrove.model.agents.names import agent_process
from mangrove.model.endpoints import DomainEndpoints, management_brokers
from mangrove.model.federation import Domain
from mangrove.model.hosting.supervision import HostAnswer


class HostStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One host, as its supervisor describes it, and as the federation file does."""

    host: str
    address: str
    answers: bool
    brokers: tuple[str, ...] = ()
    """Data brokers and management brokers that the file puts there."""
    agent: str = ""
    running: tuple[str, ...] = ()
    """Processes that run."""
    down: tuple[str, ...] = ()
    """Processes that do not, and should."""
    switched_off: tuple[str, ...] = ()
    """Brokers that are not needed."""


def host_statuses(
    domain: Domain, endpoints: DomainEndpoints, answers: dict[str, HostAnswer]
) -> tuple[HostStatus, ...]:
    """All hosts that the file names, with what those who answered said."""
    spares = {spare.name for spare in endpoints.spares}
    found = []
    for position, host in enumerate(domain.hosts):
        brokers = (*endpoints.succession, *endpoints.managements)
        answer = answers.get(host.name)
        processes = () if answer is None else answer.processes
        found.append(
            HostStatus(
                host=host.name,
                address=host.address,
                answers=answer is not None,
                brokers=tuple(each.name for each in brokers if each.machine == host.name),
                agent=agent_process(domain.name, host.name if position else ""),
                running=tuple(each.name for each in processes if each.pid is not None),
                down=tuple(
                    each.name
                    for each in processes
                    if each.pid is None and not each.switched_off and each.name not in spares
                ),
                switched_off=tuple(each.name for each in processes if each.switched_off),
            )
        )
    return tuple(found)


def loss_of_a_host(domain: Domain) -> str:
    """What the loss of one host would cost the domain, in a line."""
    hosts = [host.name for host in domain.all_hosts]
    if len(hosts) == 1:
        return "one host: everything stops if it is lost"
    if management_brokers(len(hosts)) == 1:
        text = f"{len(hosts)} hosts: control stops while {hosts[0]} is lost, data goes on"
    else:
        text = f"{len(hosts)} hosts: any one may be lost, control and data go on"
    if domain.gateways == 1:
        text += f"; other domains are out of reach while {hosts[0]} is lost"
    return text
