"""Sessions and leases under any order of events: the tables are complete, everything ends."""

from __future__ import annotations

import math
from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.kit.small_domain import SmallDomain

from mangrove.control.clients.leases import LeaseWheel
from mangrove.control.clients.registry import Clients
from mangrove.control.instructions import Instruction, Store, TellClient, TellPeer
from mangrove.control.sessions.moved_topics import BURST_S, QUIET_S, MovedTopics
from mangrove.control.sessions.states import TRANSITIONS, SessionState, Step, next_state, timeout_s
from mangrove.model.agents.load import BrokerLoad, ClusterLoad, LoadState, Metric
from mangrove.model.agents.peers import AdmissionAsked, AdmissionTold, EdgeRoom, RoomAsked, RoomTold
from mangrove.model.agents.registration import ClientRole, Migrated, Order, Registration, Wish
from mangrove.model.balancing import Balancing


def test_every_state_leads_to_the_end_and_has_a_time_out() -> None:
    for state in SessionState:
        if state is SessionState.ENDED:
            assert not any(before is state for before, _ in TRANSITIONS)
            continue
        assert 0.0 < timeout_s(state, Balancing()) < math.inf
        reached: set[SessionState] = {state}
        at_hand: list[SessionState] = [state]
        while at_hand:
            here = at_hand.pop()
            following = {after for (before, _), after in TRANSITIONS.items() if before is here} - reached
            reached |= following
            at_hand += following
        assert SessionState.ENDED in reached
        assert next_state(state, Step.GIVEN_UP) is SessionState.ENDED


def test_nothing_moves_that_was_not_stored() -> None:
    assert {before for (before, _), after in TRANSITIONS.items() if after is SessionState.MIGRATING} == {
        SessionState.PREPARING
    }


class SessionMachine(RuleBasedStateMachine):
    """A domain whose store, clients and neighbour answer, fail or say nothing, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.domain = SmallDomain(
            {"a": 300.0, "b": 300.0, "c": 300.0, "d": 300.0, "e": 300.0, "f": 300.0},
            {"a": "edge1", "b": "edge1", "c": "edge1", "d": "edge2", "e": "edge2", "f": "edge3"},
            a=1.0,
            b=2.0,
            c=3.0,
        )
        self.domain.peers = {"bonn": ClusterLoad(head=LoadState.LOW, edges=LoadState.LOW)}
        self.sessions = self.domain.coordinator
        self.sessions.begin(1, (), 0.0)
        self.now = 0.0
        self.writes: list[int] = []
        self.orders: list[TellClient] = []
        self.asked: list[RoomAsked | AdmissionAsked] = []
        self.stored = False

    def take(self, told: list[Instruction]) -> None:
        for each in told:
            if isinstance(each, Store):
                self.writes.append(each.write)
            elif isinstance(each, TellClient):
                self.orders.append(each)
            elif isinstance(each, TellPeer) and isinstance(each.message, RoomAsked | AdmissionAsked):
                self.asked.append(each.message)

    @rule(topic=st.sampled_from("abcdef"), rate=st.sampled_from([50.0, 300.0, 500.0, 900.0]))
    def load_changes(self, topic: str, rate: float) -> None:
        self.domain.rates[topic] = rate
        self.take(self.sessions.consider(self.now))

    @rule(seconds=st.sampled_from([0.1, 1.0, 3.0, 20.0]))
    def time_passes(self, seconds: float) -> None:
        until = self.now + seconds
        for _ in range(2000):
            due = self.sessions.timer()
            if due > until:
                break
            self.now = max(self.now, due)
            self.take(self.sessions.handle_timer(self.now))
        else:
            raise AssertionError("the timer never rests")
        self.now = until
        self.take(self.sessions.consider(self.now))

    @precondition(lambda self: self.writes)
    @rule(data=st.data(), works=st.booleans())
    def the_store_answers(self, data: st.DataObject, works: bool) -> None:
        write = self.writes.pop(data.draw(st.integers(0, len(self.writes) - 1)))
        if works:
            self.take(self.sessions.stored(write, self.now))
        else:
            self.take(self.sessions.failed(write, "away", self.now))

    @precondition(lambda self: self.orders)
    @rule(data=st.data(), problem=st.sampled_from(["", "", "no way"]))
    def a_client_answers(self, data: st.DataObject, problem: str) -> None:
        told = self.orders.pop(data.draw(st.integers(0, len(self.orders) - 1)))
        assert isinstance(told.order, Order)
        if not problem and not told.order.domain:
            self.domain.places[told.client.removeprefix("client-")] = told.order.to.broker
        message = Migrated(
            client=told.client,
            sequence=1,
            session=told.order.session,
            key=told.order.key,
            broker=told.order.to.broker,
            problem=problem,
        )
        self.take(self.sessions.confirmed(message, self.now))

    @rule(topic=st.sampled_from("abcdef"))
    def a_client_goes(self, topic: str) -> None:
        self.take(self.sessions.gone((f"client-{topic}", "s"), self.now))

    @precondition(lambda self: self.asked)
    @rule(data=st.data(), room=st.sampled_from([0.0, 400.0, math.nan]))
    def the_neighbour_answers(self, data: st.DataObject, room: float) -> None:
        asked = self.asked.pop(data.draw(st.integers(0, len(self.asked) - 1)))
        if isinstance(asked, RoomAsked):
            told = EdgeRoom(broker="bonn-edge1", remaining={Metric.MATCHING: room}, headroom=0.3)
            self.take(self.sessions.heard("bonn", RoomTold(session=asked.session, brokers=(told,)), self.now))
        else:
            urls = {move.topic: (move.broker, "nats://bonn") for move in asked.moves if room}
            answer = AdmissionTold(session=asked.session, urls=urls, management_url="nats://m")
            self.take(self.sessions.heard("bonn", answer, self.now))

    @invariant()
    def brokers_and_topics_are_in_one_session_each(self) -> None:
        assert self.sessions.problems() == []
        assert self.domain.busy == self.sessions.busy()

    def teardown(self) -> None:
        """Whatever is left open ends by itself."""
        for topic in self.domain.rates:
            self.domain.rates[topic] = 1.0
        for _ in range(60):
            self.time_passes(3.0)
        assert self.sessions.sessions(self.now) == ()
        assert not self.domain.busy


SessionMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
test_sessions_always_end = SessionMachine.TestCase


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from(["renew", "end", "look"]), st.floats(0.0, 9.0)),
        max_size=60,
    )
)
def test_leases_run_out_when_they_should(steps: list[tuple[str, str, float]]) -> None:
    wheel = LeaseWheel(15.0)
    renewed: dict[str, float] = {}
    now = 0.0
    for name, what, passed in steps:
        now += passed
        if what == "renew":
            wheel.renew(name, now)
            renewed[name] = now
        elif what == "end":
            wheel.end(name)
            renewed.pop(name, None)
        else:
            gone = wheel.expired(now, 1000)
            assert all(renewed.pop(each) + 15.0 <= now for each in gone)
            assert all(at + 15.0 + 15.0 / 16 >= now for at in renewed.values()), "one is overdue"
        assert len(wheel) == len(renewed)


wishes = st.lists(
    st.builds(
        Wish,
        key=st.sampled_from("abc"),
        role=st.sampled_from(list(ClientRole)),
        subject=st.sampled_from(["t.1", "t.2", "t.>", "$SYS.x", ""]),
        deadline_ms=st.none() | st.floats(),
        weight=st.floats(),
    ),
    max_size=5,
)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["c1", "c2"]), st.integers(0, 20), wishes, st.booleans(), st.sampled_from("el")
        ),
        max_size=30,
    )
)
def test_clients_are_consistent_whatever_they_say(
    steps: list[tuple[str, int, list[Wish], bool, str]],
) -> None:
    clients = Clients(["edge1"])
    last: dict[str, int] = {}
    brokers = count()
    for client, sequence, wanted, complete, then in steps:
        registration = Registration(
            client=client,
            sequence=sequence,
            public_key=b"",
            exchange_key=b"",
            complete=complete,
            wishes=tuple(wanted),
        )
        upsert = clients.register(registration, 0.0)
        if upsert.client is not None:
            assert sequence > last.get(client, -1)
            last[client] = sequence
        for served in upsert.added:
            clients.place(served, f"edge{next(brokers) % 3}")
        if then == "l":
            clients.leave(client)
        assert clients.problems() == []


def low(broker: str, state: LoadState = LoadState.LOW) -> BrokerLoad:
    return BrokerLoad(broker=broker, role="edge", state=state, measured=state)


@given(st.lists(st.tuples(st.booleans(), st.floats(0.1, 20.0)), max_size=40))
def test_a_topic_may_return_only_after_its_broker_was_low_for_a_while(
    looks: list[tuple[bool, float]],
) -> None:
    moved = MovedTopics(0.0)
    moved.add("t", "edge1", 0.0)
    now, low_since = 0.0, math.inf
    over = False
    for is_low, passed in looks:
        now += passed
        moved.loaded(low("edge1", LoadState.LOW if is_low else LoadState.HIGH), now)
        low_since = min(low_since, now) if is_low else math.inf
        over = over or now - low_since >= QUIET_S or now >= BURST_S
        assert moved.barred("t", now) == (frozenset() if over else {"edge1"})
