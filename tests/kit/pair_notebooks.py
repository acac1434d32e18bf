"""Two gateways' line over real sockets, with the gateways' part played by notebooks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from itertools import chain

from tests.kit.engines import federation
from tests.kit.waiting import eventually

from mangrove.gateway.pair.pair import Pair
from mangrove.gateway.trust.keys_in_force import KeysInForce
from mangrove.model.address import Address
from mangrove.model.gateway_settings import PairSettings
from mangrove.model.versions.kept import Ballot, KeptVersions
from mangrove.overlay.pair.messages import Figures, Role
from mangrove.overlay.protocol.control_messages import Digest, InterestUpdate
from mangrove.overlay.protocol.frames import Name

FEDERATION = federation(("a", "b"))
UPDATE = InterestUpdate(origin="b", epoch=1, version=1, snapshot=True, added=["x"])


class Notebook:
    """A gateway that only writes down what it is told."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.names: list[Name] = []
        self.interest: list[InterestUpdate] = []
        self.roles: list[Role] = []
        self.others: list[str] = []
        self.versions: list[KeptVersions] = []
        self.delivered: list[str] = []
        self.withheld: list[str] = []
        pair.serve(self)

    def figures(self) -> Figures:
        return Figures(sent=11, delivered=22, broker="a-head")

    def other_at(self, broker: str) -> None:
        self.others.append(broker)

    def delivered_names(self) -> list[Name]:
        return [Name(0, 1, 1, 1)]

    def told_names(self, names: list[Name]) -> None:
        self.names += names

    def told_interest(self, update: InterestUpdate) -> bool:
        self.interest.append(update)
        return False

    def interest_digest(self) -> Digest:
        return Digest(known={})

    def interest_beyond(self, digest: Digest) -> Iterable[InterestUpdate]:
        return [UPDATE]

    def kept_versions(self) -> KeptVersions:
        return KeptVersions(promised=Ballot(3, "a"))

    def told_versions(self, kept: KeptVersions) -> None:
        self.versions.append(kept)

    def cleared(self) -> None:
        self.delivered += self.withheld
        self.withheld = []

    def deliver(self, what: str) -> None:
        """As a gateway does with what arrives for its domain."""
        (self.delivered if self.pair.may_deliver() else self.withheld).append(what)

    async def follow(self) -> None:
        while True:
            change = await self.pair.changes.get()
            self.roles.append(change.role)
            if change.role is Role.TAKING_OVER:
                self.pair.take_over()
                self.pair.begun()
            elif change.role is Role.DISPLACED:
                self.pair.let_go()

    @property
    def role(self) -> Role | None:
        return self.roles[-1] if self.roles else None


def notebook(number: int, line: Address, keys: KeysInForce | None = None) -> Notebook:
    settings = PairSettings(number=number, process=f"a-{number}", line=line)
    return Notebook(Pair(settings, FEDERATION, "a", keys=keys))


@asynccontextmanager
async def running(*books: Notebook) -> AsyncIterator[list[list[asyncio.Task[None]]]]:
    tasks = [[asyncio.create_task(book.pair.run()), asyncio.create_task(book.follow())] for book in books]
    try:
        yield tasks
    finally:
        for task in chain(*tasks):
            task.cancel()
        await asyncio.gather(*chain(*tasks), return_exceptions=True)


async def settled(first: Notebook, second: Notebook) -> None:
    async def both() -> bool:
        return (first.role, second.role) == (Role.ACTIVE, Role.STANDBY)

    await eventually(both, "the first should carry and the second stand by")
