"""Domains and links that come and go in the midst of a failure schedule.

The domains of the schedule's streams stay, and so, in the end, do their links; further domains join and
leave, or die and are expelled, further links are added and removed, links of the streams too are removed for
a time, and delays change. Who has joined gets messages in the end, and all forward by one version then.
"""

from __future__ import annotations

import random
from contextlib import suppress
from functools import partial
from itertools import combinations

import msgspec

from mangrove.errors import InputError
from mangrove.model.site_pair import site_pair
from mangrove.model.versions.document import FederationDocument, WrittenDocument
from mangrove.model.versions.kept import KeptVersions
from mangrove.model.versions.network import AgreedLink, AgreedSite, Network, cut_off, network_of
from mangrove.model.versions.succession import successor
from mangrove.overlay.engine import OverlayEngine
from mangrove.simulation.overlay_network import SimulatedOverlay

FURTHER = ("x", "y", "z")
JOINED = "joined"
STOPPED_S = 5.0
"""So long after it has left a gateway is stopped."""
ARRIVED_S = 5.0


class NetworkChanges:
    """Draws changes of the network, starts who joins, and stops who has left."""

    def __init__(self, net: SimulatedOverlay, chance: random.Random) -> None:
        self._net = net
        self._chance = chance
        self._base = network_of(net.federation)
        self.joined = 0
        self.crashed = 0
        """Gateways that died, and were then expelled."""
        self.changed_at = float("-inf")
        """When a gateway adopted a version the last time."""
        net.adopted = self._adopted

    # -- what is asked for --------------------------------------------------------------------------------

    def drawn(self, engine: OverlayEngine) -> Network | None:
        """Another network than a gateway has in force; None if what was drawn makes no sense there."""
        now = network_of(engine.federation)
        draw = self._chance.choice(
            (self._join, self._join, self._leave, self._expel, self._link, self._unlink, self._delay)
        )
        after = draw(now)
        return None if after is None or cut_off(after, now) else after

    def _join(self, now: Network) -> Network | None:
        free = [name for name in FURTHER if name not in now.names and name not in self._net.engines]
        if not free:
            return None
        name = self._chance.choice(free)
        ends = self._chance.sample(now.names, min(len(now.names), self._chance.randint(1, 3)))
        return _sorted(
            msgspec.structs.replace(
                now,
                sites=(*now.sites, AgreedSite(name=name, base_port=1)),
                links=(*now.links, *(self._new_link(name, end) for end in ends)),
            )
        )

    def _leave(self, now: Network) -> Network | None:
        there = [name for name in FURTHER if name in now.names]
        return now.without(self._chance.choice(there)) if there else None

    def _expel(self, now: Network) -> Network | None:
        there = [name for name in FURTHER if name in now.names]
        if not there:
            return None
        name = self._chance.choice(there)
        if name in self._net.engines:
            self.crashed += 1
            self._net.crash(name, silent=self._chance.random() < 0.5)
        return now.without(name)

    def _link(self, now: Network) -> Network | None:
        free = sorted({site_pair(*ends) for ends in combinations(now.names, 2)} - now.pairs)
        if not free:
            return None
        made = self._new_link(*self._chance.choice(free))
        return _sorted(msgspec.structs.replace(now, links=(*now.links, made)))

    def _unlink(self, now: Network) -> Network | None:
        base = self._base.pairs
        free = [pair for pair in sorted(now.pairs) if pair not in base or self._chance.random() < 0.3]
        if not free:
            return None
        gone = self._chance.choice(free)
        links = tuple(each for each in now.links if each.link().pair != gone)
        return msgspec.structs.replace(now, links=links)

    def _delay(self, now: Network) -> Network | None:
        chosen = self._chance.choice(now.links)
        other = msgspec.structs.replace(chosen, delay_ms=round(self._chance.uniform(1.0, 10.0), 3))
        return msgspec.structs.replace(
            now, links=tuple(other if each == chosen else each for each in now.links)
        )

    def _new_link(self, first: str, second: str) -> AgreedLink:
        return AgreedLink(
            between=site_pair(first, second), delay_ms=round(self._chance.uniform(1.0, 10.0), 3)
        )

    # -- what comes of it ---------------------------------------------------------------------------------

    def _adopted(self, name: str, document: FederationDocument) -> None:
        self.changed_at = self._net.now
        engine = self._net.engines[name]
        if engine.departed:
            self._net.at(self._net.now + STOPPED_S, partial(self._stop, name, engine))
            return
        newest = max(each.document.version for each in self._net.engines.values())
        for other in document.members if document.version == newest else ():
            if other not in self._net.engines and other not in self._base.names:
                self._start(other, engine.kept_versions().committed)

    def _start(self, name: str, committed: WrittenDocument | None) -> None:
        """A site that was made a member starts, with the document that its operator was given."""
        self._net.disks[name] = KeptVersions(committed=committed)
        self._net.start(name)
        self._net.subscribe(name, f"{JOINED}.{name}")
        self.joined += 1

    def _stop(self, name: str, engine: OverlayEngine) -> None:
        if self._net.engines.get(name) is engine:
            self._net.crash(name, silent=False)

    def _newest(self) -> OverlayEngine:
        return max(self._net.engines.values(), key=lambda each: each.document.version)

    def members(self) -> list[str]:
        """The domains of the newest version in force that live."""
        return [name for name in self._newest().document.members if name in self._net.engines]

    def restore(self) -> bool:
        """Start who should live, stop who was expelled and ask for links; whether that takes time."""
        newest = self._newest()
        wanted = newest.document.members
        for name in wanted:
            if name not in self._net.engines:
                self._start(name, newest.kept_versions().committed)
        for name in [name for name in self._net.engines if name not in wanted]:
            self._net.crash(name, silent=False)
        now = network_of(newest.federation)
        missing = tuple(each for each in self._base.links if each.link().pair not in now.pairs)
        if not missing:
            return False
        network = _sorted(msgspec.structs.replace(now, links=(*now.links, *missing)))
        after = successor(
            newest.document,
            newest.document.topics.contracts,
            by="restore",
            at=f"{self._net.now:.3f}",
            network=network,
        )
        with suppress(InputError):  # another change may be under way there
            self._net.propose(newest.domain, WrittenDocument(text=after.text()))
        return True

    def check(self) -> list[str]:
        """What is wrong when all is at rest: who has joined is served, and all forward by one version."""
        found = []
        members = self.members()
        last = {name: f"{JOINED} {name}".encode() for name in members if name not in self._base.names}
        for name, body in last.items():
            sender = self._base.names[0]
            if not self._net.publish(sender, f"{JOINED}.{name}", body):
                found.append(f"{sender} does not know what {name} wants, which has joined")
        self._net.run(self._net.now + ARRIVED_S)
        for name, body in last.items():
            if self._net.delivered.pop((name, body), 0) != 1:
                found.append(f"a message for {name}, which has joined, did not arrive once")
        forwards = {name: self._net.engines[name].forwards_by for name in members}
        if len(set(forwards.values())) > 1:
            found.append(f"gateways forward by the tables of different versions: {forwards}")
        return found


def _sorted(network: Network) -> Network:
    """As a file's is written."""
    return msgspec.structs.replace(
        network,
        sites=tuple(sorted(network.sites, key=lambda site: site.name)),
        links=tuple(sorted(network.links, key=lambda link: link.link().pair)),
    )
