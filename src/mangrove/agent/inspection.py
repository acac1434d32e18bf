"""Looks at a running federation: brokers by their monitoring pages, gateways by the management broker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

import msgspec

from mangrove.agent.management import ManagementConnection
from mangrove.broker.kinds import kind_of
from mangrove.broker.nats.leaf_subscriptions import gateway_subscriptions
from mangrove.model.audit.entry import AuditHead
from mangrove.model.broker_kinds import BrokerKind
from mangrove.model.contract_warnings import federation_warnings
from mangrove.model.endpoints import BrokerEndpoints, DomainEndpoints, Runtime
from mangrove.model.federation import Federation
from mangrove.model.hosting.broker_status import BrokerStatus
from mangrove.model.hosting.host_status import host_statuses, loss_of_a_host
from mangrove.model.status import DomainStatus, FederationStatus, GatewayStatus


async def inspect(runtime: Runtime) -> FederationStatus:
    """The state of all domains, asked side by side."""
    domains = await asyncio.gather(*(_inspect_alone(runtime, domain) for domain in runtime.domains.values()))
    return federation_status(runtime.federation, domains)


def federation_status(federation: Federation, domains: Sequence[DomainStatus]) -> FederationStatus:
    """All domains as a whole, with what the file and the gateways warn of."""
    return FederationStatus(
        federation=federation.name,
        domains=tuple(domains),
        warnings=(*federation_warnings(federation), *_warnings(domains)),
    )


async def _inspect_alone(runtime: Runtime, endpoints: DomainEndpoints) -> DomainStatus:
    async with ManagementConnection(endpoints) as management:
        return await inspect_with_hosts(runtime, endpoints, management)


async def inspect_with_hosts(
    runtime: Runtime, endpoints: DomainEndpoints, management: ManagementConnection
) -> DomainStatus:
    """One domain, what runs on each of its hosts, and what the loss of one would cost."""
    domain = runtime.federation.domains[endpoints.domain]
    found, answers = await asyncio.gather(
        inspect_domain(endpoints, management, agent_expected=runtime.agents),
        management.hosts(len(domain.hosts)),
    )
    return msgspec.structs.replace(
        found,
        hosts=host_statuses(domain, endpoints, {answer.greeting.host: answer for answer in answers}),
        loss_of_a_host=loss_of_a_host(domain),
    )


def _warnings(domains: Iterable[DomainStatus]) -> dict[str, None]:
    """What the gateways warn of; what several see is told once."""
    return {
        warning: None
        for domain in domains
        if domain.gateway is not None
        for warning in domain.gateway.warnings
    }


async def inspect_domain(
    endpoints: DomainEndpoints,
    management: ManagementConnection | None = None,
    *,
    agent_expected: bool = False,
) -> DomainStatus:
    """The state of one domain, asked over a connection that is kept or, without one, over one made for it."""
    if management is None:
        async with ManagementConnection(endpoints) as own:
            return await inspect_domain(endpoints, own, agent_expected=agent_expected)
    gateway, agent, brokers = await asyncio.gather(
        management.gateway_status(),
        management.agent_status(),
        asyncio.gather(
            _broker_status(endpoints.head, "head"),
            *(_broker_status(edge, "edge") for edge in endpoints.edges),
            *(_broker_status(broker, "management") for broker in endpoints.managements),
        ),
    )
    return DomainStatus(
        domain=endpoints.domain,
        brokers=await _seen_from_their_hosts(endpoints, management, brokers),
        gateway=gateway,
        agent=agent,
        agent_expected=agent_expected,
    )


async def _seen_from_their_hosts(
    endpoints: DomainEndpoints, management: ManagementConnection, brokers: Iterable[BrokerStatus]
) -> tuple[BrokerStatus, ...]:
    """What could be seen from here and, of secured brokers on other machines, what their hosts see."""
    found = tuple(brokers)
    local = {each.name: each.machine for each in endpoints.brokers() if each.monitor_host}
    hidden = {each.name for each in found if not each.reachable} & local.keys()
    if not hidden:
        return found
    answers = await management.hosts(len({local[name] for name in hidden}), brokers=True)
    told = {each.name: each for answer in answers for each in answer.brokers}
    return tuple(
        msgspec.structs.replace(told[each.name], role=each.role)
        if each.name in hidden and each.name in told
        else each
        for each in found
    )


async def _broker_status(broker: BrokerEndpoints, role: str) -> BrokerStatus:
    return await kind_of(broker.kind).status(broker, role)


async def audit_heads(runtime: Runtime) -> list[AuditHead]:
    """The ends of their audit logs, as the gateways and leading agents that answer hold them in memory."""

    async def of(endpoints: DomainEndpoints) -> list[AuditHead]:
        async with ManagementConnection(endpoints) as management:
            found = await asyncio.gather(management.gateway_status(), management.agent_status())
        return [each.audit.head for each in found if each is not None and each.audit.head is not None]

    found = await asyncio.gather(*map(of, runtime.domains.values()))
    return [head for heads in found for head in heads]


async def gateway_status(endpoints: DomainEndpoints) -> GatewayStatus | None:
    """What the gateway of a domain says of itself, or None if it does not answer."""
    async with ManagementConnection(endpoints) as management:
        return await management.gateway_status()


async def brokers_follow(endpoints: DomainEndpoints, gateway: GatewayStatus) -> bool:
    """Whether a domain's brokers know of everything that its gateway has asked for, and of nothing else.

    Only then does what is published there leave the domain. The head has confirmed it to the gateway; edges
    are asked by their monitoring pages, and so is a head of NATS: its edges must know the same as it does.
    """
    if not gateway.head_follows:
        return False
    asked: frozenset[str] = frozenset()
    if endpoints.head.monitor_url is not None and endpoints.head.kind is BrokerKind.NATS:
        found = await gateway_subscriptions(endpoints.head)
        if found is None or len(found) != gateway.subscribed:
            return False
        asked = found
    for edge in endpoints.edges:
        if edge.monitor_url is not None:
            found = await gateway_subscriptions(edge)
            if found is None or not asked <= found:
                return False
    return True


async def wait_for_interest(runtime: Runtime, wanted: dict[str, int], timeout_s: float = 15.0) -> bool:
    """Wait until links are up and every domain's brokers know so many subjects of each; False if never."""

    async def knows(endpoints: DomainEndpoints) -> bool:
        status = await gateway_status(endpoints)
        return (
            status is not None
            and all(link.up for link in status.links)
            and all(status.interest.get(domain, 0) >= count for domain, count in wanted.items())
            and await brokers_follow(endpoints, status)
        )

    deadline = asyncio.get_running_loop().time() + timeout_s
    while asyncio.get_running_loop().time() < deadline:
        if all(await asyncio.gather(*map(knows, runtime.domains.values()))):
            return True
        await asyncio.sleep(0.1)
    return False
