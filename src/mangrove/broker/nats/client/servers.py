"""The servers that a client may connect to, and which of them is next."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from mangrove.broker.nats.client.greeting import ServerAddress, parse_address

MAX_SERVERS = 64


class Servers:
    """Tried in turn, in the order given; those that a server names come after them."""

    def __init__(self, urls: Sequence[str]) -> None:
        """ValueError if there is none, or a URL is malformed."""
        self._addresses = list(dict.fromkeys(map(parse_address, urls)))
        if not self._addresses:
            raise ValueError("no server is named")
        self._tried_at: dict[ServerAddress, float] = {}
        self._index = -1

    def __iter__(self) -> Iterator[ServerAddress]:
        return iter(self._addresses)

    def __len__(self) -> int:
        return len(self._addresses)

    @property
    def present(self) -> ServerAddress:
        """The one tried last."""
        return self._addresses[max(self._index, 0)]

    async def next(self, pause_s: float) -> ServerAddress:
        """The next in turn; one that was tried just before is given a pause first."""
        self._index = (self._index + 1) % len(self._addresses)
        address = self.present
        now = asyncio.get_running_loop().time()
        if now < self._tried_at.get(address, now - pause_s) + pause_s:
            await asyncio.sleep(pause_s)
        self._tried_at[address] = asyncio.get_running_loop().time()
        return address

    def add(self, urls: Iterable[str]) -> None:
        """Also try these, each with its own credentials alone; ValueError if a URL is malformed."""
        known = {(address.host, address.port) for address in self._addresses}
        for address in map(parse_address, urls):
            if (address.host, address.port) not in known and len(self._addresses) < MAX_SERVERS:
                known.add((address.host, address.port))
                self._addresses.append(address)

    def learn(self, teller: ServerAddress, urls: Iterable[str]) -> None:
        """Note the other servers of a cluster that one of them names; the same credentials are for all."""
        known = {(address.host, address.port) for address in self._addresses}
        for url in urls:
            try:
                heard = parse_address(url)
            except ValueError:
                continue
            if (heard.host, heard.port) not in known and len(self._addresses) < MAX_SERVERS:
                known.add((heard.host, heard.port))
                self._addresses.append(replace(heard, tls=teller.tls, credentials=teller.credentials))
