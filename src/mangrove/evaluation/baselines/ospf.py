"""An OSPF-like link-state protocol as the baseline: hellos, advertisements, shortest paths afterwards.

What matters for failover is kept from RFC 2328: a neighbour is up when its hellos list us (two-way check) and
down after the dead interval without one; every router floods the state of its links reliably (numbered,
acknowledged, repeated); a link counts when both ends advertise it; shortest paths are computed after a
change, with a delay and an exponential hold as routers have. Left out, each to the advantage of the
baseline: areas, designated routers, the exchange of databases in steps, the least interval between own
advertisements, and the time to compute and to install routes. Packets are not acknowledged: what is sent into
a dead link is lost.

The node is sans-IO; `SimulatedRouters` runs many of them under virtual time.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from mangrove.model.site_pair import SitePair, site_pair
from mangrove.simulation.overlay_network import VirtualTime

HOP_LIMIT = 32


@dataclass(frozen=True, slots=True)
class OspfTimers:
    """Intervals in seconds; those for shortest paths and repetition are the defaults of FRRouting.

    The hold doubles while changes go on, as in Cisco's routers; FRRouting adds the first hold each time.
    """

    hello_s: float = 1.0
    dead_s: float = 4.0
    spf_delay_s: float = 0.0
    """From a change to the computation, if none was made lately."""
    spf_hold_s: float = 0.05
    """Least time between computations; doubled while changes go on, up to `spf_most_hold_s`."""
    spf_most_hold_s: float = 5.0
    repeat_s: float = 5.0


@dataclass(frozen=True, slots=True)
class HelloPacket:
    """I am here, and these are the neighbours that I hear."""

    heard: frozenset[str]


@dataclass(frozen=True, slots=True)
class Advertisement:
    """The neighbours of a router and the cost of the links to them."""

    origin: str
    number: int
    links: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """A neighbour has an advertisement."""

    origin: str
    number: int


@dataclass(frozen=True, slots=True)
class Datagram:
    """A message on its way."""

    destination: str
    body: bytes
    hop_limit: int = HOP_LIMIT


Packet = HelloPacket | Advertisement | Acknowledgement | Datagram
Sendings = list[tuple[str, Packet]]


class OspfNode:
    """One router."""

    def __init__(
        self, name: str, costs: Mapping[str, float], timers: OspfTimers, first_hello_s: float
    ) -> None:
        self.name = name
        self.next_hops: dict[str, str] = {}
        self.known_links: frozenset[SitePair] = frozenset()
        """The links that the present next hops were computed from."""
        self._costs = dict(costs)
        self._timers = timers
        self._heard: dict[str, float] = {}
        self._up: set[str] = set()
        self._number = 0
        self._database: dict[str, Advertisement] = {}
        self._pending: dict[tuple[str, str], float] = {}
        self._next_hello = first_hello_s
        self._spf_at: float | None = None
        self._spf_done = float("-inf")
        self._hold_s = timers.spf_hold_s

    def timer(self) -> float:
        """When `handle_timer` wants to be called next."""
        times = [self._next_hello, *self._pending.values()]
        times += [self._heard[peer] + self._timers.dead_s for peer in self._up]
        if self._spf_at is not None:
            times.append(self._spf_at)
        return min(times)

    def handle_timer(self, now: float) -> Sendings:
        """Hellos, silent neighbours, repeated advertisements, shortest paths."""
        out: Sendings = []
        silent = {peer for peer in self._up if now >= self._heard[peer] + self._timers.dead_s}
        if silent:
            self._up -= silent
            for peer in silent:
                del self._heard[peer]
            self._pending = {key: due for key, due in self._pending.items() if key[0] not in silent}
            out += self._advertise(now)
        if now >= self._next_hello:
            self._next_hello += self._timers.hello_s
            hello = HelloPacket(frozenset(self._heard))
            out += [(peer, hello) for peer in self._costs]
        for (peer, origin), due in self._pending.items():
            if now >= due:
                self._pending[peer, origin] = now + self._timers.repeat_s
                out.append((peer, self._database[origin]))
        if self._spf_at is not None and now >= self._spf_at:
            self._spf_at = None
            self._spf_done = now
            self._compute()
        return out

    def receive(self, peer: str, packet: Packet, now: float) -> Sendings:
        """A control packet from a neighbour."""
        match packet:
            case HelloPacket(heard):
                self._heard[peer] = now
                if self.name in heard and peer not in self._up:
                    self._up.add(peer)
                    everything: Sendings = [
                        self._expect(peer, known, now) for known in self._database.values()
                    ]
                    return [*everything, *self._advertise(now)]
                return []
            case Advertisement(origin, number):
                answer: Sendings = [(peer, Acknowledgement(origin, number))]
                known = self._database.get(origin)
                if origin == self.name or (known is not None and known.number >= number):
                    return answer
                self._database[origin] = packet
                self._plan_computation(now)
                return answer + self._flood(packet, peer, now)
            case Acknowledgement(origin, number):
                if number >= self._database[origin].number:
                    self._pending.pop((peer, origin), None)
                return []
            case Datagram():
                raise TypeError("datagrams are forwarded by `way`")

    def way(self, destination: str) -> str | None:
        """The next hop of a datagram, dead or not."""
        return self.next_hops.get(destination)

    # -- inside -------------------------------------------------------------------------------------------

    def _advertise(self, now: float) -> Sendings:
        self._number += 1
        links = tuple((peer, self._costs[peer]) for peer in sorted(self._up))
        own = self._database[self.name] = Advertisement(self.name, self._number, links)
        self._plan_computation(now)
        return self._flood(own, None, now)

    def _flood(self, news: Advertisement, source: str | None, now: float) -> Sendings:
        return [self._expect(peer, news, now) for peer in sorted(self._up) if peer != source]

    def _expect(self, peer: str, news: Advertisement, now: float) -> tuple[str, Packet]:
        self._pending[peer, news.origin] = now + self._timers.repeat_s
        return peer, news

    def _plan_computation(self, now: float) -> None:
        if self._spf_at is not None:
            return
        if now - self._spf_done < self._hold_s:
            self._spf_at = self._spf_done + self._hold_s
            self._hold_s = min(2 * self._hold_s, self._timers.spf_most_hold_s)
        else:
            self._spf_at = now + self._timers.spf_delay_s
            self._hold_s = self._timers.spf_hold_s

    def _compute(self) -> None:
        """Dijkstra over the links that both ends advertise; of equal ways the first by name."""
        costs = {news.origin: dict(news.links) for news in self._database.values()}
        self.known_links = frozenset(
            (first, second)
            for first, links in costs.items()
            for second in links
            if first < second and first in costs.get(second, {})
        )
        self.next_hops = {}
        done: set[str] = set()
        queue: list[tuple[float, str, str]] = [(0.0, "", self.name)]
        while queue:
            distance, first_hop, here = heapq.heappop(queue)
            if here in done:
                continue
            done.add(here)
            if first_hop:
                self.next_hops[here] = first_hop
            for peer, cost in costs.get(here, {}).items():
                if peer not in done and here in costs.get(peer, {}):
                    heapq.heappush(queue, (distance + cost, first_hop or peer, peer))


@dataclass(slots=True)
class _Wire:
    delay_s: float
    black_hole: bool = False


class SimulatedRouters(VirtualTime):
    """Routers and links in virtual time. A link that swallows loses what is on it."""

    def __init__(self, delays_ms: Mapping[SitePair, float], seed: int, timers: OspfTimers) -> None:
        super().__init__(seed)
        self.delivered: Counter[tuple[str, bytes]] = Counter()
        self.delivered_at: dict[tuple[str, bytes], float] = {}
        self.dropped: Counter[str] = Counter()
        self._wires = {pair: _Wire(delay / 1000) for pair, delay in delays_ms.items()}
        self._wake_at: dict[str, float] = {}
        self.nodes: dict[str, OspfNode] = {}
        for name in sorted({name for pair in delays_ms for name in pair}):
            costs = {
                first if second == name else second: delay
                for (first, second), delay in delays_ms.items()
                if name in (first, second)
            }
            self.nodes[name] = OspfNode(name, costs, timers, self.random.uniform(0.0, timers.hello_s))
            self._carry_out(name, [])

    def black_hole(self, first: str, second: str, swallow: bool) -> None:
        """A link begins or ceases to swallow everything."""
        self._wires[site_pair(first, second)].black_hole = swallow

    def crash(self, name: str) -> None:
        """A router is gone, without a word."""
        del self.nodes[name]

    def publish(self, name: str, destination: str, body: bytes) -> None:
        """A message enters at a router."""
        if name in self.nodes:
            self._forward(name, Datagram(destination, body))

    def failed(self, name: str) -> frozenset[SitePair]:
        """The links that a router's next hops do not count on."""
        return frozenset(self._wires) - self.nodes[name].known_links

    def _forward(self, name: str, datagram: Datagram) -> None:
        if datagram.destination == name:
            self.delivered[name, datagram.body] += 1
            self.delivered_at.setdefault((name, datagram.body), self.now)
            return
        peer = self.nodes[name].way(datagram.destination)
        if peer is None or not datagram.hop_limit:
            self.dropped["no way" if peer is None else "hop limit reached"] += 1
            return
        self._send(name, peer, Datagram(datagram.destination, datagram.body, datagram.hop_limit - 1))

    def _carry_out(self, name: str, sendings: Iterable[tuple[str, Packet]]) -> None:
        for peer, packet in sendings:
            self._send(name, peer, packet)
        due = self.nodes[name].timer()
        if due < self._wake_at.get(name, float("inf")):
            self._wake_at[name] = due
            self.at(due, partial(self._wake, name, due))

    def _wake(self, name: str, due: float) -> None:
        if self._wake_at.get(name) == due:
            del self._wake_at[name]
            if name in self.nodes:
                self._carry_out(name, self.nodes[name].handle_timer(self.now))

    def _send(self, name: str, peer: str, packet: Packet) -> None:
        wire = self._wires[site_pair(name, peer)]
        self.at(self.now + wire.delay_s, partial(self._arrive, wire, name, peer, packet))

    def _arrive(self, wire: _Wire, sender: str, name: str, packet: Packet) -> None:
        if wire.black_hole or name not in self.nodes:
            self.dropped["swallowed"] += isinstance(packet, Datagram)
        elif isinstance(packet, Datagram):
            self._forward(name, packet)
        else:
            self._carry_out(name, self.nodes[name].receive(sender, packet, self.now))
