"""One workload with and without steering: the brains of all domains in virtual time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from mangrove.control.events.session_happenings import SessionOpened
from mangrove.control.events.steering_happenings import GuestsRecalled
from mangrove.control.steering.distances import Distances
from mangrove.control.stimuli import Stimulus
from mangrove.evaluation.steering.workload import (
    HEAD_CAPACITY,
    LAST_MILE_MS,
    Setting,
    Subscriber,
    Workload,
    draw_workload,
)
from mangrove.model.agents.peers import PeerMessage
from mangrove.model.agents.registration import ClientOrder, ClientRole, Order
from mangrove.model.federation import Federation
from mangrove.simulation.agents.virtual.brokers import Traffic, VirtualBroker
from mangrove.simulation.agents.virtual.clients import Held, VirtualClient
from mangrove.simulation.agents.virtual.domain import VirtualDomain
from mangrove.simulation.agents.virtual.world import World

END_S = 100.0
"""The last subscriber comes at 25 s, and nobody is led anywhere a minute after it came."""
OVERLOADED = 0.95


@dataclass(frozen=True, slots=True)
class Measured:
    """How a federation stands when all is settled."""

    link_msg_s: float
    """Messages a second over links between domains, each link counted."""
    line_msg_s: float
    """Messages a second over clients' own lines between places, in the links that lead there."""
    mean_ms: float
    """From publisher to subscriber, one way, over all that is delivered."""
    p95_ms: float
    busiest: float
    """Utilisation of the busiest edge."""
    overload_s: int
    """Seconds in which some edge was above its threshold, summed over edges."""
    sessions: int
    moved: int
    """Subscribers that are served in another domain than the one where they registered."""
    orders: int
    """Orders that were carried out, in the largest number of one subscriber."""
    recalled: int


Trial = dict[str, Measured]
"""`home` and `steered`, on the same workload."""


def run_seed(setting: Setting, seed: int) -> Trial:
    """One workload, without steering and with it."""
    workload = draw_workload(seed, setting)
    return {
        "home": Playing(workload, steer=False).result(),
        "steered": Playing(workload, steer=True).result(),
    }


class TravellingClient(VirtualClient):
    """Goes where it is told if that is near enough, and stays a client of the domain where it registered."""

    failing = 0.0

    def __init__(
        self, subscriber: Subscriber, world: World, traffic: Traffic, run: Playing, held: list[Held]
    ) -> None:
        super().__init__(subscriber.name, world, traffic, run.tell, held)
        self._place = subscriber.place
        self._run = run
        self._come = False

    def start(self) -> None:
        """It comes."""
        self._come = True
        super().start()

    def announced(self, domain: str, term: int, spread_s: float) -> None:
        """Who has not come yet hears nothing."""
        if self._come:
            super().announced(domain, term, spread_s)

    def ordered(self, domain: str, order: ClientOrder) -> None:
        """As a client of the SDK does: measure, then go or say why not."""
        held = self.held.get(order.key) if isinstance(order, Order) else None
        if isinstance(order, Order) and held is not None and order.slack_ms is not None and not held.moving:
            here_ms = self._run.round_trip_ms(self._place, held.broker)
            there_ms = self._run.round_trip_ms(self._place, order.to.broker)
            if there_ms > here_ms + order.slack_ms:
                self._confirm(domain, order, "it is too far", held.broker)
                return
        super().ordered(domain, order)

    def _moved(self, domain: str, order: Order, held: Held) -> None:
        """It stays a client of its own domain, wherever it is served."""
        held.moving = False
        self._let_go(held)
        held.broker, held.since = order.to.broker, self._world.now
        self._confirm(domain, order)


class Playing:
    """All agents, brokers and clients of a workload, as they stand at a moment."""

    def __init__(self, workload: Workload, *, steer: bool) -> None:
        self._workload = workload
        self._federation: Federation = workload.federation(steer=steer)
        self.world = World(workload.seed)
        self.traffic = Traffic(self.world)
        self._distances = Distances(self._federation)
        self.clients: dict[str, VirtualClient] = {}
        self._overload_s = 0
        self._domain_of: dict[str, str] = {}
        self._make_brokers()
        self._make_clients()
        self.domains = {
            name: VirtualDomain(
                name, self._federation, self.world, self.traffic, self.clients, self._tell_peer
            )
            for name in self._federation.domains
        }

    def _make_brokers(self) -> None:
        setting = self._workload.setting
        for domain in self._federation.domains:
            edges = [f"{domain}-edge{number + 1}" for number in range(setting.edges)]
            self.traffic.edges_of[domain] = edges
            for name in (f"{domain}-head", *edges):
                head = name not in edges
                capacity = HEAD_CAPACITY if head else setting.capacity_msg_s
                self.traffic.brokers[name] = VirtualBroker(name, domain, head, capacity, self.traffic)
                self._domain_of[name] = domain

    def _make_clients(self) -> None:
        for topic in self._workload.topics:
            name = f"p-{topic.name}"
            self.traffic.rates[topic.name] = self.traffic.offered[topic.name] = topic.rate
            self.traffic.sizes[topic.name] = 100.0
            self.traffic.published_in[topic.name] = topic.domain
            self.traffic.publishers[topic.name] = name
            held = [Held(f"p/{topic.name}", topic.name, ClientRole.PUBLISHER, topic.domain)]
            self.clients[name] = VirtualClient(name, self.world, self.traffic, self.tell, held)
            self.world.at(self.world.random.uniform(1.0, 3.0), self.clients[name].start)
        for subscriber in self._workload.subscribers:
            held = [Held(f"s/{subscriber.topic}", subscriber.topic, ClientRole.SUBSCRIBER, subscriber.home)]
            client = TravellingClient(subscriber, self.world, self.traffic, self, held)
            self.clients[subscriber.name] = client
            self.world.at(subscriber.at_s, client.start)

    def start(self) -> None:
        """Agents begin; clients come when they are due."""
        for domain in self.domains.values():
            self.world.at(0.0, domain.start)

    def tell(self, domain: str, stimulus: Stimulus) -> None:
        """A client says something to its agent."""
        self.domains[domain].tell(stimulus)

    def _tell_peer(self, sender: str, receiver: str, message: PeerMessage) -> None:
        self.domains[receiver].tell_from(sender, message)

    def round_trip_ms(self, place: str, broker: str) -> float:
        """Between a client and a broker."""
        return self._workload.round_trip_ms(place, self._domain_of[broker])

    # -- measuring ------------------------------------------------------------------------------------------

    def result(self) -> Measured:
        """Let it settle, and measure."""
        self.start()
        for second in range(1, int(END_S) + 1):
            self.world.run(float(second))
            edges = (each for each in self.traffic.brokers.values() if not each.head)
            self._overload_s += sum(each.utilisation >= OVERLOADED for each in edges)
        events = [event.happening for domain in self.domains.values() for event in domain.events]
        obeyed = [len(self.clients[each.name].obeyed) for each in self._workload.subscribers]
        served = {each.name: self.served_in(each) for each in self._workload.subscribers}
        mean_ms, p95_ms = self._delays(served)
        return Measured(
            link_msg_s=self._over_links(served),
            line_msg_s=self._over_lines(served),
            mean_ms=mean_ms,
            p95_ms=p95_ms,
            busiest=max(each.utilisation for each in self.traffic.brokers.values() if not each.head),
            overload_s=self._overload_s,
            sessions=sum(isinstance(each, SessionOpened) for each in events),
            moved=sum(served[each.name] != each.home for each in self._workload.subscribers),
            orders=max(obeyed, default=0),
            recalled=sum(each.clients for each in events if isinstance(each, GuestsRecalled)),
        )

    def served_in(self, subscriber: Subscriber) -> str:
        """The domain that serves a subscriber."""
        (held,) = self.clients[subscriber.name].held.values()
        assert held.broker, "all have been placed by now"
        return self._domain_of[held.broker]

    def _over_links(self, served: dict[str, str]) -> float:
        """A topic crosses each link of the ways to its subscribers once, however many there are."""
        wanted: dict[str, set[str]] = {}
        for each in self._workload.subscribers:
            wanted.setdefault(each.topic, set()).add(served[each.name])
        total = 0.0
        for topic in self._workload.topics:
            crossed: set[tuple[str, str]] = set()
            for domain in wanted.get(topic.name, ()):
                crossed.update(self._way(topic.domain, domain))
            total += topic.rate * len(crossed)
        return total

    def _way(self, source: str, destination: str) -> list[tuple[str, str]]:
        """The links of the way of least delay, found from its end."""
        way = []
        while destination != source:
            before = min(
                (link.other(destination) for link in self._federation.links_of(destination)),
                key=lambda each: (
                    self._distances.delay_ms(source, each) + self._distances.delay_ms(each, destination),
                    each,
                ),
            )
            way.append((before, destination))
            destination = before
        return way

    def _over_lines(self, served: dict[str, str]) -> float:
        rates = self.traffic.rates
        return sum(
            rates[each.topic] * self._distances.links(served[each.name], each.place)
            for each in self._workload.subscribers
        )

    def _delays(self, served: dict[str, str]) -> tuple[float, float]:
        """Mean and 95th percentile over deliveries."""
        homes = {topic.name: topic.domain for topic in self._workload.topics}
        weighed: Counter[float] = Counter()
        for each in self._workload.subscribers:
            domain = served[each.name]
            line_ms = self._workload.round_trip_ms(each.place, domain) / 2
            delay_ms = self._distances.delay_ms(homes[each.topic], domain) + line_ms
            weighed[delay_ms] += int(self.traffic.rates[each.topic])
        total = sum(weighed.values())
        mean = sum(delay * count for delay, count in weighed.items()) / total
        left = 0.95 * total
        for delay in sorted(weighed):
            left -= weighed[delay]
            if left <= 0:
                return mean, delay
        return mean, LAST_MILE_MS
