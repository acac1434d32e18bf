"""Which neighbours a gateway calls and where it listens for them, as links come, go and change their address.

What the site was started with stays as it is for links of which nothing else is said since: their lines may
lead through an emulator. All others are called, and listened for, where the document says.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from mangrove.gateway.links.links import Links
from mangrove.model.address import Address
from mangrove.model.federation import Federation, Link
from mangrove.model.gateway_settings import Call, GatewaySettings
from mangrove.model.versions.network import AgreedSite, gateway_addresses

log = logging.getLogger(__name__)

LISTEN_AGAIN_S = 2.0


class Lines:
    """The tasks that call, and the sockets that listen."""

    def __init__(self, settings: GatewaySettings, links: Links) -> None:
        self._settings = settings
        self._links = links
        self._servers: dict[Address, list[asyncio.Server]] = {}
        self._callers: dict[tuple[Call, Address], asyncio.Task[None]] = {}
        self._listening: dict[Address, asyncio.Task[None]] = {}
        self._tasks: asyncio.TaskGroup | None = None

    async def listen(self, federation: Federation) -> None:
        """Open the sockets with which this gateway starts."""
        for address in dict.fromkeys((*self._settings.listen, *self._own_endpoints(federation))):
            self._servers[address] = await self._links.listen((address,))

    def begin(self, tasks: asyncio.TaskGroup, federation: Federation) -> None:
        """This gateway carries: call the neighbours."""
        self._tasks = tasks
        self._call(self._calls(federation))

    def adopt(self, federation: Federation | None) -> None:
        """Other links are in force; None: this domain has left, and has none."""
        wanted = {} if federation is None else dict.fromkeys(self._own_endpoints(federation))
        started_with = self._settings.listen[:1]
        for address in [each for each in self._servers if each not in wanted and each not in started_with]:
            for server in self._servers.pop(address):
                server.close()
        if self._tasks is None:
            return
        for address in [each for each in wanted if each not in self._servers]:
            if address not in self._listening:
                self._listening[address] = self._tasks.create_task(self._listen_at(address))
        self._call([] if federation is None else self._calls(federation))

    async def _listen_at(self, address: Address) -> None:
        """Listen for a link at an address of its own, as soon as that can be."""
        said = ""
        while address not in self._servers:
            try:
                self._servers[address] = await self._links.listen((address,))
            except OSError as error:
                if str(error) != said:
                    log.error("cannot listen on %s: %s; trying again", address, error)
                said = str(error)
                await asyncio.sleep(LISTEN_AGAIN_S)
        del self._listening[address]

    def close(self) -> None:
        """Listen no more."""
        for servers in self._servers.values():
            for server in servers:
                server.close()

    def _call(self, calls: Iterable[Call]) -> None:
        wanted = {(call, address) for call in calls for address in call.addresses}
        for key in [key for key in self._callers if key not in wanted]:
            # The connection stays: it is closed when it has served, or given up for the one that follows.
            self._callers.pop(key).cancel()
        assert self._tasks is not None
        for key in wanted - self._callers.keys():
            name = f"call {key[0].peer}"
            self._callers[key] = self._tasks.create_task(self._links.keep_calling(*key), name=name)

    def _own_endpoints(self, federation: Federation) -> list[Address]:
        """Addresses of links' own; the second gateway of a domain has none."""
        if self._settings.pair is not None and self._settings.pair.number == 2:
            return []
        domain = self._settings.domain
        found = [link.endpoint(domain) for link in federation.links_of(domain)]
        return [address for address in found if address is not None]

    def _calls(self, federation: Federation) -> list[Call]:
        domain, before = self._settings.domain, self._settings.federation
        known = {call.peer: call for call in self._settings.calls}
        links_before = {link.pair: link for link in before.links}
        calls = []
        for link in federation.links_of(domain):
            peer = link.other(domain)
            if link.caller != domain:
                continue
            same = _line(links_before.get(link.pair), before) == _line(link, federation)
            if same and peer in known:
                calls.append(known[peer])
                continue
            own = link.endpoint(domain)
            addresses = tuple(Address(*each) for each in gateway_addresses(federation, link, peer))
            calls.append(Call(peer, addresses, own.host if own is not None else ""))
        return calls


def _line(link: Link | None, federation: Federation) -> object:
    """By what a link is called."""
    if link is None:
        return None
    site = AgreedSite.of(federation.domains[link.callee])
    return link.endpoints, site.address, site.base_port, site.hosts, site.gateways
