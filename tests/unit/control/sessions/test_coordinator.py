"""Sessions are opened for overloaded brokers, stored before anything moves, and always end."""

from __future__ import annotations

from itertools import count

import pytest
from tests.kit.small_domain import SmallDomain

from mangrove.control.instructions import Instruction, KickClient, Store, TellClient, TellPeer
from mangrove.control.sessions.coordinator import Coordinator
from mangrove.control.sessions.session import StoredSession, decode
from mangrove.model.agents.load import ClusterLoad, LoadState, Metric
from mangrove.model.agents.peers import (
    AdmissionAsked,
    AdmissionTold,
    EdgeRoom,
    RoomAsked,
    RoomTold,
    SessionClosed,
    SessionEnded,
)
from mangrove.model.agents.registration import Migrated, Order
from mangrove.model.balancing import Balancing

LOW = ClusterLoad(head=LoadState.LOW, edges=LoadState.LOW)


def overloaded(**deadlines_s: float) -> SmallDomain:
    """Edge 1 has 1,000 of 1,000 messages/s, edges 2 and 3 half as much."""
    rates = {"a": 300.0, "b": 300.0, "c": 400.0, "d": 500.0, "e": 500.0}
    places = {"a": "edge1", "b": "edge1", "c": "edge1", "d": "edge2", "e": "edge3"}
    domain = SmallDomain(rates, places, **deadlines_s)
    assert domain.coordinator.begin(1, (), 0.0) == []
    return domain


def test_the_least_urgent_topic_moves_and_everything_ends() -> None:
    domain = overloaded(a=1.0, b=50.0, c=2.0)
    sessions = domain.coordinator
    told = sessions.consider(1.0)
    (store,) = told
    assert isinstance(store, Store)
    record = decode(store.writes[0].value or b"")
    assert isinstance(record, StoredSession)
    assert [(move.topic, move.to) for move in record.moves] == [("b", "edge2")]
    assert set(domain.busy) == {"edge1", "edge2"}
    (order,) = domain.store(told, 1.1)
    assert isinstance(order, TellClient)
    assert isinstance(order.order, Order)
    assert (order.client, order.order.to.broker, order.order.term) == ("client-b", "edge2", 1)
    assert sessions.target("b", publishers=False) == "edge2"
    domain.obey([order], 1.5)
    assert set(domain.busy) == {"edge1", "edge2"}, "what moved is not measured yet"
    told = sessions.handle_timer(sessions.timer())
    assert not domain.busy
    assert sessions.target("b", publishers=False) == ""
    assert [write.key for each in told if isinstance(each, Store) for write in each.writes] == [
        "oslo-1-1",
        "moved",
    ]
    assert domain.kinds() == ["SessionOpened", "MoveDecided", "TopicMoved", "SessionEnded"]
    causes = [event.cause for event in domain.log.recent]
    assert causes == ["oslo-agent-overload-edge1", "oslo-agent-1", "oslo-agent-2", "oslo-agent-1"]
    assert sessions.consider(10.0) == []


def test_a_session_waits_for_load_that_still_rises_but_not_for_ever() -> None:
    domain = overloaded()
    domain.rising.add("edge1")
    assert domain.coordinator.consider(1.0) == []
    assert domain.coordinator.consider(2.0) == []
    assert domain.coordinator.consider(3.0), "two periods are enough"
    steady = overloaded()
    steady.rising.add("edge1")
    assert steady.coordinator.consider(1.0) == []
    steady.rising.clear()
    assert steady.coordinator.consider(2.0), "it has risen"


def test_the_cool_down_counts_from_the_last_move() -> None:
    domain = overloaded()
    sessions = domain.coordinator
    domain.obey(domain.store(sessions.consider(1.0), 1.0), 1.5)
    sessions.handle_timer(4.5)
    assert not domain.busy
    domain.rates["a"] = 700.0
    domain.rates["c"] = 700.0
    assert sessions.consider(4.4) == []
    assert sessions.consider(4.6), "three seconds after the client had moved"


def test_without_a_cool_down_a_broker_sheds_once_for_each_measurement() -> None:
    domain = SmallDomain({"a": 1000.0, "b": 1000.0}, {"a": "edge1", "b": "edge2"})
    numbers, brokers = count(), list[str]()

    def disconnect(session: str, broker: str, *_: object) -> list[Instruction]:
        brokers.append(broker)
        assert len(brokers) < 10, "it goes on for ever"
        return [KickClient(broker, 7, "too much")]

    sessions = Coordinator(
        "oslo",
        Balancing(cooldown_s=0.0),
        domain,
        domain.log,
        number=lambda: next(numbers),
        clock_shift_s=1e9,
        disconnect=disconnect,
    )
    assert len(sessions.consider(1.0)) == 2
    assert sorted(brokers) == ["edge1", "edge2"]
    sessions.consider(2.0)
    assert sorted(brokers) == ["edge1", "edge1", "edge2", "edge2"]


def test_orders_are_repeated_until_they_are_confirmed() -> None:
    domain = overloaded()
    sessions = domain.coordinator
    first = domain.store(sessions.consider(1.0), 1.0)
    assert sessions.handle_timer(1.5) == []
    assert sessions.handle_timer(2.0) == first
    domain.obey(first, 2.5)
    assert sessions.handle_timer(3.0) == []


@pytest.mark.parametrize("silent", [False, True])
def test_nothing_moves_if_it_cannot_be_stored(silent: bool) -> None:
    domain = overloaded()
    sessions = domain.coordinator
    (store,) = sessions.consider(1.0)
    assert isinstance(store, Store)
    told = sessions.handle_timer(sessions.timer()) if silent else sessions.failed(store.write, "away", 1.5)
    assert not any(isinstance(each, TellClient) for each in told)
    (removal,) = told
    assert isinstance(removal, Store)
    assert (removal.writes[0].key, removal.writes[0].value) == ("oslo-1-1", None)
    assert not domain.busy
    assert domain.store([store], 3.5) == [], "what is stored too late counts no more"


def test_a_removal_that_fails_is_repeated() -> None:
    domain = overloaded()
    sessions = domain.coordinator
    (store,) = sessions.consider(1.0)
    assert isinstance(store, Store)
    (removal,) = sessions.failed(store.write, "away", 1.5)
    assert isinstance(removal, Store)
    sessions.failed(removal.write, "away", 2.0)
    (again,) = sessions.handle_timer(sessions.timer())
    assert isinstance(again, Store)
    assert again.writes == removal.writes


def test_clients_that_say_nothing_do_not_keep_brokers_busy() -> None:
    domain = overloaded()
    sessions = domain.coordinator
    domain.store(sessions.consider(1.0), 1.0)
    now = 1.0
    while domain.busy:
        now = sessions.timer()
        sessions.handle_timer(now)
    assert now == pytest.approx(1.0 + 30.0 + 3.0)
    assert sessions.ended[-1].outcome == "1 clients did not say what became of them"


def test_clients_that_leave_or_fail_are_not_waited_for() -> None:
    domain = overloaded(b=50.0)
    sessions = domain.coordinator
    domain.store(sessions.consider(1.0), 1.0)
    sessions.gone(("client-b", "s"), 2.0)
    assert sessions.sessions(2.0)[0].state == "settling"
    domain = overloaded(b=50.0)
    sessions = domain.coordinator
    (order,) = domain.store(sessions.consider(1.0), 1.0)
    assert isinstance(order, TellClient)
    assert isinstance(order.order, Order)
    failed = Migrated(
        client="client-b", sequence=1, session=order.order.session, key="s", broker="edge1", problem="no way"
    )
    sessions.confirmed(failed, 2.0)
    (status,) = sessions.sessions(2.0)
    assert (status.state, status.moves[0].confirmed) == ("settling", 0)


def test_no_topic_goes_back_within_a_burst() -> None:
    domain = overloaded(b=50.0)
    sessions = domain.coordinator
    domain.obey(domain.store(sessions.consider(1.0), 1.0), 1.0)
    sessions.handle_timer(sessions.timer())
    assert domain.places["b"] == "edge2"
    domain.rates |= {"d": 690.0, "a": 100.0, "e": 660.0}
    told = sessions.consider(20.0)
    topics = {
        move.topic
        for each in told
        if isinstance(each, Store)
        for write in each.writes
        if isinstance(record := decode(write.value or b""), StoredSession)
        for move in record.moves
    }
    assert topics <= {"d"}, "b left edge 1 nineteen seconds ago"


def test_a_broker_for_which_nobody_has_room_is_congested_until_it_is_relieved() -> None:
    domain = overloaded()
    sessions = domain.coordinator
    domain.rates |= {"d": 920.0, "e": 920.0}
    assert sessions.consider(1.0) == []
    assert sessions.congested == ("edge1",)
    for now in range(2, 60):
        sessions.consider(float(now))
    assert domain.kinds() == ["CongestionDeclared"]
    domain.rates["a"] = 10.0
    sessions.consider(60.0)
    assert not sessions.congested
    assert domain.kinds() == ["CongestionDeclared", "CongestionCleared"]


def test_sessions_run_side_by_side_on_disjoint_brokers() -> None:
    domain = overloaded(b=50.0)
    domain.brokers |= {"edge4": "edge", "edge5": "edge"}
    domain.rates |= {"f": 600.0, "g": 390.0}
    domain.places |= {"f": "edge4", "g": "edge4"}
    told = domain.coordinator.consider(1.0)
    assert len(told) == 2
    assert domain.coordinator.problems() == []
    assert len(set(domain.busy.values())) == 2


def test_a_successor_goes_on_with_what_is_stored() -> None:
    domain = overloaded(b=50.0)
    (store,) = domain.coordinator.consider(1.0)
    assert isinstance(store, Store)
    value = store.writes[0].value
    assert value is not None
    after = overloaded(b=50.0)
    (order,) = after.coordinator.begin(2, (value, b"rubbish"), 3.0)
    assert isinstance(order, TellClient)
    assert isinstance(order.order, Order)
    assert (order.order.term, order.order.session) == (2, "oslo-1-1")
    assert set(after.busy) == {"edge1", "edge2"}
    after.obey([order], 4.0)
    assert after.coordinator.sessions(4.0)[0].state == "migrating", "others may not have registered yet"
    after.coordinator.handle_timer(8.0)
    assert after.coordinator.sessions(8.0)[0].state == "settling"


def test_a_successor_gives_up_what_is_old() -> None:
    domain = overloaded()
    (store,) = domain.coordinator.consider(1.0)
    assert isinstance(store, Store)
    after = SmallDomain(domain.rates, domain.places)
    (removal,) = after.coordinator.begin(2, (store.writes[0].value or b"",), 500.0)
    assert isinstance(removal, Store)
    assert removal.writes[0].value is None
    assert not after.busy
    assert after.kinds() == ["SessionUndone"]


def full_domain() -> SmallDomain:
    domain = overloaded(b=50.0)
    domain.rates |= {"d": 920.0, "e": 920.0}
    domain.peers = {"bonn": LOW}
    return domain


def room(session: str, matching: float = 500.0) -> RoomTold:
    told = EdgeRoom(broker="bonn-edge1", remaining={Metric.MATCHING: matching}, headroom=0.5)
    return RoomTold(session=session, brokers=(told,))


@pytest.mark.parametrize(
    ("url", "management_url"),
    [
        ("nats://bonn:99999", "nats://bonn:9"),
        ("nats://bonn:1", "nats://bonn:port"),
        ("nats://[bonn", "nats://bonn:9"),
        ("bonn", "nats://bonn:9"),
        ("nats://", "nats://bonn:9"),
        ("nats://bonn:0", "nats://bonn:9"),
        ("nats://bonn:1:2", "nats://bonn:9"),
        ("nats://a b:1", "nats://bonn:9"),
    ],
)
def test_nobody_is_sent_to_what_is_no_place(url: str, management_url: str) -> None:
    sessions = full_domain().coordinator
    (ask,) = sessions.consider(1.0)
    assert isinstance(ask, TellPeer)
    assert isinstance(ask.message, RoomAsked)
    name = ask.message.session
    (admit,) = sessions.heard("bonn", room(name), 1.2)
    assert isinstance(admit, TellPeer)
    assert isinstance(admit.message, AdmissionAsked)
    urls = {move.topic: ("bonn-edge1", url) for move in admit.message.moves}
    told = sessions.heard("bonn", AdmissionTold(session=name, urls=urls, management_url=management_url), 1.4)
    assert not any(isinstance(each, Store) for each in told)


@pytest.mark.parametrize(
    "url",
    ["nats://bonn:1", "tls://user:secret@bonn_1.example:4222", "amqp://[fe80::1]:5672/vhost?a=b", "nats://m"],
)
def test_neighbours_are_asked_when_nobody_at_home_has_room(url: str) -> None:
    domain = full_domain()
    domain.staying = {"b"}
    sessions = domain.coordinator
    (ask,) = sessions.consider(1.0)
    assert isinstance(ask, TellPeer)
    assert isinstance(ask.message, RoomAsked)
    name = ask.message.session
    assert "b" not in ask.message.topics, "it may not leave the domain"
    (admit,) = sessions.heard("bonn", room(name), 1.2)
    assert isinstance(admit, TellPeer)
    assert isinstance(admit.message, AdmissionAsked)
    (move,) = admit.message.moves
    assert move.topic != "b"
    urls = {move.topic: ("bonn-edge1", url)}
    told = sessions.heard("bonn", AdmissionTold(session=name, urls=urls, management_url="nats://bonn:9"), 1.4)
    (order,) = domain.store(told, 1.5)
    assert isinstance(order, TellClient)
    assert isinstance(order.order, Order)
    assert (order.order.domain, order.order.to.url) == ("bonn", url)
    assert order.order.management_url == "nats://bonn:9"
    domain.obey([order], 2.0)
    (ended,) = [each for each in sessions.handle_timer(sessions.timer()) if isinstance(each, TellPeer)]
    assert ended.message == SessionEnded(session=name)
    assert not domain.busy
    (again,) = sessions.handle_timer(sessions.timer())
    assert again == ended
    sessions.heard("bonn", SessionClosed(session=name), 7.0)
    assert sessions.handle_timer(20.0) == []


@pytest.mark.parametrize("answers", [0, 1])
def test_neighbours_that_do_not_answer_or_refuse_leave_congestion(answers: int) -> None:
    domain = full_domain()
    sessions = domain.coordinator
    (ask,) = sessions.consider(1.0)
    assert isinstance(ask, TellPeer)
    assert isinstance(ask.message, RoomAsked)
    if answers:
        sessions.heard("bonn", room(ask.message.session), 1.1)
        told = sessions.heard("bonn", AdmissionTold(session=ask.message.session), 1.2)
        assert [each.message for each in told if isinstance(each, TellPeer)] == [
            SessionEnded(session=ask.message.session)
        ]
    else:
        while domain.busy:
            sessions.handle_timer(sessions.timer())
    assert not domain.busy
    assert sessions.congested == ("edge1",)


def test_a_neighbour_that_says_nothing_is_asked_no_more_once_others_have_taken_something() -> None:
    domain = overloaded(b=50.0)
    domain.rates |= {"a": 60.0, "c": 60.0, "b": 880.0, "d": 940.0, "e": 940.0}
    domain.peers = {"bonn": LOW, "rome": LOW}
    sessions = domain.coordinator
    sessions.consider(1.0)
    (name,) = domain.busy.values()
    sessions.heard("bonn", room(name, 65.0), 1.1)
    told = sessions.heard("rome", room(name, 65.0), 1.1)
    asked = {each.peer: each.message for each in told if isinstance(each, TellPeer)}
    assert set(asked) == {"bonn", "rome"}
    message = asked["bonn"]
    assert isinstance(message, AdmissionAsked)
    urls = {move.topic: (move.broker, "nats://bonn:1") for move in message.moves}
    answer = AdmissionTold(session=name, urls=urls, management_url="nats://bonn:9")
    assert sessions.heard("bonn", answer, 1.2) == []
    sessions.handle_timer(2.9)
    told = sessions.handle_timer(3.1)
    assert [each for each in told if isinstance(each, TellPeer)] == [
        TellPeer("rome", SessionEnded(session=name))
    ]
    (order,) = domain.store(told, 3.2)
    assert isinstance(order, TellClient)
    sessions.heard("rome", SessionClosed(session=name), 3.2)
    now = 3.2
    while domain.busy:
        now = max(now, sessions.timer())
        told = sessions.handle_timer(now)
        assert not any(isinstance(each, TellPeer) for each in told) or not domain.busy
    ended = [each for each in told if isinstance(each, TellPeer)]
    assert {each.peer for each in ended} == {"bonn", "rome"}, "a question may have come late"
    assert all(each.message == SessionEnded(session=name) for each in ended)


def test_answers_that_nobody_asked_for_change_nothing() -> None:
    domain = full_domain()
    sessions = domain.coordinator
    assert sessions.heard("bonn", room("oslo-1-1"), 1.0) == []
    (ask,) = sessions.consider(1.0)
    assert isinstance(ask, TellPeer)
    assert isinstance(ask.message, RoomAsked)
    assert sessions.heard("rome", room(ask.message.session), 1.0) == []
    assert sessions.heard("bonn", AdmissionTold(session=ask.message.session), 1.0) == []
    assert sessions.sessions(1.0)[0].state == "asking"


def test_a_head_sheds_publishers_to_heads_of_neighbours_alone() -> None:
    domain = overloaded()
    domain.places = dict.fromkeys(domain.places, "head")
    domain.head_load = 990.0
    domain.peers = {"bonn": ClusterLoad(head=LoadState.LOW, edges=LoadState.OVERLOAD)}
    (ask,) = domain.coordinator.consider(1.0)
    assert isinstance(ask, TellPeer)
    assert isinstance(ask.message, RoomAsked)
    assert ask.message.publishers


@pytest.mark.parametrize("dead", ["edge1", "edge2"])
def test_a_session_with_a_dead_broker_is_over_at_once(dead: str) -> None:
    domain = overloaded(a=1.0, b=50.0, c=2.0)
    sessions = domain.coordinator
    domain.store(sessions.consider(1.0), 1.1)
    assert sessions.broker_failed("edge3", 1.2) == []
    told = sessions.broker_failed(dead, 1.3)
    assert not domain.busy
    assert sessions.target("b", publishers=False) == ""
    assert sessions.ended[-1].outcome == f"{dead} is dead"
    stored = [write.key for each in told if isinstance(each, Store) for write in each.writes]
    assert "oslo-1-1" in stored


def test_none_is_opened_while_something_else_comes_first() -> None:
    domain = overloaded()
    assert domain.coordinator.consider(1.0, opening=False) == []
    assert domain.coordinator.consider(2.0)


def test_a_broker_is_emptied_as_by_any_session() -> None:
    domain = overloaded()
    sessions = domain.coordinator
    told = sessions.evacuate("edge1", {"a": "edge2", "b": "edge3", "d": "edge1"}, "oslo-agent-7", 1.0)
    orders = domain.store(told, 1.1)
    assert {each.client for each in orders if isinstance(each, TellClient)} == {"client-a", "client-b"}
    domain.obey(orders, 1.2)
    sessions.handle_timer(sessions.timer())
    assert (domain.places["a"], domain.places["b"]) == ("edge2", "edge3")
    assert not domain.busy
    assert sessions.evacuate("edge2", {}, "oslo-agent-8", 9.0) == []
