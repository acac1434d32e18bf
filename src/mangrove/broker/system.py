"""The seam by which an agent watches a broker: how it is, who is connected, and how to send one away."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

import msgspec

from mangrove.errors import MangroveError
from mangrove.model.agents.load import BrokerSample
from mangrove.model.agents.plain_clients import PlainClient
from mangrove.model.questions.vouching import AttachedPlace


class BrokerAwayError(MangroveError):
    """A broker did not answer in time, or not in a way that can be read."""


class Connections(msgspec.Struct, frozen=True):
    """The clients of a broker that do not speak with an agent, and how many could not be looked at."""

    clients: tuple[PlainClient, ...] = ()
    left_out: int = 0


class BrokerSystem(Protocol):
    """One broker as an agent sees it. Everything is bounded in time and raises `BrokerAwayError`."""

    async def sample(self, *, pending: bool = False, delay: bool = False) -> BrokerSample:
        """What the broker counted; `pending` bytes and the `delay` of a probe cost a message more each."""

    async def connections(self) -> Connections:
        """Who is connected, besides processes of ours and clients of the SDK."""

    async def kick(self, cid: int) -> None:
        """Disconnect one client, if the broker lets us."""

    async def attached(self) -> bool:
        """Whether the broker is attached to another."""

    async def detach(self, other: str) -> bool:
        """End what joins the broker with another, whichever attached; whether there was something."""

    async def expel(self, keys: Collection[str], vouched: Collection[AttachedPlace] = ()) -> int:
        """Disconnect who attached by another key than these, and is not vouched for; how many.

        Brokers that are told of other users send clients away themselves, and leave what is attached alone.
        """

    async def close(self) -> None:
        """Let go of the broker."""
