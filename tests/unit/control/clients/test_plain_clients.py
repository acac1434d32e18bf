"""Plain clients are looked at when their broker is loaded, and disconnected only where that is allowed."""

from __future__ import annotations

from mangrove.control.clients.plain_clients import LOOK_S, MAX_KICKS, PlainClientMoves
from mangrove.control.instructions import Instruction, KickClient, LookAtClients
from mangrove.control.profile.profile import LoadProfile
from mangrove.control.site import Site
from mangrove.control.stimuli import PlainClient, PlainClientsSeen
from mangrove.model.agents.load import BrokerLoad, LoadState, Metric
from mangrove.model.endpoints import fixed_endpoints
from mangrove.model.events.event_log import EventLog
from mangrove.model.federation import Domain, Edge, Federation
from mangrove.model.topics import Contract, TopicRules

RULES = TopicRules((Contract(match="urgent.>", deadline_ms=50.0),))


def moves(allowed: bool = True) -> tuple[PlainClientMoves, EventLog]:
    domain = Domain(name="oslo", base_port=4000, edges=(Edge(), Edge()), move_plain_clients=allowed)
    federation = Federation(name="f", domains={"oslo": domain}, topics=RULES)
    log = EventLog("oslo-agent")
    site = Site(federation, fixed_endpoints(domain))
    return PlainClientMoves(site, LoadProfile(federation.balancing, RULES), log), log


def load(state: LoadState) -> BrokerLoad:
    return BrokerLoad(broker="oslo-edge1", role="edge", state=state, measured=state)


def seen(handed_over: int, broker: str = "oslo-edge1", clients: int = 3) -> PlainClientsSeen:
    patterns = ["urgent.a", "b", "c", *(f"x{number}" for number in range(100))]
    return PlainClientsSeen(
        broker,
        tuple(
            PlainClient(number, f"plain{number}", ((patterns[number], handed_over),), handed_over * 100, 0)
            for number in range(clients)
        ),
    )


def kick(made: PlainClientMoves, unmet: dict[Metric, float]) -> list[Instruction]:
    return made.disconnect("oslo-1-1", "oslo-edge1", unmet, 10.0, "oslo-agent-1")


def test_brokers_are_looked_at_when_loaded_and_not_too_often() -> None:
    made, _ = moves()
    assert made.look([load(LoadState.LOW)], 0.0) == []
    assert made.look([load(LoadState.HIGH)], 1.0) == [LookAtClients("oslo-edge1")]
    assert made.look([load(LoadState.OVERLOAD)], 1.0 + LOOK_S - 0.1) == []
    assert made.look([load(LoadState.OVERLOAD)], 1.0 + LOOK_S) == [LookAtClients("oslo-edge1")]


def test_nobody_is_disconnected_where_it_is_not_allowed_or_nothing_is_known() -> None:
    made, _ = moves(allowed=False)
    made.seen(seen(0), 0.0)
    made.seen(seen(100), 5.0)
    assert kick(made, {Metric.OUTPUT: 1.0}) == []
    made, _ = moves()
    made.seen(seen(100), 5.0)
    assert kick(made, {Metric.OUTPUT: 1.0}) == [], "one look tells no rate"


def test_the_least_urgent_go_first_and_no_more_than_needed() -> None:
    made, log = moves()
    made.seen(seen(0), 0.0)
    made.seen(seen(100), 5.0)
    told = kick(made, {Metric.OUTPUT: 2500.0})
    assert [each.cid for each in told if isinstance(each, KickClient)] == [1, 2]
    assert made.expected_loss == 2 * 20.0 * 2.0
    assert [event.cause for event in log.take()] == ["oslo-agent-1"] * 2
    everybody = kick(made, {Metric.MATCHING: 1e6})
    assert [each.cid for each in everybody if isinstance(each, KickClient)] == [1, 2, 0]


def test_only_so_many_at_a_time() -> None:
    made, _ = moves()
    made.seen(seen(0, clients=50), 0.0)
    made.seen(seen(100, clients=50), 5.0)
    assert len(kick(made, {Metric.OUTPUT: 1e9})) == MAX_KICKS


def test_a_client_that_is_seen_elsewhere_has_returned() -> None:
    made, log = moves()
    made.seen(seen(0), 0.0)
    made.seen(seen(100), 5.0)
    kick(made, {Metric.OUTPUT: 1.0})
    log.take()
    assert made.look([load(LoadState.LOW)], 12.0) == [LookAtClients("oslo-edge1")], "it is looked for"
    made.seen(seen(0, broker="oslo-edge2"), 13.0)
    (event,) = log.take()
    assert event.happening.sentence() == "plain1 is at oslo-edge2 after 3.0 s, at most 60 messages lost"
    made.seen(seen(0, broker="bonn-edge1"), 13.0)
    assert made.refused.total() == 1
