"""The side that takes load: asked twice it answers the same, and its brokers are busy for a bounded time."""

from __future__ import annotations

import math
from itertools import count

import pytest
from tests.kit.small_domain import SmallDomain

from mangrove.control.instructions import Instruction, Store, TellPeer
from mangrove.control.sessions.admissions import MARGIN_S, NOT_WELCOME, Admissions
from mangrove.control.sessions.states import settling_s
from mangrove.control.site import Site
from mangrove.model.agents.load import Metric
from mangrove.model.agents.peers import (
    AdmissionAsked,
    AdmissionTold,
    Incoming,
    RoomAsked,
    RoomTold,
    SessionClosed,
    SessionEnded,
)
from mangrove.model.balancing import Balancing
from mangrove.model.endpoints import fixed_endpoints
from mangrove.model.federation import Domain, Edge, Federation, Link
from mangrove.model.topics import Contract, Scope, TopicRules

NAMES = {"head": "oslo-head", "edge1": "oslo-edge1", "edge2": "oslo-edge2"}


def taking() -> tuple[Admissions, SmallDomain]:
    """Oslo takes load from bonn, not from rome; edge 1 is full, edge 2 has half of 1,000 messages/s."""
    oslo = Domain(name="oslo", base_port=4000, edges=(Edge(), Edge()), accept_load_from=("bonn",))
    others = {name: Domain(name=name, base_port=5000) for name in ("bonn", "rome")}
    rules = TopicRules((Contract(match="home.>", scope=Scope.DOMAIN),))
    links = tuple(Link(between=("oslo", name)) for name in others)
    federation = Federation(name="f", domains={"oslo": oslo, **others}, links=links, topics=rules)
    domain = SmallDomain({"a": 940.0, "b": 500.0}, {"a": "oslo-edge1", "b": "oslo-edge2"})
    domain.brokers = {name: "head" if name == "oslo-head" else "edge" for name in NAMES.values()}
    site = Site(federation, fixed_endpoints(oslo))
    numbers = count(1)
    admissions = Admissions(
        site,
        domain,
        domain.log,
        domain.coordinator.barred,
        number=lambda: next(numbers),
        clock_shift_s=1e9,
    )
    return admissions, domain


def answer(told: list[Instruction]) -> object:
    (one,) = [each for each in told if isinstance(each, TellPeer)]
    return one.message


def move(topic: str = "t", broker: str = "oslo-edge2", load: float = 100.0) -> Incoming:
    return Incoming(topic=topic, broker=broker, clients=("c1",), load={Metric.MATCHING: load})


def ask(
    admissions: Admissions, *moves: Incoming, now: float = 0.0, session: str = "bonn-1-1"
) -> AdmissionTold:
    asked = AdmissionAsked(session=session, publishers=False, moves=moves)
    told = answer(admissions.handle("bonn", asked, now))
    assert isinstance(told, AdmissionTold)
    return told


def test_room_is_told_of_brokers_that_are_low() -> None:
    admissions, _ = taking()
    told = answer(admissions.handle("bonn", RoomAsked(session="s", topics=("b", "x")), 0.0))
    assert isinstance(told, RoomTold)
    (room,) = told.brokers
    assert room.broker == "oslo-edge2"
    assert room.remaining[Metric.MATCHING] == pytest.approx(425.0, abs=0.1)
    assert room.topics == ("b",)
    heads = answer(admissions.handle("bonn", RoomAsked(session="s", publishers=True), 0.0))
    assert isinstance(heads, RoomTold)
    assert [each.broker for each in heads.brokers] == ["oslo-head"]


def test_domains_that_are_not_named_get_nothing() -> None:
    admissions, domain = taking()
    assert answer(admissions.handle("rome", RoomAsked(session="s"), 0.0)) == RoomTold(session="s")
    asked = AdmissionAsked(session="s", publishers=False, moves=(move(),))
    assert answer(admissions.handle("rome", asked, 0.0)) == AdmissionTold(session="s")
    assert admissions.refused[NOT_WELCOME] == 2
    assert not domain.busy


def test_what_is_taken_makes_its_broker_busy_until_the_end() -> None:
    admissions, domain = taking()
    told = ask(admissions, move())
    assert told.urls == {"t": ("oslo-edge2", "nats://127.0.0.1:4014")}
    assert told.management_url == "nats://127.0.0.1:4004"
    assert ask(admissions, move(load=1e9), now=1.0) == told, "asked again it says the same"
    assert domain.busy == {"oslo-edge2": "bonn-1-1"} == admissions.busy()
    assert admissions.expected("t") == "oslo-edge2"
    ended = SessionEnded(session="bonn-1-1")
    assert answer(admissions.handle("rome", ended, 2.0)) == SessionClosed(session="bonn-1-1")
    assert domain.busy, "it is not rome's to end"
    assert answer(admissions.handle("bonn", ended, 3.0)) == SessionClosed(session="bonn-1-1")
    assert not domain.busy
    assert answer(admissions.handle("bonn", ended, 4.0)) == SessionClosed(session="bonn-1-1")
    assert domain.kinds() == ["LoadAdmitted", "AdmissionEnded"]


def test_a_session_of_which_nothing_is_heard_ends_by_itself() -> None:
    admissions, domain = taking()
    ask(admissions, move())
    balancing = Balancing()
    due = balancing.migration_timeout_s + settling_s(balancing) + MARGIN_S
    assert admissions.timer() == due
    admissions.handle_timer(due - 0.1)
    assert domain.busy
    admissions.handle_timer(due)
    assert not domain.busy
    assert admissions.timer() == math.inf


@pytest.mark.parametrize(
    "bad",
    [
        move("home.x"),
        move("$SYS.x"),
        move("a..b"),
        move(broker="oslo-edge1"),
        move(broker="bonn-edge1"),
        move(load=-1.0),
        move(load=math.nan),
        move(load=451.0),
    ],
)
def test_what_cannot_be_taken_is_refused_alone(bad: Incoming) -> None:
    admissions, domain = taking()
    told = ask(admissions, bad, move("good"))
    assert set(told.urls) == {"good"}
    assert set(domain.busy) == {"oslo-edge2"}


def test_a_topic_that_left_a_broker_lately_is_not_taken_back_there() -> None:
    admissions, domain = taking()
    domain.coordinator._moved.add("t", "oslo-edge2", 0.0)
    assert ask(admissions, move("t"), now=5.0).urls == {}
    domain.coordinator.consider(10.0)
    assert set(ask(admissions, move("t"), now=20.0).urls) == {"t"}


def test_all_that_is_taken_must_fit_together() -> None:
    admissions, _ = taking()
    assert set(ask(admissions, move("x", load=300.0), move("y", load=300.0)).urls) == {"x"}
    assert ask(admissions, move("z"), session="bonn-1-2").urls == {}, "the broker is busy"


def test_a_successor_has_the_same_brokers_busy() -> None:
    admissions, _ = taking()
    asked = AdmissionAsked(session="bonn-1-1", publishers=False, moves=(move(),))
    store, told = admissions.handle("bonn", asked, 0.0)
    assert isinstance(store, Store)
    assert isinstance(told, TellPeer)
    value = store.writes[0].value
    assert value is not None
    after, domain = taking()
    assert after.begin((value, b"rubbish"), 10.0) == []
    assert domain.busy == {"oslo-edge2": "bonn-1-1"}
    assert after.timer() == admissions.timer()
    assert answer(after.handle("bonn", asked, 11.0)) == told.message
    removal, _ = after.handle("bonn", SessionEnded(session="bonn-1-1"), 12.0)
    assert isinstance(removal, Store)
    assert (removal.writes[0].key, removal.writes[0].value) == (store.writes[0].key, None)
    late, domain = taking()
    (removal,) = late.begin((value,), 100.0)
    assert isinstance(removal, Store)
    assert removal.writes[0].value is None
    assert not domain.busy


def test_a_write_that_failed_is_not_repeated_after_a_later_one() -> None:
    admissions, _ = taking()
    store, _ = admissions.handle("bonn", AdmissionAsked(session="s", publishers=False, moves=(move(),)), 0.0)
    removal, _ = admissions.handle("bonn", SessionEnded(session="s"), 1.0)
    assert isinstance(store, Store)
    assert isinstance(removal, Store)
    admissions.failed(store.write, 2.0)
    assert admissions.handle_timer(10.0) == []
    admissions.failed(removal.write, 11.0)
    (again,) = admissions.handle_timer(12.0)
    assert isinstance(again, Store)
    assert again.writes == removal.writes


def test_nothing_taken_leaves_nothing_busy() -> None:
    admissions, domain = taking()
    ask(admissions, move(load=1e9))
    assert not domain.busy
    assert admissions.timer() == math.inf
    ask(admissions, move(), session="bonn-1-3")
    admissions.drop()
    assert not domain.busy


def test_nothing_is_taken_while_decisions_are_paused() -> None:
    admissions, domain = taking()
    admissions._paused = lambda: True
    assert ask(admissions, move()).urls == {}
    assert not domain.busy
