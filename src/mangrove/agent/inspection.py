"""Looks at a running federation: brokers by their monitoring pages, gateways by the management broker."""

from __future__ import annotations

import asyncio

import msgspec
import nats
import nats.errors

from mangrove.broker.kinds import kind_of
from mangrove.model.endpoints import BrokerEndpoints, DomainEndpoints, Runtime
from mangrove.model.not_in_force import contract_warnings
from mangrove.model.status import (
    BrokerStatus,
    DomainStatus,
    FederationStatus,
    GatewayStatus,
    gateway_status_subject,
)

TIMEOUT_S = 2.0


async def inspect(runtime: Runtime) -> FederationStatus:
    """The state of all domains, asked side by side."""
    domains = await asyncio.gather(*(inspect_domain(domain) for domain in runtime.domains.values()))
    return FederationStatus(
        federation=runtime.federation.name,
        domains=tuple(domains),
        warnings=contract_warnings(runtime.federation.topics),
    )


async def inspect_domain(endpoints: DomainEndpoints) -> DomainStatus:
    """The state of one domain."""
    gateway, brokers = await asyncio.gather(
        gateway_status(endpoints),
        asyncio.gather(
            _broker_status(endpoints.head, "head"),
            *(_broker_status(edge, "edge") for edge in endpoints.edges),
            _broker_status(endpoints.management, "management"),
        ),
    )
    return DomainStatus(domain=endpoints.domain, brokers=tuple(brokers), gateway=gateway)


async def _broker_status(broker: BrokerEndpoints, role: str) -> BrokerStatus:
    return await kind_of(broker.kind).status(broker, role)


async def gateway_status(endpoints: DomainEndpoints) -> GatewayStatus | None:
    """What the gateway of a domain says of itself, or None if it does not answer."""

    async def quiet(_: Exception) -> None:
        """A broker that is away is an answer here, not an error."""

    try:
        async with asyncio.timeout(TIMEOUT_S):
            connection = await nats.connect(
                endpoints.management.client_url, allow_reconnect=False, connect_timeout=1, error_cb=quiet
            )
    except (nats.errors.Error, OSError):
        return None
    try:
        answer = await connection.request(gateway_status_subject(endpoints.domain), b"", timeout=TIMEOUT_S)
        return msgspec.json.decode(answer.data, type=GatewayStatus)
    except (nats.errors.Error, OSError, msgspec.DecodeError):
        return None
    finally:
        await connection.close()


async def wait_for_interest(runtime: Runtime, wanted: dict[str, int], timeout_s: float = 15.0) -> bool:
    """Wait until all links are up and all gateways know so many subjects of each domain; False if never."""
    deadline = asyncio.get_running_loop().time() + timeout_s
    while asyncio.get_running_loop().time() < deadline:
        statuses = await asyncio.gather(*(gateway_status(domain) for domain in runtime.domains.values()))
        if all(
            status is not None
            and all(link.up for link in status.links)
            and all(status.interest.get(domain, 0) >= count for domain, count in wanted.items())
            for status in statuses
        ):
            await asyncio.sleep(0.2)  # the gateways' subscriptions reach their head brokers
            return True
        await asyncio.sleep(0.1)
    return False
