"""Labels of routes that lead through this gateway: route messages pass along and leave the next hop."""

from __future__ import annotations

from collections.abc import Callable

from mangrove.overlay.protocol.control_messages import RouteAck, RouteMessage, RouteSetup, RouteTeardown

MAX_LABELS = 1 << 16


class TransitLabels:
    """The next hop of every route that others have established through this gateway. Bounded."""

    def __init__(self, domain: str) -> None:
        self._domain = domain
        self._next_hops: dict[tuple[str, int, int], str] = {}

    def pass_on(
        self, message: RouteMessage, usable: Callable[[str], bool]
    ) -> list[tuple[str | None, RouteMessage]]:
        """What follows from a route message of another gateway: to whom to say what. None is nobody.

        A set-up goes on to the next hop, and is answered at its end or where it fails; an answer goes back.
        """
        if isinstance(message, RouteAck):
            return [(self._before(message.path), message)]
        if isinstance(message, RouteTeardown):
            following = self.remove(message.origin, message.epoch, message.label)
            return [(following, message)] if following is not None else []
        following, problem = self.install(message)
        if following is not None and usable(following):
            return [(following, message)]
        if following is not None:
            problem = f"the link from {self._domain} to {following} is down"
        ack = RouteAck(
            origin=message.origin,
            epoch=message.epoch,
            label=message.label,
            path=message.path,
            ok=not problem,
            reason=problem,
        )
        return [(self._before(message.path), ack)]

    def _before(self, path: list[str]) -> str | None:
        position = path.index(self._domain) if self._domain in path else 0
        return path[position - 1] if position else None

    def install(self, setup: RouteSetup) -> tuple[str | None, str]:
        """Remember the next hop of a route; returns it (None at its end), or why it cannot be."""
        path = setup.path
        if self._domain not in path or path[0] != setup.origin or len(set(path)) != len(path):
            return None, "the path does not lead through this gateway"
        position = path.index(self._domain)
        if position == len(path) - 1:
            return None, ""
        if len(self._next_hops) >= MAX_LABELS:
            return None, "too many routes"
        for key in [key for key in self._next_hops if key[0] == setup.origin and key[1] < setup.epoch]:
            del self._next_hops[key]  # routes of a gateway that has restarted since
        self._next_hops[setup.origin, setup.epoch, setup.label] = path[position + 1]
        return path[position + 1], ""

    def remove(self, origin: str, epoch: int, label: int) -> str | None:
        """Forget a route; returns where it led."""
        return self._next_hops.pop((origin, epoch, label), None)

    def next_hop(self, origin: str, epoch: int, label: int) -> str | None:
        """Where frames with this label go."""
        return self._next_hops.get((origin, epoch, label))
