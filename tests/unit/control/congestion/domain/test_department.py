"""An agent's brain limits publishers: by contract, by usefulness, at the gateway, and over its own death."""

from __future__ import annotations

from itertools import pairwise

from mangrove.control.brain import AgentBrain
from mangrove.control.congestion.domain.stored import CAPACITIES_KEY, LIMITS_KEY
from mangrove.control.instructions import Instruction, LimitGateway, Store, TellClient, TellPeer
from mangrove.control.stimuli import (
    BrokerSampled,
    CapacityChanged,
    ClientRegistered,
    ClientSaid,
    GatewayAnswered,
    LeadershipTaken,
    PeerSaid,
    Stimulus,
    Stored,
    TopicsCounted,
)
from mangrove.model.agents.load import BrokerSample
from mangrove.model.agents.peers import Advertise, Advertisement, PeerRegistered
from mangrove.model.agents.registration import ClientRole, Leave, Registration, Report, Traffic, Wish
from mangrove.model.agents.usefulness import (
    CapacityTold,
    GatewayLimited,
    LimitsOrdered,
    TopicOpinion,
    UsefulnessTold,
    Vote,
)
from mangrove.model.congestion.rate_limit import LimitCause
from mangrove.model.federation import Domain, Edge, Federation, Link
from mangrove.model.topics import Contract, TopicRules

CLOCK_S = 1e9
SIZE = 100


class Played:
    """A domain of one edge, whose clients say what they may and report it."""

    def __init__(self, *contracts: Contract, domains: tuple[str, ...] = ("oslo",)) -> None:
        self.federation = Federation(
            name="f",
            domains={
                name: Domain(name=name, base_port=4000 + 100 * number, edges=(Edge(capacity=1000.0),))
                for number, name in enumerate(domains)
            },
            links=tuple(Link(between=pair) for pair in pairwise(domains)),
            topics=TopicRules(contracts),
        )
        self.now = 0.0
        self.term = 0
        self.store: dict[str, bytes] = {}
        self.talk: dict[tuple[str, str], float] = {}
        """By client and topic, what it would say."""
        self.votes: dict[str, float] = {}
        """By client, how useful it is."""
        self.topics: tuple[str, ...] = ("alert", "t")
        self.limits: dict[str, LimitsOrdered] = {}
        self.told: list[Instruction] = []
        self.delivered: dict[str, int] = {}
        self.counted = {"oslo-head": 0, "oslo-edge1": 0}
        self.sequence = 0
        self.lead()

    def lead(self) -> None:
        """An agent takes the lead, with what the store has."""
        self.term += 1
        self.brain = AgentBrain(
            self.federation,
            "oslo",
            "oslo-agent",
            seed=1,
            clock_shift_s=CLOCK_S,
            events_before=self.term * 1000,
        )
        self.handle(LeadershipTaken(term=self.term, sessions=tuple(self.store.values())))

    def handle(self, stimulus: Stimulus) -> None:
        self.carry_out(self.brain.handle(stimulus, self.now))

    def carry_out(self, told: list[Instruction]) -> None:
        self.told += told
        for each in told:
            if isinstance(each, TellClient) and isinstance(each.order, LimitsOrdered):
                self.limits[each.client] = each.order
            elif isinstance(each, Store):
                for write in each.writes:
                    if write.bucket == "sessions":
                        self.store.pop(write.key, None)
                        if write.value is not None:
                            self.store[write.key] = write.value
                self.handle(Stored(each.write))

    def register(self) -> None:
        for client in {client for client, _ in self.talk}:
            wishes = tuple(
                Wish(key=topic, role=ClientRole.PUBLISHER, subject=topic)
                for each, topic in self.talk
                if each == client
            )
            self.said(client, wishes)
        listening = tuple(Wish(key=topic, role=ClientRole.SUBSCRIBER, subject=topic) for topic in self.topics)
        self.said("desk", listening)

    def said(self, client: str, wishes: tuple[Wish, ...]) -> None:
        self.sequence += 1
        registration = Registration(
            client=client,
            name=client,
            sequence=self.sequence,
            public_key=b"",
            exchange_key=b"",
            origin=f"id-{client}",
            wishes=wishes,
        )
        self.handle(ClientRegistered(registration, self.sequence))

    def rate(self, client: str, topic: str) -> float:
        limit = self.limits[client].limits.get(topic) if client in self.limits else None
        offered = self.talk[client, topic]
        return offered if limit is None or limit.msg_s is None else min(offered, limit.msg_s)

    def second(self) -> None:
        """Everybody speaks, reports and is measured."""
        self.now += 1.0
        rates = {key: self.rate(*key) for key in self.talk}
        for client in {client for client, _ in self.talk}:
            mine = {topic: key for key in self.talk if key[0] == client for topic in (key[1],)}
            self.report(
                client,
                published={topic: _traffic(rates[key]) for topic, key in mine.items()},
                withheld={topic: _traffic(self.talk[key] - rates[key]) for topic, key in mine.items()},
            )
        votes = {
            topic: {
                f"id-{client}": Vote(max(1, int(rate)), self.votes.get(client, 0.5))
                for (client, other), rate in rates.items()
                if other == topic
            }
            for topic in self.topics
        }
        self.report("desk", votes=votes)
        for broker in self.counted:
            self.counted[broker] += round(sum(rates.values())) + sum(self.delivered.values())
            self.handle(
                BrokerSampled(
                    BrokerSample(
                        broker=broker,
                        started="once",
                        messages_in=self.counted[broker],
                        messages_out=self.counted[broker],
                        bytes_in=self.counted[broker] * SIZE,
                        bytes_out=self.counted[broker] * SIZE,
                    )
                )
            )
        if self.delivered:
            self.handle(TopicsCounted(span_s=1.0, sent={}, delivered=self.delivered))
        while self.brain.timer() <= self.now:
            self.carry_out(self.brain.handle_timer(self.now))

    def report(self, client: str, **parts: object) -> None:
        self.sequence += 1
        epoch = self.limits[client].epoch if client in self.limits else 0
        message = Report(client=client, sequence=self.sequence, span_s=1.0, limits_epoch=epoch, **parts)  # type: ignore[arg-type]
        self.handle(ClientSaid(message))

    def seconds(self, count: int) -> None:
        for _ in range(count):
            self.second()

    def kinds(self) -> list[str]:
        return [event.kind for event in self.brain.take_events()]


def _traffic(rate: float) -> Traffic:
    return Traffic(round(rate), round(rate) * SIZE)


def congested(**capacity: float) -> Played:
    played = Played(Contract(match="alert", protected=True))
    played.talk = {("a", "alert"): 100.0, ("good", "t"): 300.0, ("bad", "t"): 300.0}
    played.votes = {"good": 0.9, "bad": 0.1}
    played.register()
    played.seconds(4)
    assert not played.limits, "nothing is told while there is room"
    played.handle(CapacityChanged(CapacityTold(broker="oslo-edge1", matching=0.5)))
    return played


def test_the_useless_is_limited_the_moment_capacity_is_cut_and_all_are_free_after_it_returns() -> None:
    played = congested()
    assert played.limits["bad"].limits["t"].cause is LimitCause.CONGESTION
    assert played.limits["bad"].limits["t"].msg_s < 60.0  # type: ignore[operator]
    played.seconds(5)
    assert "a" not in played.limits, "it is protected"
    assert "good" not in played.limits
    status = played.brain.status(played.now)
    assert status.congestion.state == "congested"
    assert status.congested == ("oslo-edge1",)
    assert status.congestion.capacities == {"oslo-edge1": (1.0, 0.5)}
    assert status.congestion.limits[0].publisher == "bad"
    assert status.brokers[1].utilisation["matching"] < 0.95  # type: ignore[index]
    assert [topic.protected for topic in status.congestion.topics if topic.topic == "alert"] == [True]
    played.handle(CapacityChanged(CapacityTold(broker="oslo-edge1")))
    played.seconds(15)
    assert played.limits["bad"].limits == {}
    status = played.brain.status(played.now)
    assert (status.congestion.state, status.congestion.limited, status.congested) == ("clear", 0, ())
    assert not played.store.keys() & {LIMITS_KEY, CAPACITIES_KEY}
    story = played.kinds()
    wanted = ["CapacityTold", "CongestionDeclared", "PublishersLimited", "LimitsRaised", "CongestionOver"]
    assert [kind for kind in dict.fromkeys(story) if kind in wanted] == wanted
    assert played.brain.problems() == []


def test_a_successor_neither_lifts_nor_forgets_limits() -> None:
    played = congested()
    played.seconds(4)
    before = played.limits["bad"].limits["t"].msg_s
    assert played.store.keys() >= {LIMITS_KEY, CAPACITIES_KEY}
    played.lead()
    assert played.limits["bad"].limits["t"].msg_s == before
    assert played.limits["bad"].term == 2
    played.register()
    for _ in range(10):
        played.second()
        assert played.limits["bad"].limits, "it is set free and caught again"
        assert "good" not in played.limits
    assert played.brain.status(played.now).congestion.capacities == {"oslo-edge1": (1.0, 0.5)}


def test_publishers_of_a_topic_share_its_contract_and_who_is_alone_is_told_nothing() -> None:
    played = Played(Contract(match="t", rate_msg_s=100.0))
    played.talk = {("one", "t"): 500.0}
    played.register()
    played.seconds(3)
    assert not played.limits
    played.talk["two", "t"] = 500.0
    played.register()
    played.seconds(3)
    for client in ("one", "two"):
        limit = played.limits[client].limits["t"]
        assert limit.cause is LimitCause.CONTRACT
        assert 49.0 <= (limit.msg_s or 0.0) <= 51.0
    assert played.brain.status(played.now).congestion.limited == 2
    played.sequence += 1
    played.handle(ClientSaid(Leave(client="two", sequence=played.sequence)))
    del played.talk["two", "t"]
    played.seconds(2)
    assert played.limits["one"].limits == {}


def test_what_comes_from_other_domains_is_limited_at_the_gateway() -> None:
    played = Played(domains=("oslo", "bonn"))
    played.talk = {("good", "t"): 300.0}
    played.votes = {"good": 0.9}
    played.topics = ("alert", "t", "far")
    played.delivered = {"far": 400}
    played.register()
    played.seconds(4)
    played.handle(CapacityChanged(CapacityTold(broker="oslo-edge1", matching=0.4)))
    (order,) = [each for each in played.told if isinstance(each, LimitGateway)]
    assert order.limits.limits["far"]["*"].msg_s < 200.0  # type: ignore[operator]
    played.handle(GatewayAnswered(GatewayLimited(epoch=order.limits.epoch, offered={}), 1.0))
    assert played.brain.status(played.now).congestion.limits[0].publisher == "other domains"


def test_votes_on_strangers_and_without_a_subscription_are_counted_and_worth_nothing() -> None:
    played = Played()
    played.talk = {("good", "t"): 10.0}
    played.register()
    played.seconds(2)
    played.report("desk", votes={"t": {"id-nobody": Vote(5, 1.0)}, "no-key": {"id-good": Vote(5, 1.0)}})
    refused = played.brain.status(played.now + 5.0).congestion.refused
    assert refused["vote on a stranger"] == 1
    assert refused["a vote without a subscription"] == 1


def test_opinions_go_towards_those_who_publish_and_count_there() -> None:
    played = Played(domains=("oslo", "bonn", "rome"))
    played.talk = {("good", "t"): 10.0}
    played.topics = ("t", "far")
    played.register()
    wall = int(CLOCK_S) << 20
    played.handle(PeerSaid("bonn", PeerRegistered(epoch=1, accepts=False)))
    beats = {"rome": int(CLOCK_S * 1000)}
    far = Advertise(topics=(Advertisement("far", "rome", wall),), beats=beats)
    played.handle(PeerSaid("bonn", far))
    played.second()
    played.told.clear()
    played.report("desk", votes={"far": {"id-roman": Vote(5, 0.25)}})
    played.second()
    told = [
        each.message
        for each in played.told
        if isinstance(each, TellPeer) and isinstance(each.message, UsefulnessTold) and each.peer == "bonn"
    ]
    (opinion,) = [opinion for message in told for opinion in message.opinions]
    assert (opinion.topic, opinion.source, opinion.domain, opinion.subscribers) == ("far", "rome", "oslo", 1)
    assert opinion.votes["id-roman"] == (1.0, 0.25)
    ours = TopicOpinion("t", "oslo", "rome", 7, {"id-good": (7.0, 0.125)})
    astray = TopicOpinion("t", "atlantis", "rome", 7, {})
    back = TopicOpinion("far", "rome", "bonn", 7, {})
    played.handle(PeerSaid("bonn", UsefulnessTold(opinions=(ours, astray, back), hops=1)))
    played.handle(PeerSaid("bonn", UsefulnessTold(opinions=(ours,), hops=99)))
    played.talk = {}
    status = played.brain.status(played.now + 5.0).congestion
    (topic,) = [each for each in status.topics if each.topic == "t"]
    assert topic.utility < 0.5
    assert status.refused["opinions of or on a domain that is not in the federation"] == 1
    assert status.refused["opinions that went astray"] == 1
    assert status.refused["opinions whose way is not known"] == 1, "it came from where it would go"
