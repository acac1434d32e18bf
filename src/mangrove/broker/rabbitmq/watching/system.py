"""A RabbitMQ as an agent sees it: its figures. Nobody is moved from it or sent away."""

from __future__ import annotations

from collections.abc import Collection

from mangrove.broker.pages import port_answers
from mangrove.broker.rabbitmq.watching.figures import broker_figures
from mangrove.broker.system import BrokerAwayError, Connections
from mangrove.model.agents.load import BrokerSample
from mangrove.model.endpoints import BrokerEndpoints
from mangrove.model.questions.vouching import AttachedPlace

TIMEOUT_S = 1.0


class RabbitSystem:
    """One broker."""

    def __init__(self, broker: BrokerEndpoints) -> None:
        self._broker = broker

    async def sample(self, *, pending: bool = False, delay: bool = False) -> BrokerSample:
        """What its page tells; neither pending bytes nor delays can be had."""
        name = self._broker.name
        found = await broker_figures(self._broker, TIMEOUT_S)
        if found is not None:
            return BrokerSample(
                broker=name,
                started=found.started,
                messages_in=found.figures.messages_in,
                messages_out=found.figures.messages_out,
                bytes_in=found.figures.bytes_in,
                bytes_out=found.figures.bytes_out,
                connections=found.figures.connections,
                subscriptions=found.figures.subscriptions,
                memory_bytes=found.figures.memory_bytes,
            )
        if not (
            self._broker.external
            and await port_answers(self._broker.host, self._broker.client_port, TIMEOUT_S)
        ):
            raise BrokerAwayError(f"{name} does not answer")
        return BrokerSample(broker=name, started="", messages_in=0, messages_out=0, bytes_in=0, bytes_out=0)

    async def connections(self) -> Connections:
        """Nobody is looked for: there is no other broker in the domain to go to."""
        return Connections()

    async def kick(self, cid: int) -> None:
        """There is nowhere else to go."""
        raise BrokerAwayError(f"{self._broker.name} is a RabbitMQ: connection {cid} stays")

    async def attached(self) -> bool:
        """It attaches to nobody."""
        return False

    async def detach(self, other: str) -> bool:
        """Nor does another broker attach to it."""
        return False

    async def expel(self, keys: Collection[str], vouched: Collection[AttachedPlace] = ()) -> int:
        """Gateways come by passwords, which end when its users are told anew."""
        return 0

    async def close(self) -> None:
        """Nothing is kept open."""
