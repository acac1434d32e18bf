"""A running federation, and the questions that tests ask it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from nats.aio.client import Client
from tests.kit.waiting import eventually

from mangrove.agent.inspection import brokers_follow, gateway_status, wait_for_interest
from mangrove.host.keys.logins.user_login import login_of
from mangrove.host.nats_connecting import connect_or_close
from mangrove.host.runtime_file import find_running
from mangrove.model.security.users import AGENT_USER, FIRST_CLIENT
from mangrove.model.status import GatewayStatus
from mangrove.testbed.local_federation import LocalFederation

CHAIN = """
federation: chain
domains:
  seattle: {location: [47.61, -122.33], edges: 1}
  denver:  {location: [39.74, -104.99], edges: 1}
  orlando: {location: [28.54, -81.38], edges: 2}
links:
  - {between: [seattle, denver], delay_ms: 2}
  - {between: [denver, orlando], delay_ms: 2}
topics:
  - {match: "plant.>", scope: domain}
max_message_bytes: 65536
"""


class Running:
    """A running federation, and questions that tests ask it."""

    def __init__(self, launched: LocalFederation) -> None:
        self.launched = launched

    def head(self, domain: str) -> str:
        return self.launched.endpoints[domain].head.client_url

    def edge(self, domain: str, number: int = 0) -> str:
        return self.launched.endpoints[domain].edges[number].client_url

    @property
    def user(self) -> str:
        """As whom connections log in that tests open by nats-py; empty where nobody logs in."""
        return FIRST_CLIENT if self.launched.keys is not None else ""

    async def as_agent(self, domain: str, **options: Any) -> Client:
        """A connection of nats-py to the management broker, as the domain's agent where users log in."""
        endpoints = self.launched.endpoints[domain]
        login = login_of(endpoints.keys, AGENT_USER)
        return await connect_or_close(endpoints.management.client_url, login=login, **options)

    async def gateway(self, domain: str) -> GatewayStatus:
        """What the gateway of a domain says of itself; one that is slow to answer is asked again."""
        found: list[GatewayStatus] = []

        async def answers() -> bool:
            status = await gateway_status(self.launched.endpoints[domain])
            if status is not None:
                found.append(status)
            return status is not None

        await eventually(answers, f"the gateway of {domain} should answer")
        return found[-1]

    async def knows_interest(self, knower: str, of: str, count: int) -> None:
        """Wait until a gateway knows of exactly so many wanted subjects in a domain, and its brokers too."""

        async def known() -> bool:
            endpoints = self.launched.endpoints[knower]
            status = await gateway_status(endpoints)
            return (
                status is not None
                and status.interest.get(of, 0) == count
                and await brokers_follow(endpoints, status)
            )

        await eventually(known, f"{knower} should know of {count} subjects wanted in {of}")

    async def at_rest(self) -> None:
        """Wait until nobody knows of any subscriber."""
        for knower in self.launched.endpoints:
            for of in self.launched.endpoints:
                await self.knows_interest(knower, of, 0)

    async def links_up(self) -> None:
        """Wait until all links of all gateways are up."""

        async def all_up() -> bool:
            statuses = [await gateway_status(domain) for domain in self.launched.endpoints.values()]
            return all(
                s is not None and s.head_connected and all(link.up for link in s.links) for s in statuses
            )

        await eventually(all_up, "all links should be up")


def interest_has_spread(run_directory: Path, **wanted: int) -> bool:
    """Wait until every domain's brokers know so many wanted subjects of each domain named."""
    return asyncio.run(wait_for_interest(find_running(run_dir=run_directory), wanted))
