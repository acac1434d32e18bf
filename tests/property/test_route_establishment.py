"""Routes are made and moved while route messages are lost, repeated and overtake each other.

Hypothesis plays the network: it delivers any message under way, again if it likes, or loses it. Whatever it
does, labels never lead in a circle; and as long as nothing has had the time to expire, what the source uses
leads all the way to the destination.
"""

from __future__ import annotations

import itertools

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.kit.engines import federation

from mangrove.model.events.event_log import EventLog
from mangrove.model.topics import Contract, TopicRules
from mangrove.overlay.links.liveness import Timing
from mangrove.overlay.links.neighbours import Neighbours
from mangrove.overlay.network.link_state import LinkStateDatabase
from mangrove.overlay.network.live_map import LiveMap
from mangrove.overlay.protocol.control_messages import (
    Heartbeat,
    HeartbeatKind,
    RouteAck,
    RouteMessage,
)
from mangrove.overlay.routes.establishment import Establishment, RouteSet
from mangrove.overlay.routes.transit_labels import LEASE_S, LINGER_S, TransitLabels

NAMES = "abcdef"
SOURCE, DESTINATION = "a", "f"
LINKS = list(itertools.combinations(NAMES, 2))
CONTRACT = Contract(match="x", paths=2)
FEDERATION = federation(*LINKS, topics=TopicRules((CONTRACT,)))
PATHS = [
    (SOURCE, *inner, DESTINATION)
    for size in range(1, 4)
    for inner in itertools.permutations(NAMES[1:-1], size)
]


def _transit(name: str) -> TransitLabels:
    others = [other for other in NAMES if other != name]
    neighbours = Neighbours(others, Timing(), 1 << 20)
    for neighbour in neighbours:
        neighbour.connect(0.0)
        answer = Heartbeat(kind=HeartbeatKind.TEST_ACK, sequence=1, sent=0.0, received=0)
        neighbour.monitor.heartbeat(answer, 0.01)
        assert neighbour.usable
    return TransitLabels(name, FEDERATION, neighbours, LinkStateDatabase(name, 1, LINKS))


class RouteEstablishment(RuleBasedStateMachine):
    """One source, one destination, four gateways between them, all linked with all."""

    @initialize()
    def build(self) -> None:
        self.now = 0.0
        self.longest_wait = 0.0
        self.transit = {name: _transit(name) for name in NAMES if name != SOURCE}
        self.signalling = Establishment(SOURCE, 1, LiveMap(FEDERATION, SOURCE), EventLog(SOURCE))
        self.routes = RouteSet(0, CONTRACT, DESTINATION)
        self.wanted: list[tuple[str, ...]] = []
        self.under_way: list[tuple[str, str, RouteMessage]] = []

    def _say(self, sender: str, messages: list[tuple[str, RouteMessage]]) -> None:
        self.under_way += [(sender, peer, message) for peer, message in messages]

    @rule(paths=st.lists(st.sampled_from(PATHS), min_size=1, max_size=2, unique=True))
    def want(self, paths: list[tuple[str, ...]]) -> None:
        self.wanted = paths
        self._mend()

    def _mend(self) -> None:
        self._say(SOURCE, self.signalling.drop_broken(self.routes, self.now, None))
        self._say(SOURCE, self.signalling.establish(self.routes, self.wanted, self.now, None))

    @rule(index=st.integers(0, 50), again=st.booleans())
    def deliver(self, index: int, again: bool) -> None:
        if not self.under_way:
            return
        index %= len(self.under_way)
        sender, receiver, message = self.under_way[index]
        if not again:
            del self.under_way[index]
        self._arrive(sender, receiver, message)

    def _arrive(self, sender: str, receiver: str, message: RouteMessage) -> None:
        if receiver != SOURCE:
            self._say(receiver, self.transit[receiver].receive(message, sender, self.now))
        elif isinstance(message, RouteAck):
            said, stands = self.signalling.acknowledge([self.routes], message, self.now)
            self._say(SOURCE, said)
            if stands is not None:
                self._mend()

    @rule()
    def deliver_all_in_order(self) -> None:
        for _ in range(300):
            if not self.under_way:
                break
            self._arrive(*self.under_way.pop(0))

    @rule(index=st.integers(0, 50))
    def lose(self, index: int) -> None:
        if self.under_way:
            del self.under_way[index % len(self.under_way)]

    @rule(seconds=st.sampled_from([0.1, 0.6, 1.1, 3.0, 12.0, LEASE_S, LEASE_S + 1]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.longest_wait += seconds
        for transit in self.transit.values():
            transit.expire(self.now)
        self._say(SOURCE, self.signalling.refresh([self.routes], self.now))
        if self.wanted:
            self._mend()

    @invariant()
    def labels_lead_somewhere(self) -> None:
        if not hasattr(self, "transit"):
            return
        labels = range(1, self.signalling._label + 1)
        for label, name in itertools.product(labels, self.transit):
            self._follow(label, name)
        for route in self.routes.active():
            end = self._follow(route.label, route.path[1])
            if self.longest_wait < LINGER_S:
                assert end == DESTINATION, f"label {route.label} ends at {end}"

    def _follow(self, label: int, name: str) -> str:
        """Where a frame with this label leaves the labelled way."""
        passed: list[str] = []
        while name != DESTINATION:
            assert name not in passed, f"label {label} leads in a circle: {passed}"
            assert name != SOURCE, f"label {label} leads back to its source: {passed}"
            passed.append(name)
            following = self.transit[name].next_hop(SOURCE, 1, label)
            if following is None:
                return name
            name = following
        return name

    @invariant()
    def all_is_in_order(self) -> None:
        if not hasattr(self, "transit"):
            return
        for transit in self.transit.values():
            assert transit.problems() == []
        versions = [route.version for route in self.routes.routes]
        assert len(set(versions)) == len(versions)

    def teardown(self) -> None:
        """When messages get through again, what is wanted stands, and nothing else."""
        if not hasattr(self, "transit") or not self.wanted:
            return
        for _ in range(8):
            self.wait(1.5)
            self.deliver_all_in_order()
        assert {route.path for route in self.routes.active()} == set(self.wanted)
        for route in self.routes.active():
            assert self._follow(route.label, route.path[1]) == DESTINATION
        wanted = list(self.wanted)
        for _ in range(10):
            self.wait(9.0)
            self.deliver_all_in_order()
        assert {route.path for route in self.routes.active()} == set(wanted), "refreshed, so it stays"
        used = {(name, route.label) for route in self.routes.active() for name in route.path[1:-1]}
        for name, transit in self.transit.items():
            assert len(transit) == len([1 for at, _ in used if at == name]), "what is not refreshed is gone"


TestRouteEstablishment = RouteEstablishment.TestCase
TestRouteEstablishment.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


def test_a_move_that_is_called_off_leaves_the_route_in_force() -> None:
    network = RouteEstablishment()
    network.build()
    network.want([("a", "b", "c", "d", "f")])
    network.deliver_all_in_order()
    network.want([("a", "b", "f")])
    network.want([("a", "b", "c", "d", "f")])
    network.teardown()
