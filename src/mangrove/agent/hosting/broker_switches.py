"""Has brokers started, stopped and restarted by those who supervise their hosts."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable

import msgspec
import nats.errors
from nats.aio.client import Client

from mangrove.model.agents.names import supervisor_subject
from mangrove.model.endpoints import DomainEndpoints
from mangrove.model.hosting.supervision import BrokerAction, BrokerOrder, HostAnswer
from mangrove.model.unreadable import UNREADABLE

log = logging.getLogger(__name__)

TIMEOUT_S = 5.0
"""A broker that is told to stop may have to be killed."""
MAX_WAITING = 100

_answer = msgspec.json.Decoder(HostAnswer)


class BrokerSwitches:
    """Orders wait their turn; those that nobody carries out are counted, and asked for again by the brain."""

    def __init__(self, endpoints: DomainEndpoints, refused: Counter[str]) -> None:
        self._domain = endpoints.domain
        self._hosts = {broker.name: broker.machine for broker in endpoints.succession if not broker.external}
        self._refused = refused
        self._waiting: asyncio.Queue[tuple[str, BrokerAction, int]] = asyncio.Queue(MAX_WAITING)

    def put(self, broker: str, action: BrokerAction, term: int) -> None:
        """Have this done with a broker of ours, as was decided in a term."""
        if broker not in self._hosts:
            self._refused["brokers to switch that are not ours"] += 1
            return
        try:
            self._waiting.put_nowait((broker, action, term))
        except asyncio.QueueFull:
            self._refused["brokers to switch: too many wait"] += 1

    async def run(self, connection: Client, leads_in: Callable[[], int]) -> None:
        """Order, until cancelled; nothing is ordered in another term than it was decided in."""
        while True:
            broker, action, term = await self._waiting.get()
            if not term or term != leads_in():
                self._refused["brokers not switched: this agent does not lead any more"] += 1
                continue
            order = BrokerOrder(broker=broker, action=action, term=term)
            host = self._hosts[order.broker]
            try:
                reply = await connection.request(
                    supervisor_subject(self._domain, host), msgspec.json.encode(order), timeout=TIMEOUT_S
                )
                problem = _answer.decode(reply.data).problem
            except (nats.errors.Error, OSError):
                problem = f"nobody answers on host {host}" if host else "nobody answers"
            except UNREADABLE:
                problem = "its supervisor's answer cannot be read"
            if problem:
                self._refused[f"brokers not switched: {order.action.value}"] += 1
                log.warning("%s: %s was not done: %s", order.broker, order.action.value, problem)
