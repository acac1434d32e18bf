"""Brokers that want keys show their pages to their own machine alone."""

from __future__ import annotations

import asyncio
import json

from mangrove.broker.kinds import kind_of
from mangrove.config import parse_federation
from mangrove.model.endpoints import BrokerEndpoints, fixed_endpoints, shown_locally

SITE = """
federation: one
domains:
  far: {edges: 1, address: 10.0.0.1}
  near: {edges: 1, address: 127.0.0.9}
"""


def test_pages_are_at_addresses_of_the_machine_itself() -> None:
    domains = parse_federation(SITE, "one").require().domains
    far, near = (shown_locally(fixed_endpoints(domains[name])) for name in ("far", "near"))
    assert {broker.monitor_host for broker in far.brokers()} == {"127.0.0.1"}
    assert {broker.monitor_host for broker in near.brokers()} == {"127.0.0.9"}
    assert far.head.monitor_url == f"http://127.0.0.1:{far.head.monitor_port}"
    assert far.head.client_url.startswith("nats://10.0.0.1:")


async def test_the_page_of_another_broker_at_that_address_is_not_taken_for_it() -> None:
    async def page(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.0 200 OK\r\n\r\n" + json.dumps({"server_name": "another", "mem": 7}).encode())
        writer.close()

    server = await asyncio.start_server(page, "127.0.0.1")
    port = server.sockets[0].getsockname()[1]
    found = []
    for name in ("here-head", "another"):
        broker = BrokerEndpoints(
            name=name, host="10.0.0.1", client_port=1, monitor_port=port, monitor_host="127.0.0.1"
        )
        found.append((await kind_of(broker.kind).status(broker, "head")).reachable)
    server.close()
    await server.wait_closed()
    assert found == [False, True]
