"""Instead of a tap: what passes a RabbitMQ is not sampled, for every listener there costs a copy on disk."""

from __future__ import annotations

from mangrove.broker.nats.tap import Tap


class DeafTap(Tap):
    """Never connected."""

    async def connect(self) -> bool:
        """There is nothing to connect to."""
        return False
