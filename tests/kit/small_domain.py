"""A domain of three edges for offload sessions: loads follow from where topics are, clients do as told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count

from mangrove.control.clients.placements import WishId
from mangrove.control.instructions import Instruction, Store, TellClient
from mangrove.control.offloading.problem import Audience, Bundle, Member
from mangrove.control.sessions.coordinator import Coordinator
from mangrove.model.agents.load import Amounts, BrokerLoad, ClusterLoad, LoadState, Metric
from mangrove.model.agents.registration import Assignment, Migrated, Order
from mangrove.model.balancing import Balancing
from mangrove.model.events.event_log import EventId, EventLog

CAPACITY = 1000.0


class SmallDomain:
    """`rates` are messages/s by topic, `places` say which edge serves each; one client for each topic."""

    def __init__(self, rates: dict[str, float], places: dict[str, str], **deadlines_s: float) -> None:
        self.rates = rates
        self.places = places
        self.deadlines_s = deadlines_s
        self.brokers = {"head": "head", "edge1": "edge", "edge2": "edge", "edge3": "edge"}
        self.busy: dict[str, str] = {}
        self.peers: dict[str, ClusterLoad] = {}
        self.staying: set[str] = set()
        self.head_load = 0.0
        self.kicks: tuple[Instruction, ...] = ()
        """What is done about plain clients when nothing else suffices."""
        self.rising: set[str] = set()
        self.log = EventLog("oslo-agent")
        numbers = count(1)
        self.coordinator = Coordinator(
            "oslo",
            Balancing(),
            self,
            self.log,
            number=lambda: next(numbers),
            clock_shift_s=1e9,
            disconnect=lambda *_: list(self.kicks),
        )

    # -- what sessions ask

    def loads(self, now: float) -> Mapping[str, BrokerLoad]:
        return {broker: self.load(broker) for broker in self.brokers}

    def load(self, broker: str) -> BrokerLoad:
        rate = sum(rate for topic, rate in self.rates.items() if self.places[topic] == broker)
        share = (self.head_load if broker == "head" else rate) / CAPACITY
        measured = LoadState.OVERLOAD if share >= 0.95 else LoadState.HIGH if share >= 0.9 else LoadState.LOW
        return BrokerLoad(
            broker=broker,
            role=self.brokers[broker],
            state=LoadState.BUSY if broker in self.busy else measured,
            measured=measured,
            utilisation={Metric.MATCHING: share},
            capacity={Metric.MATCHING: CAPACITY},
            headroom=0.95 - share,
            overloaded=(Metric.MATCHING,) if measured is LoadState.OVERLOAD else (),
            messages_in_s=share * CAPACITY,
            session=self.busy.get(broker, ""),
            rising=broker in self.rising,
        )

    def set_busy(self, broker: str, session: str) -> bool:
        return self.busy.setdefault(broker, session) == session

    def clear_busy(self, broker: str, session: str) -> None:
        if self.busy.get(broker) == session:
            del self.busy[broker]

    def changed_by(self, broker: str) -> EventId | None:
        return f"oslo-agent-overload-{broker}"

    def bundles(self, broker: str, now: float, *, publishers: bool) -> Sequence[Bundle]:
        at = "head" if publishers else broker
        return [
            Bundle(
                topic=topic,
                audience=Audience.REMOTE if publishers else Audience.LOCAL,
                deadline_s=self.deadlines_s.get(topic, 1.0),
                load=Amounts(0.0, 0.0, rate),
                stream=Amounts(0.0, 0.0, rate),
                output=0.0,
                members=(Member(f"client-{topic}", "s", Amounts()),),
            )
            for topic, rate in self.rates.items()
            if self.places[topic] == at
        ]

    def topics_at(self, broker: str) -> frozenset[str]:
        return frozenset(topic for topic, place in self.places.items() if place == broker)

    def members(self, topic: str, broker: str, *, publishers: bool) -> Iterable[WishId]:
        return [(f"client-{topic}", "s")] if self.places[topic] == broker else []

    def assignment(self, topic: str, broker: str) -> Assignment:
        return Assignment(broker=broker, url=f"nats://{broker}", epoch=1)

    def follow(self, topic: str, now: float, decision: EventId | None) -> None:
        pass

    def may_leave(self, topic: str) -> bool:
        return topic not in self.staying

    def neighbours(self, now: float) -> Mapping[str, ClusterLoad]:
        return self.peers

    def pause_s(self, peer: str) -> float:
        return 0.1

    # -- what clients and the store do

    def store(self, told: Iterable[Instruction], now: float) -> list[Instruction]:
        """Every write comes about; what follows from that."""
        following: list[Instruction] = []
        for each in told:
            if isinstance(each, Store):
                following += self.coordinator.stored(each.write, now)
        return following

    def obey(self, told: Iterable[Instruction], now: float) -> list[Instruction]:
        """All clients do as they are told, and say so."""
        following: list[Instruction] = []
        for each in told:
            if isinstance(each, TellClient) and isinstance(each.order, Order):
                topic = each.client.removeprefix("client-")
                self.places[topic] = each.order.to.broker
                done = Migrated(
                    client=each.client,
                    sequence=1,
                    session=each.order.session,
                    key=each.order.key,
                    broker=each.order.to.broker,
                )
                following += self.coordinator.confirmed(done, now)
        return following

    def kinds(self) -> list[str]:
        """Kinds of the events so far."""
        return [event.kind for event in self.log.recent]
