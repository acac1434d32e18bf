"""Orders to supervisors are given in the term in which they were decided on, or not at all."""

from __future__ import annotations

import asyncio
from collections import Counter
from types import SimpleNamespace
from typing import cast

import msgspec
from nats.aio.client import Client
from tests.kit.waiting import eventually

from mangrove.agent.hosting.broker_switches import BrokerSwitches
from mangrove.model.endpoints import fixed_endpoints
from mangrove.model.federation import Domain, Edge
from mangrove.model.hosting.supervision import BrokerAction, BrokerOrder, HostAnswer, HostGreeting


async def test_an_order_of_an_earlier_term_is_not_given_in_a_later_one() -> None:
    sent: list[BrokerOrder] = []

    async def request(_subject: str, payload: bytes, timeout: float) -> SimpleNamespace:
        sent.append(msgspec.json.decode(payload, type=BrokerOrder))
        greeting = HostGreeting(host="", digest="", started_at=0.0)
        return SimpleNamespace(data=msgspec.json.encode(HostAnswer(greeting=greeting)))

    refused: Counter[str] = Counter()
    endpoints = fixed_endpoints(Domain(name="here", base_port=4000, edges=(Edge(),)))
    switches = BrokerSwitches(endpoints, refused)
    switches.put("here-edge1", BrokerAction.STOP, 5)
    switches.put("here-edge1", BrokerAction.START, 7)
    switches.put("here-edge1", BrokerAction.STOP, 0)
    switches.put("nowhere", BrokerAction.STOP, 7)
    connection = cast(Client, SimpleNamespace(request=request))
    task = asyncio.create_task(switches.run(connection, lambda: 7))

    async def done() -> bool:
        return sum(refused.values()) == 3

    try:
        await eventually(done, "what was decided in another term should be dropped")
    finally:
        task.cancel()
    assert [(order.action, order.term) for order in sent] == [(BrokerAction.START, 7)]
