"""Domains, clients and traffic of a schedule, and the faults that befall them."""

from __future__ import annotations

from functools import partial

from mangrove.control.stimuli import Stimulus
from mangrove.model.agents.peers import PeerMessage
from mangrove.model.agents.registration import ClientRole
from mangrove.model.agents.usefulness import CapacityTold
from mangrove.simulation.agents.schedule import START_S, Cut, Fault, FaultKind, Schedule
from mangrove.simulation.agents.virtual.brokers import Traffic, VirtualBroker
from mangrove.simulation.agents.virtual.clients import Held, VirtualClient
from mangrove.simulation.agents.virtual.domain import VirtualDomain
from mangrove.simulation.agents.virtual.world import World


class VirtualFederation:
    """Everything that a schedule is played on."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.world = World(schedule.seed)
        self.world.loss_ratio = schedule.loss_ratio
        self.world.late_ratio = schedule.late_ratio
        self.traffic = Traffic(self.world)
        self._make_brokers()
        self.clients: dict[str, VirtualClient] = {}
        self._make_clients()
        self.domains = {
            name: VirtualDomain(
                name, schedule.federation, self.world, self.traffic, self.clients, self._tell_peer
            )
            for name in schedule.capacities
        }

    def _make_brokers(self) -> None:
        for domain, (head, *edges) in self.schedule.capacities.items():
            names = [f"{domain}-edge{number + 1}" for number in range(len(edges))]
            self.traffic.edges_of[domain] = names
            for name, capacity in zip([f"{domain}-head", *names], (head, *edges), strict=True):
                is_head = name.endswith("-head")
                self.traffic.brokers[name] = VirtualBroker(name, domain, is_head, capacity, self.traffic)

    def _make_clients(self) -> None:
        held: dict[str, list[Held]] = {
            f"{domain}-c{number}": []
            for domain, count in self.schedule.clients.items()
            for number in range(count)
        }
        for topic in self.schedule.topics:
            self.traffic.rates[topic.name] = self.traffic.offered[topic.name] = topic.rate
            self.traffic.sizes[topic.name] = topic.size_bytes
            self.traffic.published_in[topic.name] = topic.domain
            self.traffic.publishers[topic.name] = f"{topic.domain}-c{topic.publisher}"
            publisher = held[self.traffic.publishers[topic.name]]
            publisher.append(Held(f"p/{topic.name}", topic.name, ClientRole.PUBLISHER, topic.domain))
            for domain, number in topic.subscribers:
                subscriber = held[f"{domain}-c{number}"]
                subscriber.append(Held(f"s/{topic.name}", topic.name, ClientRole.SUBSCRIBER, domain))
        for name, wishes in held.items():
            if wishes:
                self.clients[name] = VirtualClient(name, self.world, self.traffic, self._tell, wishes)

    def _tell(self, domain: str, stimulus: Stimulus) -> None:
        self.domains[domain].tell(stimulus)

    def _tell_peer(self, sender: str, receiver: str, message: PeerMessage) -> None:
        self.domains[receiver].tell_from(sender, message)

    def start(self) -> None:
        """Agents first, clients in the seconds after; bursts and faults when they are due."""
        for domain in self.domains.values():
            self.world.at(0.0, domain.start)
        for client in self.clients.values():
            self.world.at(self.world.random.uniform(0.1, START_S - 2.0), client.start)
        for burst in self.schedule.bursts:
            rate = self.traffic.offered[burst.topic]
            self.world.at(burst.start_s, partial(self.traffic.set_rate, burst.topic, rate * burst.factor))
            self.world.at(burst.end_s, partial(self.traffic.set_rate, burst.topic, rate))
        for cut in self.schedule.cuts:
            self.world.at(cut.start_s, partial(self._cut, cut, cut.part))
            self.world.at(cut.end_s, partial(self._cut, cut, 1.0))
        for fault in self.schedule.faults:
            self.world.at(fault.start_s, partial(self._begin, fault))
            self.world.at(fault.end_s, partial(self._finish, fault))

    def _cut(self, cut: Cut, part: float) -> None:
        """A broker can carry only a part of what it could, or all again; an operator says so."""
        self.traffic.brokers[cut.broker].part = part
        self.traffic.changed_at = self.traffic.offered_at = self.world.now
        told = CapacityTold(broker=cut.broker, matching=part)
        self.domains[cut.domain].operator_says(told)

    def _begin(self, fault: Fault) -> None:
        domain = self.domains[fault.domain]
        clients = [client for client in self.clients.values() if client.alive]
        match fault.kind:
            case FaultKind.AGENT_DIES:
                domain.die(fault.end_s - fault.start_s)
            case FaultKind.AGENT_DIES_AT_STEP:
                domain.die_after = fault.number
            case FaultKind.STORE_AWAY:
                domain.store.away = True
            case FaultKind.CLIENT_DIES:
                clients[fault.number % len(clients)].die()
            case FaultKind.CLIENT_LEAVES:
                clients[fault.number % len(clients)].leave()
            case FaultKind.BROKER_SILENT:
                self._broker(fault).reachable = False
            case FaultKind.CUT_OFF:
                self.world.loss_ratio = 1.0

    def _finish(self, fault: Fault) -> None:
        match fault.kind:
            case FaultKind.STORE_AWAY:
                self.domains[fault.domain].store.away = False
            case FaultKind.BROKER_SILENT:
                self._broker(fault).reachable = True
            case FaultKind.CUT_OFF:
                self.world.loss_ratio = self.schedule.loss_ratio
            case FaultKind.AGENT_DIES_AT_STEP:
                self.domains[fault.domain].die_after = None
            case _:
                pass

    def _broker(self, fault: Fault) -> VirtualBroker:
        edges = self.traffic.edges_of[fault.domain]
        return self.traffic.brokers[edges[fault.number % len(edges)]]
