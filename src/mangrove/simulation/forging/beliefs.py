"""What gateways believe beside what was said: no honest one may believe what its origin never signed."""

from __future__ import annotations

import msgspec

from mangrove.model.unreadable import UNREADABLE
from mangrove.overlay.protocol.control_messages import RouteSetup
from mangrove.overlay.trust.trust import statement
from mangrove.simulation.overlay_network import SimulatedOverlay

_setup = msgspec.msgpack.Decoder(RouteSetup)


def false_beliefs(net: SimulatedOverlay) -> list[str]:
    """What honest gateways believe in the name of domains that never said it."""
    authority, federation = net.authority, net.federation.name
    assert authority is not None, "without keys nothing is signed"
    head = len(statement(federation, 0, b""))
    routes = {name: _routes(keys.signed, head) for name, keys in authority.keys.items()}
    found = []
    for name, engine in net.engines.items():
        if name in net.forgers:
            continue
        for origin, signed in engine.evidence():
            if statement(federation, signed.at_ns, signed.said) not in authority.keys[origin].signed:
                found.append(f"{name} believes what {origin} never said")
        for origin, *route in engine.transit_routes():
            if tuple(route) not in routes[origin]:
                found.append(f"{name} keeps a route for which {origin} never asked: {route}")
        if engine.endangered(net.now) and any(each.name == "forged" for each in engine.endangered(net.now)):
            found.append(f"{name} avoids a region that nobody declared")
    return found


def _routes(statements: set[bytes], head: int) -> set[tuple[object, ...]]:
    """Epoch, label, version and path of all set-ups among what a domain has signed."""
    found: set[tuple[object, ...]] = set()
    for each in statements:
        try:
            setup = _setup.decode(each[head:])
        except UNREADABLE:
            continue
        found.add((setup.epoch, setup.label, setup.version, tuple(setup.path)))
    return found
