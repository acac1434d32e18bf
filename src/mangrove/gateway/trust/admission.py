"""How many connections may be there that have not proven who they are, and how often they may try.

Anybody can open a connection, and whoever waits for his proof costs memory and a place. So places are few, in
all and for each address, and the newest gets one: of those that hold one longest without having said anything
sensible, the oldest gives way. A neighbour, which needs two round trips, is thus let in even where a stranger
at the very same address opens thousands and says nothing. Addresses that the federation file names for
neighbours have places that no stranger can take.

A greeting of TLS makes this gateway compute; that is rationed as well, apart for each known address.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv6Address, ip_address
from typing import Generic, TypeVar

import msgspec

MAX_STRANGERS = 64
MAX_OF_STRANGER = 8
MAX_OF_NEIGHBOUR = 128
HANDSHAKES_A_SECOND = 100.0
HANDSHAKES_AT_ONCE = 100.0
"""Of all strangers together; of each known address as many again."""

C = TypeVar("C")


class _Ration(msgspec.Struct):
    left: float = HANDSHAKES_AT_ONCE
    at: float = 0.0

    def take(self, now: float) -> bool:
        passed = max(0.0, now - self.at)
        self.at = max(self.at, now)
        self.left = min(HANDSHAKES_AT_ONCE, self.left + passed * HANDSHAKES_A_SECOND)
        if self.left < 1.0:
            return False
        self.left -= 1.0
        return True


class _Places(Generic[C], msgspec.Struct):
    """Connections of one address, oldest first; those that have begun a handshake apart."""

    silent: dict[C, None] = msgspec.field(default_factory=dict)
    begun: dict[C, None] = msgspec.field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.silent) + len(self.begun)

    def oldest(self) -> C:
        return next(iter(self.silent or self.begun))

    def discard(self, connection: C) -> None:
        self.silent.pop(connection, None)
        self.begun.pop(connection, None)


def place_of(address: str) -> str:
    """What shares its places: an address, or an IPv6 network of 64 bits, of which one host may have all."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(IPv6Address(int(parsed) >> 64 << 64))
    return str(parsed)


class Admission(Generic[C]):
    """Places for connections without proof. Whoever is displaced must be closed by the caller."""

    def __init__(self, neighbours: Iterable[str] = ()) -> None:
        self._known = frozenset(map(place_of, neighbours))
        self._by_place: dict[str, _Places[C]] = {}
        self._place: dict[C, str] = {}
        self._rations = {place: _Ration() for place in ("", *self._known)}

    def adopt(self, neighbours: Iterable[str]) -> None:
        """Neighbours are at these addresses from now on."""
        self._known = frozenset(map(place_of, neighbours))
        self._rations = {place: self._rations.get(place) or _Ration() for place in ("", *self._known)}

    def __len__(self) -> int:
        return len(self._place)

    def __contains__(self, connection: C) -> bool:
        return connection in self._place

    def strangers(self) -> int:
        """Connections from addresses that the federation file does not name."""
        return sum(len(places) for place, places in self._by_place.items() if place not in self._known)

    def enter(self, connection: C, address: str) -> C | None:
        """A connection has come; the one that gives way to it, if there is no room."""
        place = place_of(address)
        displaced: C | None = None
        known = place in self._known
        places = self._by_place.get(place)
        if places is not None and len(places) >= (MAX_OF_NEIGHBOUR if known else MAX_OF_STRANGER):
            displaced = places.oldest()
        elif not known and self.strangers() >= MAX_STRANGERS:
            others = {name: each for name, each in self._by_place.items() if name not in self._known}
            crowded = max(others, key=lambda name: len(others[name]))
            displaced = others[crowded].oldest()
        if displaced is not None:
            self.leave(displaced)
        self._by_place.setdefault(place, _Places()).silent[connection] = None
        self._place[connection] = place
        return displaced

    def may_begin(self, connection: C, now: float) -> bool:
        """It has greeted in TLS: whether that is answered, which costs this process a millisecond."""
        place = self._place.get(connection)
        if place is None:
            return False
        if not self._rations[place if place in self._known else ""].take(now):
            return False
        places = self._by_place[place]
        places.silent.pop(connection, None)
        places.begun[connection] = None
        return True

    def leave(self, connection: C) -> None:
        """It has proven who it is, or is gone."""
        place = self._place.pop(connection, None)
        if place is None:
            return
        places = self._by_place[place]
        places.discard(connection)
        if not places:
            del self._by_place[place]

    def problems(self) -> list[str]:
        """Invariants that do not hold."""
        found = []
        if sum(map(len, self._by_place.values())) != len(self._place):
            found.append("places are taken by connections that are not there")
        if self.strangers() > MAX_STRANGERS:
            found.append(f"{self.strangers()} strangers are in")
        for place, places in self._by_place.items():
            if not 0 < len(places) <= (MAX_OF_NEIGHBOUR if place in self._known else MAX_OF_STRANGER):
                found.append(f"{len(places)} connections of {place} are in")
        return found
