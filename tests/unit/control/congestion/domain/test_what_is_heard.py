"""What congestion control hears: demands, origins, the gateway's offers, capacities, lags and connections."""

from __future__ import annotations

import math

import pytest

from mangrove.control.congestion.domain.capacities import Capacities, capacity_problem
from mangrove.control.congestion.domain.demand import Demand
from mangrove.control.congestion.domain.gateway_orders import ASK_S, OTHERS, GatewayOrders
from mangrove.control.congestion.domain.origins import Origins
from mangrove.control.congestion.domain.plain_publishers import LOOKS, PlainPublishers
from mangrove.control.congestion.domain.slow_subscribers import (
    CALM_S,
    KICK_BYTES,
    REPORTS,
    SLOW_BYTES,
    SlowSubscribers,
)
from mangrove.control.instructions import KickClient, LimitGateway, LookAtClients
from mangrove.control.site import Site
from mangrove.control.stimuli import PlainClient, PlainClientsSeen
from mangrove.model.agents.load import Amounts, BrokerLoad, LoadState
from mangrove.model.agents.registration import ClientRole, Report, Traffic, Wish
from mangrove.model.agents.usefulness import CapacityTold, GatewayLimited, Lag
from mangrove.model.congestion.rate_limit import Limits, RateLimit
from mangrove.model.congestion.terms import Slow
from mangrove.model.endpoints import fixed_endpoints
from mangrove.model.events.event_log import EventLog
from mangrove.model.federation import Domain, Edge, Federation
from mangrove.model.topics import Contract, TopicRules


def test_demand_is_said_and_withheld_and_goes_when_nothing_is_told() -> None:
    demand = Demand()
    report = Report(
        client="a",
        sequence=1,
        span_s=2.0,
        published={"t": Traffic(20, 2000)},
        withheld={"t": Traffic(180, 18_000)},
    )
    demand.report(report)
    offering = demand.of("a")["t"]
    assert (offering.said_msg_s, offering.msg_s, offering.size_bytes) == (10.0, 100.0, 100.0)
    for sequence in range(2, 12):
        demand.report(Report(client="a", sequence=sequence, span_s=1.0))
    assert not demand.of("a")


@pytest.mark.parametrize("traffic", [Traffic(-1, 5), Traffic(1, -5), Traffic(10**12, 5)])
def test_impossible_demands_are_refused_and_counted(traffic: Traffic) -> None:
    demand = Demand()
    demand.report(Report(client="a", sequence=1, span_s=1.0, withheld={"t": traffic}))
    assert not demand.of("a")
    assert demand.refused.total() == 1


def test_an_origin_belongs_to_the_first_that_named_it_while_it_stays() -> None:
    origins = Origins()
    assert origins.claim("a", "one")
    assert not origins.claim("b", "one")
    assert not origins.claim("b", "x" * 1000)
    assert not origins.claim("b", "line\nbreak")
    assert origins.refused.total() == 3
    assert origins.client_of("one") == "a"
    assert origins.claim("a", "two")
    assert origins.client_of("one") is None, "a client that began anew has another"
    origins.left("a")
    assert origins.claim("b", "two")


def test_the_gateway_is_told_until_it_knows_and_tells_what_it_was_offered() -> None:
    gateway = GatewayOrders(term=2)
    gateway.counted(2.0, {"t": 200}, 0.0)
    (all_of_it,) = gateway.offers("t", 0.5)
    assert (all_of_it.origin, all_of_it.offered_msg_s) == (OTHERS, 100.0)
    limits = {"t": {OTHERS: RateLimit(msg_s=10.0)}}
    (order,) = gateway.set(limits, 1.0)
    assert isinstance(order, LimitGateway)
    assert gateway.set(limits, 1.1) == []
    offered = {"t": {"one": (60, 6000), "two": (40, 4000)}}
    gateway.answered(GatewayLimited(epoch=order.limits.epoch, offered=offered), 1.0)
    gateway.counted(1.0, {"t": 10}, 2.0)
    first, second = gateway.offers("t", 2.0)
    assert (first.origin, first.offered_msg_s, first.size_bytes) == ("one", 60.0, 100.0)
    assert second.origin == "two"
    assert first.said_msg_s < first.offered_msg_s, "the rest is withheld"
    (free,) = gateway.set({}, 3.0)
    assert isinstance(free, LimitGateway)
    assert free.limits.epoch > order.limits.epoch
    assert gateway.handle_timer(3.0 + ASK_S), "it has not said that it knows"
    gateway.answered(GatewayLimited(epoch=free.limits.epoch), 1.0)
    assert gateway.handle_timer(9.0) == []
    assert gateway.timer() == math.inf


def test_impossible_offers_at_the_gateway_are_refused() -> None:
    gateway = GatewayOrders(term=2)
    gateway.set({"t": {OTHERS: RateLimit(msg_s=10.0)}}, 1.0)
    gateway.answered(GatewayLimited(epoch=1, offered={"t": {"one": (-5, 10)}, "u": {"one": (5, 10)}}), 1.0)
    assert gateway.offers("t", 1.0) == []
    assert list(gateway.topics(1.0)) == ["t"], "what is not limited was not asked for"
    assert gateway.refused.total() == 1


def site() -> Site:
    domain = Domain(name="oslo", base_port=4000, edges=(Edge(bandwidth_mbps=8.0), Edge(capacity=100.0)))
    return Site(Federation(name="f", domains={"oslo": domain}), fixed_endpoints(domain))


@pytest.mark.parametrize(
    ("told", "problem"),
    [
        (CapacityTold(broker="bonn-edge1", bandwidth=0.5), "no broker of oslo"),
        (CapacityTold(broker="oslo-edge1", bandwidth=math.nan), "above 0 and up to 1"),
        (CapacityTold(broker="oslo-edge1", bandwidth=0.0), "above 0 and up to 1"),
        (CapacityTold(broker="oslo-edge1", bandwidth=1.5), "above 0 and up to 1"),
        (CapacityTold(broker="oslo-edge1", matching=0.5), "has no capacity"),
        (CapacityTold(broker="oslo-edge2", bandwidth=0.5), "has no bandwidth_mbps"),
        (CapacityTold(broker="oslo-edge1", bandwidth=0.5), ""),
    ],
)
def test_the_answer_names_what_is_wrong_with_a_capacity(told: CapacityTold, problem: str) -> None:
    assert problem in capacity_problem(told, site())
    assert bool(problem) == bool(capacity_problem(told, site()))


def test_capacities_are_parts_of_what_the_file_says_and_outlive_an_agent() -> None:
    changes: list[tuple[str, float]] = []
    log = EventLog("oslo-agent")

    def change(broker: str, capacity: Amounts, now: float) -> None:
        changes.append((broker, capacity.output))

    capacities = Capacities(site(), log, change)
    assert capacities.tell(CapacityTold(broker="oslo-edge1", bandwidth=0.5), 1.0)
    assert not capacities.tell(CapacityTold(broker="oslo-edge1", bandwidth=0.5), 2.0)
    assert changes == [("oslo-edge1", 500_000.0)]
    assert capacities.tell(CapacityTold(broker="oslo-edge1"), 3.0)
    assert capacities.parts == {}
    assert [event.kind for event in log.take()] == ["CapacityTold", "CapacityTold"]
    changes.clear()
    capacities.restore({"oslo-edge1": (0.3, 1.0), "oslo-edge9": (0.3, 1.0)}, 4.0)
    assert ("oslo-edge1", 300_000.0) in changes
    assert set(capacities.parts) == {"oslo-edge1"}


RULES = TopicRules((Contract(match="video.>", slow=Slow.DISCONNECT),))


def slow(lag: Lag, subscribers: SlowSubscribers, now: float) -> None:
    wish = Wish(key="s", role=ClientRole.SUBSCRIBER, subject="video.a")
    subscribers.reported("c", "desk", {"s": lag}, {"s": (wish, "oslo-edge1")}, now)


def test_a_lag_that_lasts_is_one_event_and_its_end_another() -> None:
    log = EventLog("oslo-agent")
    subscribers = SlowSubscribers(RULES, log)
    slow(Lag(5, 1), subscribers, 0.0)
    assert subscribers.status(10) == ()
    for second in range(1, 10):
        slow(Lag(50, 10), subscribers, float(second))
        subscribers.calm(float(second))
    (entry,) = subscribers.status(10)
    assert (entry.name, entry.pending, entry.broker) == ("desk", 50, "oslo-edge1")
    subscribers.calm(9.0 + CALM_S)
    assert subscribers.status(10) == ()
    assert [event.kind for event in log.take()] == ["SubscriberSlow", "SubscriberKeepsUp"]
    assert REPORTS == 2


@pytest.mark.parametrize("lag", [Lag(-1, 0), Lag(1, -1), Lag(1, 1, math.nan), Lag(1 << 60, 0)])
def test_impossible_lags_are_refused(lag: Lag) -> None:
    subscribers = SlowSubscribers(RULES, EventLog("oslo-agent"))
    slow(lag, subscribers, 0.0)
    slow(lag, subscribers, 1.0)
    assert subscribers.status(10) == ()
    assert subscribers.refused.total() == 2


def plain(cid: int, pending: int, subject: str = "video.a", messages_in: int = 0) -> PlainClient:
    return PlainClient(
        cid=cid,
        name=f"plain{cid}",
        patterns=((subject, 1),),
        bytes_out=1,
        pending_bytes=pending,
        messages_in=messages_in,
    )


def test_a_plain_client_is_disconnected_before_its_broker_cuts_it_off_if_its_contract_says_so() -> None:
    log = EventLog("oslo-agent")
    subscribers = SlowSubscribers(RULES, log)
    looks = [SLOW_BYTES, KICK_BYTES, KICK_BYTES + 1]
    kicked = []
    for second, pending in enumerate(looks):
        clients = (plain(1, pending), plain(2, pending, "other"), plain(3, KICK_BYTES))
        kicked += subscribers.seen(PlainClientsSeen("oslo-edge1", clients), float(second))
    assert [each.cid for each in kicked if isinstance(each, KickClient)] == [1, 1]
    assert {entry.name for entry in subscribers.status(10)} == {"plain1", "plain2"}, "the third does not grow"
    kinds = [event.kind for event in log.take()]
    assert kinds.count("SubscriberSlow") == 2
    assert kinds.count("SlowClientDisconnected") == 2


def load(broker: str, bytes_out_s: float = 0.0, messages_in_s: float = 0.0) -> BrokerLoad:
    return BrokerLoad(
        broker=broker,
        role="edge",
        state=LoadState.LOW,
        measured=LoadState.LOW,
        bytes_out_s=bytes_out_s,
        messages_in_s=messages_in_s,
    )


def test_brokers_at_rest_are_not_looked_at_and_busy_ones_the_sooner_the_more_they_send() -> None:
    subscribers = SlowSubscribers(RULES, EventLog("oslo-agent"))
    loads = [load("idle"), load("calm", 1e6), load("busy", 1e8)]
    looks = [subscribers.look(loads, float(second)) for second in range(20)]
    seen = [each.broker for told in looks for each in told if isinstance(each, LookAtClients)]
    assert "idle" not in seen
    assert seen.count("calm") == 2
    assert seen.count("busy") == 10


def test_a_plain_publisher_is_disconnected_after_enough_looks_and_only_if_that_is_asked_for() -> None:
    log = EventLog("oslo-agent")
    publishers = PlainPublishers(Limits(rate_msg_s=100.0), log, enabled=True)
    assert publishers.look([load("oslo-head", messages_in_s=50.0)], 0.0) == []
    assert publishers.look([load("oslo-head", messages_in_s=500.0)], 0.0)
    kicked = []
    for second in range(LOOKS + 1):
        clients = (plain(1, 0, messages_in=500 * second), plain(2, 0, messages_in=90 * second))
        kicked += publishers.seen(PlainClientsSeen("oslo-head", clients), float(second))
    assert [each.cid for each in kicked if isinstance(each, KickClient)] == [1]
    assert [event.kind for event in log.take()] == ["PlainPublisherDisconnected"]
    off = PlainPublishers(Limits(rate_msg_s=100.0), log, enabled=False)
    assert off.look([load("oslo-head", messages_in_s=500.0)], 0.0) == []


def test_a_pause_between_bursts_begins_the_count_anew() -> None:
    publishers = PlainPublishers(Limits(rate_msg_s=100.0), EventLog("oslo-agent"), enabled=True)
    counts = [0, 500, 1000, 1000, 1500, 2000]
    for second, count in enumerate(counts):
        seen = PlainClientsSeen("oslo-head", (plain(1, 0, messages_in=count),))
        assert publishers.seen(seen, float(second)) == []
